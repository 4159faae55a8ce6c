// The timeline: lanes over one axis, a line at the frame looked at; a click or the arrow keys go elsewhere.

import { lanesOf, written } from './lanes.js';
import { inks, prepared } from './painting.js';
import { frameAt } from './player.js';
import { byId, clockTime, count, element } from './words.js';

const AXIS_HEIGHT = 24;
const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

export class Timeline {
  constructor(place, facts, view, go) {
    Object.assign(this, { place, facts, view, go });
    this.head = element('div', { className: 'playhead', 'aria-hidden': 'true' });
    this.track = element('div', {
      className: 'track',
      role: 'slider',
      tabIndex: 0,
      'aria-label': 'Frame',
      'aria-valuemin': 1,
      'aria-valuemax': facts.frames,
    });
    this.arrange();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(place);
    zoomButtons(byId('zoom'), view);
  }

  /** Lanes for the run that is compared with. */
  arrange() {
    const axis = {
      label: '',
      note: '',
      height: AXIS_HEIGHT,
      said: () => '',
      draw: (on, view, ink) => this.axis(on, view, ink),
    };
    this.lanes = [axis, ...lanesOf(this.facts, this.view.other)];
    this.canvases = this.lanes.map(() => element('canvas', { 'aria-hidden': 'true' }));
    this.values = this.lanes.map(() => element('span', { className: 'lane-value' }));
    this.scales = this.lanes.map(() => element('div', { className: 'lane-scale' }));
    const names = this.lanes.map((lane, i) => laneName(lane, this.values[i]));
    this.lanes.forEach((lane, i) => {
      this.canvases[i].style.height = `${lane.height}px`;
      names[i].style.height = `${lane.height}px`;
      this.scales[i].style.height = `${lane.height}px`;
    });
    this.track.replaceChildren(...this.canvases, this.head);
    this.place.replaceChildren(
      element('div', { className: 'lane-names' }, ...names),
      this.track,
      element('div', { className: 'lane-scales', 'aria-hidden': 'true' }, ...this.scales),
    );
    this.draw();
  }

  listen() {
    const at = (event) => {
      const box = this.track.getBoundingClientRect();
      const share = Math.min(Math.max(0, (event.clientX - box.left) / box.width), 1);
      this.go(Math.min(this.view.to - 1, this.view.from + Math.floor(share * (this.view.to - this.view.from))));
    };
    this.track.addEventListener('pointerdown', (event) => {
      this.track.setPointerCapture(event.pointerId);
      at(event);
    });
    this.track.addEventListener('pointermove', (event) => {
      if (event.buttons & 1) at(event);
    });
  }

  draw() {
    const ink = inks();
    this.lanes.forEach((lane, i) => {
      const scale = lane.draw(prepared(this.canvases[i]), this.view, ink) ?? [];
      this.scales[i].replaceChildren(...scale.map((text) => element('span', {}, text)));
    });
    this.moved();
  }

  /** The frame looked at is another. */
  moved() {
    const { frame, from, to } = this.view;
    this.head.style.left = `${(100 * (frame + 0.5 - from)) / (to - from)}%`;
    this.lanes.forEach((lane, i) => {
      this.values[i].textContent = lane.said(frame);
    });
    const said = this.lanes.filter((lane) => lane.said(frame)).map((lane) => `${lane.label} ${lane.said(frame)}`);
    this.track.setAttribute('aria-valuenow', frame + 1);
    this.track.setAttribute('aria-valuetext', [`frame ${this.facts.numbers[frame]}`, ...said].join(', '));
  }

  axis({ context, width, height }, { from, to }, ink) {
    const most = Math.max(1, Math.min(to - from, Math.floor(width / 84)));
    context.strokeStyle = ink.line;
    for (const [frame, text] of this.facts.timed ? this.times(from, to, most) : this.counts(from, to, most)) {
      const x = Math.round(((frame - from) / (to - from)) * width) + 0.5;
      context.beginPath();
      context.moveTo(x, height - 6);
      context.lineTo(x, height);
      context.stroke();
      written(context, text, x + 1, height - 9, x > width - 40 ? 'right' : 'left', ink.soft, ink);
    }
  }

  /** Frames at round times, and these. */
  times(from, to, most) {
    const { seconds } = this.facts;
    const least = (seconds[to - 1] - seconds[from]) / most;
    const step = STEPS.find((one) => one >= least) ?? 3600 * Math.ceil(least / 3600);
    const first = Math.ceil(seconds[from] / step - 1e-6);
    const last = Math.floor(seconds[to - 1] / step + 1e-6);
    const digits = step < 0.1 ? 2 : step < 1 ? 1 : 0;
    return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step).map((time) => [
      frameAt(seconds, time + 1e-4),
      clockTime(time, digits),
    ]);
  }

  /** Each so many frames, and their numbers. */
  counts(from, to, most) {
    const least = (to - from) / most;
    const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least);
    const first = Math.ceil(from / step);
    return Array.from({ length: Math.ceil(to / step) - first }, (_, i) => (first + i) * step).map((frame) => [
      frame,
      count(this.facts.numbers[frame]),
    ]);
  }
}

function laneName(lane, value) {
  const name = element(
    'div',
    { className: lane.heading ? 'lane-name lane-heading' : 'lane-name' },
    element('span', { className: 'lane-label' }, lane.label),
    value,
  );
  if (lane.note) name.append(element('span', { className: 'lane-note' }, lane.note));
  if (lane.parts) name.append(legend(lane.parts));
  return name;
}

function legend(parts) {
  const items = parts.map(({ name, ink }) =>
    element('li', {}, element('i', { className: `swatch part-${ink}` }), name),
  );
  return element('ul', { className: 'legend', 'aria-label': 'From the bottom' }, ...items);
}

function zoomButtons(place, view) {
  const button = (text, label, press) => {
    const made = element('button', { type: 'button', 'aria-label': label, title: label }, text);
    made.addEventListener('click', press);
    return made;
  };
  place.append(
    button('−', 'Zoom out (-)', () => view.zoom(2)),
    button('+', 'Zoom in (+)', () => view.zoom(0.5)),
    button('All', 'Show all frames (0)', () => view.stretch(0, view.frames)),
  );
}
