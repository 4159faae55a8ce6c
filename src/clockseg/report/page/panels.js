// The picture with the masks over it: one panel, or two side by side, or one with where runs differ.

import { MaskReader } from './masks.js';
import { element } from './words.js';

const MOST_ACROSS = 1280;
const DIFFERS = [214, 0, 110];

export class Panels {
  constructor(place, facts, view, stage) {
    Object.assign(this, { place, facts, view, stage });
    this.readers = facts.runs.map((run) => run.masks && new MaskReader(run.masks, () => this.draw()));
    this.arrange();
  }

  /** Panels for the mode. */
  arrange() {
    const { mode, other } = this.view;
    const shown = mode === 'side' ? [0, other] : [0];
    this.panels = shown.map((run) => this.panel(run));
    this.place.replaceChildren(...this.panels.map(({ figure }) => figure));
    this.place.dataset.count = this.panels.length;
    this.draw();
  }

  panel(run) {
    const { width, height } = this.facts.picture;
    const scale = Math.min(1, MOST_ACROSS / width);
    const canvas = element('canvas', { role: 'img' });
    canvas.width = Math.max(1, Math.round(Math.max(width, 64) * scale));
    canvas.height = Math.max(1, Math.round((canvas.width * height) / width));
    // As wide as there is room for, and no higher than leaves the timeline in sight.
    const ratio = canvas.width / canvas.height;
    canvas.style.aspectRatio = ratio;
    canvas.style.width = `min(100%, ${62 * ratio}vh)`;
    const caption = element('figcaption', {}, this.caption(run));
    return {
      run,
      canvas,
      figure: element('figure', { className: 'panel' }, canvas, caption),
      mask: document.createElement('canvas'),
    };
  }

  caption(run) {
    const { runs } = this.facts;
    if (this.view.mode === 'difference')
      return `Where ${runs[this.view.other].name} differs from ${runs[0].name}: striped`;
    return runs.length > 1 ? runs[run].name : `Masks of ${runs[run].name}`;
  }

  draw() {
    for (const panel of this.panels) {
      const { canvas, run } = panel;
      const context = canvas.getContext('2d');
      context.fillStyle = '#101214';
      context.fillRect(0, 0, canvas.width, canvas.height);
      this.stage.player.draw(
        context,
        canvas.width,
        canvas.height,
        this.facts.picture.height / this.facts.picture.width,
      );
      if (this.colour(panel)) {
        context.imageSmoothingEnabled = canvas.width > panel.mask.width && panel.mask.width > 64;
        context.globalAlpha = this.view.mode === 'difference' ? 0.85 : this.view.opacity;
        context.drawImage(panel.mask, 0, 0, canvas.width, canvas.height);
        context.globalAlpha = 1;
      }
      canvas.setAttribute(
        'aria-label',
        `Frame ${this.facts.numbers[this.view.frame]} with masks, ${this.facts.runs[run].name}`,
      );
    }
  }

  /** Colour the panel's mask; false if there is none to draw. */
  colour(panel) {
    const reader = this.readers[panel.run];
    const map = reader?.at(this.view.frame);
    if (!map) return false;
    const { width, height } = reader;
    Object.assign(panel.mask, { width, height });
    const context = panel.mask.getContext('2d');
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    if (this.view.mode === 'difference') {
      if (!this.differences(pixels, map, width, height)) return false;
    } else {
      const table = this.table(this.facts.runs[panel.run]);
      for (let i = 0; i < map.length; i += 1) pixels[i] = table[map[i]];
    }
    context.putImageData(image, 0, 0);
    return true;
  }

  /** A colour for each class id, as a pixel in memory; nothing for those that are hidden or have none. */
  table(run) {
    const table = new Uint32Array(256);
    const bytes = new Uint8ClampedArray(table.buffer);
    run.palette.slice(0, 255).forEach((colour, id) => {
      if (!this.view.hidden.has(id)) bytes.set([...colour, 255], 4 * id);
    });
    return table;
  }

  /** Stripes where the other run's map has another class. */
  differences(pixels, map, width, height) {
    const reader = this.readers[this.view.other];
    const against = reader?.at(this.view.frame);
    if (!against || reader.width !== width || reader.height !== height) return false;
    const colour = new Uint32Array(new Uint8Array([...DIFFERS, 255]).buffer)[0];
    const light = new Uint32Array(new Uint8Array([255, 255, 255, 255]).buffer)[0];
    for (let y = 0, i = 0; y < height; y += 1) {
      for (let x = 0; x < width; x += 1, i += 1) {
        if (map[i] !== against[i]) pixels[i] = (x + y) % 6 < 2 ? light : colour;
      }
    }
    return true;
  }

  /** The frame whose map is drawn: of thinned maps not always the one looked at. */
  frameOfMask() {
    return this.readers[0] ? this.readers[0].frameShown(this.view.frame) : this.view.frame;
  }
}
