// What is looked at: one frame, a stretch of the time line, and how masks are drawn. Whoever draws listens.

export class View {
  constructor(frames) {
    Object.assign(this, {
      frames,
      frame: 0,
      from: 0,
      to: frames,
      opacity: 0.55,
      hidden: new Set(),
      mode: 'one',
      other: 1,
      listeners: [],
    });
  }

  on(listener) {
    this.listeners.push(listener);
  }

  /** Change some of it; listeners get the names of what changed. */
  set(part) {
    const names = Object.keys(part).filter((name) => this[name] !== part[name]);
    Object.assign(this, part);
    if (names.length) for (const listener of this.listeners) listener(new Set(names));
  }

  toggle(id) {
    const hidden = new Set(this.hidden);
    if (!hidden.delete(id)) hidden.add(id);
    this.set({ hidden });
  }

  /** Show a stretch `factor` times as long, around the frame looked at. */
  zoom(factor) {
    const length = Math.min(
      this.frames,
      Math.max(Math.min(24, this.frames), Math.round((this.to - this.from) * factor)),
    );
    this.stretch(this.frame - (length * (this.frame - this.from)) / (this.to - this.from), length);
  }

  /** Have the frame looked at in the stretch. */
  follow() {
    if (this.frame < this.from || this.frame >= this.to) {
      const length = this.to - this.from;
      this.stretch(this.frame - length * 0.1, length);
    }
  }

  stretch(from, length) {
    const start = Math.round(Math.min(Math.max(0, from), this.frames - length));
    this.set({ from: start, to: start + length });
  }
}
