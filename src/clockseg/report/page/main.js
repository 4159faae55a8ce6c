// The page, put together.

import { compared } from './compared.js';
import { MaskControls, firingFrom, modes, transport } from './controls.js';
import { readFacts } from './data.js';
import { setUpKeys } from './keys.js';
import { Moment } from './moment.js';
import { bytesOf } from './packed.js';
import { Panels } from './panels.js';
import { ClockPlayer, VideoPlayer } from './player.js';
import { tables } from './tables.js';
import { setUpTheme } from './theme.js';
import { Timeline } from './timeline.js';
import { View } from './view.js';
import { byId, count, duration, percent, plural } from './words.js';

function heading(facts) {
  const [run] = facts.runs;
  const { network_rate: network, relative_time_estimate: time } = run.headline;
  byId('name').textContent = facts.name;
  const length = facts.timed && facts.frames > 1 ? `, ${duration(facts.seconds[facts.frames - 1])}` : '';
  const parts = [plural(facts.frames, 'frame') + length, run.name];
  if (network !== null) parts.push(`the network ran on ${percent(network)} of them`);
  if (time !== null) parts.push(`about ${percent(time)} of the time of every stage on every frame`);
  byId('summary').textContent = parts.join(' · ');
  byId('foot').textContent =
    `Written by clockseg ${facts.version}. Nothing on this page was fetched, and nothing leaves it.`;
}

/** Something that shows frames; where a video can't be played, a clock takes its place. */
function stageFor(facts, told) {
  const { embedded, url, seconds } = facts.picture;
  const clock = () => new ClockPlayer(seconds, told);
  if (!embedded && !url) return { player: clock() };
  const bytes = embedded && new Blob([bytesOf(byId('video').textContent)], { type: 'video/mp4' });
  byId('video').remove();
  const failed = () => {
    stage.player = clock();
    told.failed();
  };
  const stage = { player: new VideoPlayer(embedded ? URL.createObjectURL(bytes) : url, seconds, { ...told, failed }) };
  return stage;
}

function pictureNote(facts, panels, frame) {
  const told = [];
  const shown = panels.frameOfMask();
  if (shown !== frame)
    told.push(`Masks of frame ${count(facts.numbers[shown])}: each ${facts.runs[0].masks.every}th is on this page.`);
  if (facts.picture.drawn) told.push('The masks are drawn in this video; the slider adds to them.');
  return told.join(' ');
}

function viewOf(facts) {
  const view = new View(facts.frames);
  if (facts.picture.drawn) view.opacity = 0;
  else if (!facts.picture.embedded && !facts.picture.url) view.opacity = 1;
  return view;
}

async function main() {
  const facts = await readFacts();
  const view = viewOf(facts);
  heading(facts);
  const parts = {};
  const stage = stageFor(facts, {
    shown: (frame) => {
      view.set({ frame });
      parts.panels?.draw();
    },
    changed: () => parts.started?.(stage.player.playing),
    failed: () => {
      byId('main').dataset.video = 'failed';
      byId('picture-note').textContent = failure(facts);
      view.set({ opacity: 1 });
    },
  });
  const actions = actionsOn(facts, view, stage);
  parts.panels = new Panels(byId('panels'), facts, view, stage);
  parts.started = transport(byId('transport'), facts, view, actions);
  modes(byId('modes'), facts, view);
  parts.masks = new MaskControls(byId('masks'), facts, view);
  parts.moment = new Moment(byId('moment'), facts, view);
  parts.timeline = new Timeline(byId('lanes'), facts, view, actions.go);
  view.on((changed) => update(changed, facts, view, parts));
  compared(facts, view);
  tables(facts);
  byId('compared').addEventListener('click', ({ target }) => {
    if (target.id === 'worst') actions.go(Number(target.dataset.frame));
  });
  setUpTheme(() => parts.timeline.draw());
  setUpKeys(keysFor(view, actions));
  byId('picture-note').textContent ||= pictureNote(facts, parts.panels, 0);
  byId('main').dataset.runs = facts.runs.length;
  byId('main').dataset.ready = 'yes';
}

/** Bring all parts up to what the view has become. */
function update(changed, facts, view, { panels, masks, moment, timeline }) {
  const any = (...names) => names.some((name) => changed.has(name));
  if (any('other')) {
    timeline.arrange();
    compared(facts, view);
  }
  if (any('mode', 'other')) panels.arrange();
  else if (any('hidden', 'opacity')) panels.draw();
  if (any('from', 'to')) timeline.draw();
  if (any('frame')) {
    view.follow();
    timeline.moved();
    const failed = byId('main').dataset.video === 'failed';
    byId('picture-note').textContent = failed ? failure(facts) : pictureNote(facts, panels, view.frame);
  }
  moment.moved();
  masks.changed();
}

function failure({ picture }) {
  const where = picture.url ? ` It is looked for at ${picture.url}, as seen from this page.` : '';
  return `The video can't be played; these are the masks alone.${where}`;
}

function actionsOn(facts, view, stage) {
  const go = (frame) => stage.player.seek(Math.min(Math.max(0, frame), facts.frames - 1));
  const stop = () => {
    if (stage.player.playing) stage.player.pause();
  };
  // While a video is on its way the view is behind it: steps are counted from where it goes.
  return {
    go,
    step: (by) => {
      stop();
      go(stage.player.frame + by);
    },
    toFiring: (direction) => {
      stop();
      if (facts.runs[0].trace) go(firingFrom(facts.runs[0], stage.player.frame, direction));
    },
    playOrPause: () => (stage.player.playing ? stage.player.pause() : stage.player.play()),
    setSpeed: (rate) => {
      stage.player.speed = rate;
    },
  };
}

function keysFor(view, actions) {
  const opacity = (by) => view.set({ opacity: Math.min(1, Math.max(0, Math.round(10 * (view.opacity + by)) / 10)) });
  let before = view.opacity || 0.55;
  const masks = () => {
    if (view.opacity) before = view.opacity;
    view.set({ opacity: view.opacity ? 0 : before });
  };
  return [
    [[' ', 'k'], ['Space'], 'play or pause', actions.playOrPause],
    [['ArrowLeft', ','], ['←'], 'one frame back', () => actions.step(-1)],
    [['ArrowRight', '.'], ['→'], 'one frame on', () => actions.step(1)],
    [['Shift+ArrowLeft'], ['Shift', '←'], 'ten frames back', () => actions.step(-10)],
    [['Shift+ArrowRight'], ['Shift', '→'], 'ten frames on', () => actions.step(10)],
    [['Home'], ['Home'], 'the first frame', () => actions.go(0)],
    [['End'], ['End'], 'the last frame', () => actions.go(view.frames - 1)],
    [['p'], ['P'], 'the firing before', () => actions.toFiring(-1)],
    [['n'], ['N'], 'the next firing', () => actions.toFiring(1)],
    [['m'], ['M'], 'masks on or off', masks],
    [['['], ['['], 'fainter masks', () => opacity(-0.1)],
    [[']'], [']'], 'stronger masks', () => opacity(0.1)],
    [['+', '='], ['+'], 'zoom the timeline in', () => view.zoom(0.5)],
    [['-'], ['−'], 'zoom it out', () => view.zoom(2)],
    [['0'], ['0'], 'all of it', () => view.stretch(0, view.frames)],
    [['?'], ['?'], 'this list', () => byId('keys').showModal()],
  ];
}

main();
