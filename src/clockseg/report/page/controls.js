// Buttons and sliders: playing and stepping, masks and classes, one run or two.

import { anyFires } from './data.js';
import { element, percent } from './words.js';

const SPEEDS = [0.25, 0.5, 1, 2, 4];

/** Playing and stepping; gives back what has to be told when it starts or stops. */
export function transport(place, facts, view, actions) {
  const button = (text, label, press) => {
    const made = element('button', { type: 'button', 'aria-label': label, title: label }, text);
    made.addEventListener('click', press);
    return made;
  };
  const play = button('▶', 'Play (space)', actions.playOrPause);
  play.className = 'play';
  const speed = element(
    'select',
    { 'aria-label': 'Speed' },
    ...SPEEDS.map((rate) => new Option(`${rate}×`, rate, rate === 1, rate === 1)),
  );
  speed.addEventListener('change', () => actions.setSpeed(Number(speed.value)));
  const fired = facts.runs[0].trace !== null;
  place.append(
    ...(fired ? [button('⇤', 'To the firing before (P)', () => actions.toFiring(-1))] : []),
    button('‹', 'One frame back (left arrow)', () => actions.step(-1)),
    play,
    button('›', 'One frame on (right arrow)', () => actions.step(1)),
    ...(fired ? [button('⇥', 'To the next firing (N)', () => actions.toFiring(1))] : []),
    speed,
  );
  return (playing) => {
    play.textContent = playing ? '❚❚' : '▶';
    play.setAttribute('aria-label', playing ? 'Pause (space)' : 'Play (space)');
  };
}

/** The nearest frame before or after this one on which a stage fired; this one if there is none. */
export function firingFrom(run, frame, direction) {
  for (let k = frame + direction; k >= 0 && k < run.trace.fired.length; k += direction) {
    if (anyFires(run, k)) return k;
  }
  return frame;
}

/** Opacity, and a switch a class with its share of the frame. */
export class MaskControls {
  constructor(place, facts, view) {
    Object.assign(this, { facts, view });
    const [run] = facts.runs;
    if (!run.masks) {
      place.hidden = true;
      return;
    }
    this.slider = element('input', {
      type: 'range',
      id: 'opacity',
      min: 0,
      max: 100,
      value: Math.round(100 * view.opacity),
    });
    this.slider.addEventListener('input', () => view.set({ opacity: this.slider.value / 100 }));
    this.told = element('output', { htmlFor: 'opacity' });
    const label = element('label', { htmlFor: 'opacity' }, 'Opacity');
    place.append(element('h2', {}, 'Masks'), element('div', { className: 'opacity' }, label, this.slider, this.told));
    if (run.shares.length) place.append(this.classes(run));
    if (run.means) place.append(scale(run));
    this.changed();
  }

  classes(run) {
    this.shares = [];
    const rows = run.shares.map(({ id, share }) => {
      const box = element('input', { type: 'checkbox', checked: true });
      box.addEventListener('change', () => this.view.toggle(id));
      const swatch = element('i', { className: 'swatch' });
      swatch.style.backgroundColor = `rgb(${run.palette[id].join(',')})`;
      const value = element('span', { className: 'share' });
      this.shares.push({ share, value });
      return element(
        'label',
        {},
        box,
        swatch,
        element('span', { className: 'class-name' }, run.classes[id] ?? `class ${id}`),
        value,
      );
    });
    const list = element('div', { className: 'classes', role: 'group', 'aria-label': 'Classes' }, ...rows);
    const all = element('button', { type: 'button', className: 'plain' }, 'All or none');
    all.addEventListener('click', () => {
      const boxes = [...list.querySelectorAll('input')];
      const on = !boxes.every((box) => box.checked);
      for (const box of boxes) box.checked = on;
      this.view.set({ hidden: new Set(on ? [] : run.shares.map(({ id }) => id)) });
    });
    return element('div', {}, list, all);
  }

  changed() {
    if (!this.slider) return;
    this.slider.value = Math.round(100 * this.view.opacity);
    this.told.textContent = percent(this.view.opacity);
    for (const { share, value } of this.shares ?? []) value.textContent = percent(share[this.view.frame], 1);
  }
}

/** What the colours of numbers mean. */
function scale(run) {
  const bar = element('canvas', {
    className: 'scale',
    width: 255,
    height: 1,
    role: 'img',
    'aria-label': 'From low, dark, to high, bright',
  });
  const context = bar.getContext('2d');
  run.palette.slice(0, 255).forEach((colour, x) => {
    context.fillStyle = `rgb(${colour.join(',')})`;
    context.fillRect(x, 0, 1, 1);
  });
  return element('div', { className: 'scale-row' }, element('span', {}, 'low'), bar, element('span', {}, 'high'));
}

/** One run, two side by side, or where they differ; and which other. */
export function modes(place, facts, view) {
  if (facts.runs.length < 2) return;
  place.hidden = false;
  const choices = [
    ['one', 'This run'],
    ['side', 'Side by side'],
    ['difference', 'Differences'],
  ];
  const radios = choices.map(([mode, text]) => {
    const radio = element('input', { type: 'radio', name: 'mode', value: mode, checked: mode === view.mode });
    radio.addEventListener('change', () => view.set({ mode }));
    return element('label', {}, radio, element('span', {}, text));
  });
  place.append(element('div', { className: 'segments', role: 'radiogroup', 'aria-label': 'What is shown' }, ...radios));
  const others = facts.runs.slice(1).map((run, i) => new Option(run.name, i + 1));
  const select = element('select', { 'aria-label': 'Compared with' }, ...others);
  select.addEventListener('change', () => view.set({ other: Number(select.value) }));
  if (others.length > 1) place.append(element('label', { className: 'against' }, 'against', select));
  else place.append(element('span', { className: 'against' }, `against ${facts.runs[1].name}`));
}
