// Drawing on canvases: sharp on any screen, in the theme's colours, many frames a pixel column.

/** The canvas's context, its size that of the element; units are CSS pixels. */
export function prepared(canvas) {
  const scale = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return { context, width, height };
}

/** The theme's colours by name. */
export function inks() {
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ['paper', 'ink', 'soft', 'line', 'accent', 'mark', 'held'];
  const parts = Array.from({ length: 8 }, (_, i) => ink(`part-${i}`));
  return { ...Object.fromEntries(names.map((name) => [name, ink(name)])), parts };
}

/** Calls `draw(x, width, first, end)` for each column of pixels, or each frame where frames are wider. */
export function columns({ from, to }, width, draw) {
  const frames = to - from;
  const steps = Math.min(frames, Math.max(1, Math.floor(width)));
  for (let i = 0; i < steps; i += 1) {
    const first = from + Math.floor((i * frames) / steps);
    const end = Math.max(first + 1, from + Math.floor(((i + 1) * frames) / steps));
    draw((i * width) / steps, width / steps, first, end);
  }
}

/** Least, most and mean of values that are numbers; null if none is. */
export function extent(values, first, end) {
  let low = Infinity;
  let high = -Infinity;
  let sum = 0;
  let seen = 0;
  for (let k = first; k < end; k += 1) {
    const value = values[k];
    if (Number.isNaN(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
    sum += value;
    seen += 1;
  }
  return seen ? { low, high, mean: sum / seen } : null;
}

/** Diagonal lines, to tell areas apart without colour. */
export function hatched(context, colour, gap = 5) {
  const tile = document.createElement('canvas');
  tile.width = gap;
  tile.height = gap;
  const lines = tile.getContext('2d');
  lines.strokeStyle = colour;
  lines.lineWidth = 1.3;
  lines.beginPath();
  for (const shift of [-gap, 0, gap]) {
    lines.moveTo(shift, gap);
    lines.lineTo(shift + gap, 0);
  }
  lines.stroke();
  return context.createPattern(tile, 'repeat');
}
