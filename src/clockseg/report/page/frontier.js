// What a plan found: agreement against time, drawn in SVG, and the same as a table.

import { byId, element, figure, percent } from './words.js';

const [WIDTH, HEIGHT, LEFT, BELOW, EDGE] = [440, 260, 58, 38, 14];

export function frontier(plan) {
  if (!plan) return;
  const section = byId('plan');
  section.hidden = false;
  const measure = `agreement (${plan.measure})`;
  const what = `${plan.schedule} on ${plan.network}, from ${plan.file}. Time 1 is ${plan.reference || 'the uncut network'} on every frame.`;
  section.append(element('p', {}, what));
  const marks = [
    ...plan.points.map((point) => ({ ...point, kind: 'frontier' })),
    ...(plan.promised ? [{ ...plan.promised, kind: 'promised', schedule: plan.schedule }] : []),
    ...(plan.held_back ? [{ ...plan.held_back, kind: 'held back', schedule: plan.schedule }] : []),
  ];
  if (marks.length)
    section.append(element('div', { className: 'frontier' }, chart(marks, measure), planTable(marks, measure)));
}

function svg(tag, attributes, text = '') {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

function chart(marks, measure) {
  const right = 1.08 * Math.max(...marks.map(({ time }) => time));
  const low = Math.max(0, Math.floor(20 * Math.min(...marks.map(({ agreement }) => agreement)) - 0.2) / 20);
  const x = (time) => LEFT + (time / right) * (WIDTH - LEFT - EDGE);
  const y = (agreement) => HEIGHT - BELOW - ((agreement - low) / (1 - low)) * (HEIGHT - BELOW - EDGE);
  const made = svg('svg', {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: 'img',
    'aria-label': `Frontier: ${measure} against relative time; the table has its figures`,
  });
  for (const agreement of ticks(low, 1)) {
    made.append(svg('line', { x1: LEFT, x2: WIDTH - EDGE, y1: y(agreement), y2: y(agreement), class: 'grid' }));
    made.append(svg('text', { x: LEFT - 8, y: y(agreement) + 4, 'text-anchor': 'end' }, percent(agreement, 1)));
  }
  for (const time of ticks(0, right)) {
    made.append(svg('text', { x: x(time), y: HEIGHT - BELOW + 18, 'text-anchor': 'middle' }, figure(time)));
  }
  const line = marks.filter(({ kind }) => kind === 'frontier');
  made.append(
    svg('polyline', {
      points: line.map((mark) => `${x(mark.time)},${y(mark.agreement)}`).join(' '),
      class: 'frontier-line',
    }),
  );
  for (const mark of marks) made.append(shape(mark, x(mark.time), y(mark.agreement)));
  made.append(svg('text', { x: WIDTH - EDGE, y: HEIGHT - 2, 'text-anchor': 'end' }, 'relative time'));
  return made;
}

/** Three to six numbers that people count in. */
function ticks(from, to) {
  const power = 10 ** Math.floor(Math.log10((to - from) / 3));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => (to - from) / one <= 6);
  const first = Math.ceil(from / step - 1e-9);
  return Array.from({ length: Math.floor(to / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
}

/** A small dot of the frontier, a disc for what is promised, a diamond for what was held back. */
function shape({ kind, time, agreement, schedule }, x, y) {
  const mark =
    kind === 'held back'
      ? svg('path', { d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z`, class: 'held-back' })
      : svg('circle', { cx: x, cy: y, r: kind === 'promised' ? 6 : 3.5, class: kind });
  mark.append(svg('title', {}, `${schedule}: ${percent(agreement, 2)} in ${figure(time)} of the time (${kind})`));
  return mark;
}

function planTable(marks, measure) {
  const head = element(
    'tr',
    {},
    ...['', 'schedule', 'time', measure].map((text) => element('th', { scope: 'col' }, text)),
  );
  const rows = marks.map(({ kind, schedule, time, agreement }) =>
    element(
      'tr',
      {},
      ...[kind, schedule, figure(time), percent(agreement, 2)].map((text) => element('td', {}, String(text))),
    ),
  );
  return element(
    'div',
    { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'The plan in figures' },
    element('table', {}, element('thead', {}, head), element('tbody', {}, ...rows)),
  );
}
