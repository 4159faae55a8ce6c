// The lanes of the timeline: each draws a stretch of frames, gives back its scale (top, bottom), and says what a frame has.

import { fires } from './data.js';
import { columns, extent, hatched } from './painting.js';
import { figure, milliseconds, percent } from './words.js';

/** When a stage fired: a block; it held: a low line. Of many frames in a column, as high as the share that fired. */
function firedLane(run, stage, label) {
  const said = (frame) => {
    if (!run.trace.there[frame]) return 'not run';
    if (run.trace.fill[frame]) return 'fills';
    return fires(run, stage, frame) ? 'fires' : 'holds';
  };
  return {
    label,
    height: 22,
    said,
    draw({ context, width, height }, view, ink) {
      const floor = height - 2;
      const hatch = hatched(context, ink.paper);
      columns(view, width, (x, wide, first, end) => {
        const gap = wide > 4 ? 1 : 0;
        let on = 0;
        let fill = false;
        for (let k = first; k < end; k += 1) {
          on += fires(run, stage, k) ? 1 : 0;
          fill ||= run.trace.fill[k] === 1;
        }
        const high = Math.max(on ? 3 : 0, (on / (end - first)) * (height - 6));
        context.fillStyle = ink.held;
        context.fillRect(x, floor - 2, wide - gap, 2);
        context.fillStyle = ink.accent;
        context.fillRect(x, floor - high, wide - gap, high);
        if (!fill) return;
        context.fillStyle = ink.mark;
        context.fillRect(x, floor - high, Math.max(2, wide - gap), high);
        context.fillStyle = hatch;
        if (wide > 4) context.fillRect(x, floor - high, wide - gap, high);
      });
    },
  };
}

/** Frames whose output was moved along, or made from both sides, in place of being computed. */
function carriedLane(run, names) {
  return {
    label: 'carried',
    height: 22,
    said: (frame) =>
      ({ '': 'nothing', interpolated: 'made from both sides' })[names[run.trace.carried[frame]]] ?? 'moved along',
    draw({ context, width, height }, view, ink) {
      const floor = height - 2;
      const hatch = hatched(context, ink.soft, 4);
      columns(view, width, (x, wide, first, end) => {
        const gap = wide > 4 ? 1 : 0;
        let moved = 0;
        for (let k = first; k < end; k += 1) moved += run.trace.carried[k] ? 1 : 0;
        const high = (moved / (end - first)) * (height - 8);
        context.fillStyle = hatch;
        context.fillRect(x, floor - high, wide - gap, high);
      });
    },
  };
}

/** A line: the band from least to most of each column, and its mean; a dashed one at `mark`. */
function lineLane({ label, values, height, mark = null, top = null, bottom = 0, say = figure, note = '' }) {
  const span = extent(values, 0, values.length) ?? { low: 0, high: 1 };
  const high = Math.max(top ?? 1.08 * Math.max(span.high, mark ?? 0), bottom + 1e-9);
  return {
    label,
    note,
    height,
    said: (frame) => say(values[frame]),
    draw({ context, width, height: tall }, view, ink) {
      const y = (value) => tall - 3 - ((Math.min(value, high) - bottom) / (high - bottom)) * (tall - 8);
      drawLine(context, values, view, width, y, ink);
      if (mark !== null) drawMark(context, mark, y(mark), width, ink);
      return [say(high), say(bottom)];
    },
  };
}

function drawLine(context, values, view, width, y, ink) {
  context.fillStyle = ink.accent;
  context.strokeStyle = ink.accent;
  context.lineWidth = 1.5;
  context.lineJoin = 'round';
  context.beginPath();
  let open = false;
  columns(view, width, (x, wide, first, end) => {
    const found = extent(values, first, end);
    if (found === null) {
      open = false;
      return;
    }
    context.globalAlpha = 0.25;
    if (end - first > 1) context.fillRect(x, y(found.high), wide, Math.max(1, y(found.low) - y(found.high)));
    context.globalAlpha = 1;
    if (!open && wide > 6) context.fillRect(x + wide / 2 - 1.5, y(found.mean) - 1.5, 3, 3);
    if (open) context.lineTo(x + wide / 2, y(found.mean));
    else context.moveTo(x + wide / 2, y(found.mean));
    open = true;
  });
  context.stroke();
}

function drawMark(context, value, y, width, ink) {
  context.strokeStyle = ink.mark;
  context.lineWidth = 1.25;
  context.setLineDash([6, 4]);
  context.beginPath();
  context.moveTo(0, y);
  context.lineTo(width, y);
  context.stroke();
  context.setLineDash([]);
  written(context, `threshold ${figure(value)}`, width - 4, y < 14 ? y + 13 : y - 4, 'right', ink.mark, ink);
}

/** Small text with a rim of paper, so that it can be read on anything. */
export function written(context, text, x, y, align, colour, ink) {
  context.font = '11px system-ui, sans-serif';
  context.textAlign = align;
  context.lineWidth = 3;
  context.lineJoin = 'round';
  context.strokeStyle = ink.paper;
  context.strokeText(text, x, y);
  context.fillStyle = colour;
  context.fillText(text, x, y);
}

/** Parts on top of each other: `parts` has a name, values and a colour (or its place among the theme's) each. */
function stackedLane({ label, parts, height, top = null, say, note = '' }) {
  const whole = (k) => parts.reduce((sum, part) => sum + (part.values[k] || 0), 0);
  return {
    label,
    note,
    height,
    said: (frame) => say(whole(frame)),
    draw({ context, width, height: tall }, view, ink) {
      const high = top ?? stackedTop(view, width, whole);
      const room = tall - 4;
      columns(view, width, (x, wide, first, end) => {
        const gap = wide > 4 ? 1 : 0;
        let floor = tall - 1;
        for (const part of parts) {
          const found = extent(part.values, first, end);
          const up = found === null ? 0 : (Math.max(0, found.mean) / high) * room;
          context.fillStyle = part.colour ?? ink.parts[part.ink];
          // A hair of paper between parts: areas end where colours may not tell.
          context.fillRect(x, floor - up, wide - gap, up > 3 ? up - 0.75 : up);
          floor -= up;
        }
      });
      return [say(high), say(0)];
    },
  };
}

/** Of the columns to be seen, the highest, but for the highest hundredth: a first frame may take a second. */
function stackedTop(view, width, whole) {
  const heights = [];
  columns(view, width, (x, wide, first, end) => {
    let sum = 0;
    for (let k = first; k < end; k += 1) sum += whole(k);
    heights.push(sum / (end - first));
  });
  heights.sort((a, b) => a - b);
  return 1.1 * Math.max(heights[Math.floor(0.99 * (heights.length - 1))], 1e-6);
}

/** All lanes of the page, in their order. */
export function lanesOf(facts, other) {
  const [run] = facts.runs;
  const second = facts.runs.length > 1 ? facts.runs[other] : null;
  return [
    ...(second ? [headingLane(run.name)] : []),
    ...stageLanes(run, facts),
    ...shareLanes(run),
    ...otherLanes(second, facts),
  ];
}

/** Whether anything was moved along. */
function moves(run) {
  return run.trace.carried.some((one) => one !== 0);
}

/** The name of a run over its lanes. */
function headingLane(label) {
  return { label, heading: true, height: 24, said: () => '', draw: () => null };
}

function stageLanes(run, facts) {
  if (!run.trace) return [];
  return [
    ...run.stages.map((name, stage) => firedLane(run, stage, name)),
    ...(moves(run) ? [carriedLane(run, facts.carried)] : []),
    ...run.trace.signal.flatMap((values, stage) => (values ? [signalLane(run, values, stage)] : [])),
    secondsLane(run, facts.parts),
  ];
}

function signalLane(run, values, stage) {
  const mark = run.thresholds[stage];
  return lineLane({
    label: `signal of ${run.stages[stage]}`,
    note: mark ? `fires ${mark.below ? 'below' : 'at'} ${figure(mark.value)}` : 'no threshold that stays',
    values,
    height: 76,
    mark: mark && mark.value,
  });
}

function secondsLane(run, names) {
  const parts = run.trace.seconds.map((values, i) => ({
    name: [...run.stages, ...names][i],
    values,
    ink: i < run.stages.length ? Math.min(i, 3) : 4 + i - run.stages.length,
  }));
  return { ...stackedLane({ label: 'time per frame', parts, height: 88, say: milliseconds }), parts };
}

function shareLanes(run) {
  if (run.means)
    return [
      lineLane({
        label: 'mean value',
        values: run.means,
        height: 76,
        bottom: extent(run.means, 0, run.means.length)?.low ?? 0,
      }),
    ];
  if (!run.shares.length) return [];
  const colour = (id) => `rgb(${run.palette[id].join(',')})`;
  const parts = run.shares.map(({ id, share }) => ({
    name: run.classes[id] ?? `class ${id}`,
    values: share,
    colour: colour(id),
  }));
  const lane = stackedLane({
    label: 'class shares',
    note: 'in the colours of the masks',
    parts,
    height: 88,
    top: 1,
    say: percent,
  });
  return [{ ...lane, said: (frame) => largest(parts, frame) }];
}

/** The part that has most of a frame. */
function largest(parts, frame) {
  const most = parts.reduce((one, other) => (other.values[frame] > one.values[frame] ? other : one));
  return `${most.name} ${percent(most.values[frame])}`;
}

function otherLanes(second, facts) {
  if (!second) return [];
  const rows = second.trace ? second.stages.map((name, stage) => firedLane(second, stage, name)) : [];
  if (second.trace && moves(second)) rows.push(carriedLane(second, facts.carried));
  rows.unshift(headingLane(second.name));
  if (!second.difference) return rows;
  const { agreement } = second.difference;
  const low = extent(agreement, 0, facts.frames)?.low ?? 0;
  const bottom = Math.max(0, Math.floor(20 * low) / 20 - 0.05);
  return [
    ...rows,
    lineLane({
      label: 'agreement',
      values: agreement,
      height: 76,
      top: 1,
      bottom,
      say: (value) => percent(value, 1),
      note: 'share of pixels of one class',
    }),
  ];
}
