// In words: what the frame looked at is, and what happened on it.

import { fires } from './data.js';
import { clockTime, count, element, figure, milliseconds, percent } from './words.js';

export class Moment {
  constructor(place, facts, view) {
    Object.assign(this, { facts, view });
    this.title = element('h2');
    this.time = element('p', { className: 'moment-time' });
    this.rows = element('tbody');
    const head = element(
      'tr',
      {},
      ...['stage', 'now', 'signal', 'time'].map((text) => element('th', { scope: 'col' }, text)),
    );
    const table = element('table', { className: 'moment-table' }, element('thead', {}, head), this.rows);
    this.below = element('p', { className: 'moment-below' });
    place.append(this.title, this.time, ...(facts.runs[0].trace ? [table] : []), this.below);
    this.moved();
  }

  moved() {
    const { facts, view } = this;
    const { frame } = view;
    this.title.textContent = `Frame ${count(facts.numbers[frame])}`;
    const time = facts.timed ? `${clockTime(facts.seconds[frame], 3)} · ` : '';
    this.time.textContent = `${time}${count(frame + 1)} of ${count(facts.frames)}`;
    const [run] = facts.runs;
    if (run.trace) this.rows.replaceChildren(...run.stages.map((name, stage) => stageRow(run, stage, frame)));
    this.below.textContent = [...this.parts(run, frame), ...this.agreement(frame)].join(' · ');
  }

  /** Seconds beside the stages', and what was carried. */
  parts(run, frame) {
    if (!run.trace) return [];
    const carried = this.facts.carried[run.trace.carried[frame]];
    const spent = this.facts.parts.map((name, i) => [name, run.trace.seconds[run.stages.length + i][frame]]);
    const told = spent
      .filter(([, seconds]) => seconds >= 0.00005)
      .map(([name, seconds]) => `${name} ${milliseconds(seconds)}`);
    return [
      ...(carried ? [carried === 'interpolated' ? 'made from both sides' : `${carried} moved along`] : []),
      ...told,
    ];
  }

  agreement(frame) {
    const difference = this.facts.runs[this.view.other]?.difference;
    return difference ? [`agrees with the other run on ${percent(difference.agreement[frame], 1)}`] : [];
  }
}

function stageRow(run, stage, frame) {
  const on = fires(run, stage, frame);
  const word = run.trace.fill[frame] ? 'fills' : on ? 'fires' : 'holds';
  const signal = run.trace.signal[stage]?.[frame] ?? NaN;
  return element(
    'tr',
    { className: on ? 'on' : '' },
    element('th', { scope: 'row' }, run.stages[stage]),
    element('td', { className: `state ${word}` }, word),
    element('td', {}, figure(signal)),
    element('td', {}, on ? milliseconds(run.trace.seconds[stage][frame]) : ''),
  );
}
