// Where runs differ, over all frames: a map, and what they agree on.

import { byId, count, element, percent } from './words.js';

/** Fill the section for the run that is compared with. */
export function compared(facts, view) {
  const section = byId('compared');
  const run = facts.runs[view.other];
  const difference = run?.difference;
  section.hidden = !difference;
  if (!difference) return;
  const [title] = section.children;
  section.replaceChildren(
    title,
    element('div', { className: 'compared' }, map(difference), told(facts, run, difference)),
  );
}

function map({ places, width, height }) {
  const canvas = element('canvas', {
    width,
    height,
    role: 'img',
    'aria-label': 'Map of where the labels differ, brighter: on more frames',
  });
  const context = canvas.getContext('2d');
  const image = context.createImageData(width, height);
  const most = Math.max(
    1,
    places.reduce((high, one) => Math.max(high, one), 0),
  );
  places.forEach((share, i) => {
    const level = share / most;
    image.data.set([20 + 235 * level, 24 + 180 * level ** 2, 32 + 60 * level ** 3, 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
  const low = element('span', {}, 'never');
  const high = element('span', {}, `on ${percent(most / 255)} of frames`);
  const bar = element('i', { className: 'heat', 'aria-hidden': 'true' });
  return element('figure', {}, canvas, element('figcaption', { className: 'scale-row' }, low, bar, high));
}

function told(facts, run, difference) {
  const row = (name, value) => element('div', {}, element('dt', {}, name), element('dd', {}, value));
  const worst = worstFrame(difference.agreement);
  const list = element(
    'dl',
    {},
    row('pixels of one class', percent(difference.pixel_acc, 2)),
    row('mIoU', percent(difference.mean_iu, 1)),
    row('frames compared', count(difference.frames)),
  );
  const where = element(
    'button',
    { type: 'button', className: 'plain', id: 'worst' },
    `Go to where they differ most: frame ${count(facts.numbers[worst])}`,
  );
  where.dataset.frame = worst;
  const text = `${facts.runs[0].name} against ${run.name}, whose labels stand for the truth. Mean IU is over the classes that hold 0.1 % of its pixels.`;
  return element('div', {}, element('p', {}, text), list, where);
}

function worstFrame(agreement) {
  let worst = 0;
  agreement.forEach((share, frame) => {
    if (share < agreement[worst] || Number.isNaN(agreement[worst])) worst = frame;
  });
  return worst;
}
