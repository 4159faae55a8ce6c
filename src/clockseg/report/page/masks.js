// The label maps of a run: chunks of maps, each map but a chunk's first XORed with the one before it.

import { inflated } from './packed.js';

const CHUNKS_HELD = 6;

export class MaskReader {
  /** `ready()` is called when a map that was asked for has been taken apart. */
  constructor(facts, ready) {
    Object.assign(this, { width: facts.width, height: facts.height, every: facts.every, kept: facts.kept });
    this.perChunk = facts.chunk;
    this.chunks = facts.chunks;
    this.ready = ready;
    this.held = new Map();
  }

  /** The frame whose map stands for this one: itself, or, of thinned maps, the last one kept. */
  frameShown(frame) {
    return this.kept ? Math.min(Math.floor(frame / this.every), this.kept - 1) * this.every : 0;
  }

  /** The map that stands for a frame, a byte a pixel; null until it has been taken apart. */
  at(frame) {
    if (!this.kept) return null;
    const map = Math.min(Math.floor(frame / this.every), this.kept - 1);
    const chunk = Math.floor(map / this.perChunk);
    this.hold(chunk + 1);
    const maps = this.hold(chunk);
    const size = this.width * this.height;
    const start = (map % this.perChunk) * size;
    return maps && maps.subarray(start, start + size);
  }

  /** The maps of a chunk, one after the other, if they are there; else they are on their way. */
  hold(chunk) {
    if (chunk >= this.chunks.length) return null;
    const found = this.held.get(chunk);
    if (found === undefined) {
      this.held.set(chunk, null);
      this.open(chunk);
      return null;
    }
    this.held.delete(chunk);
    this.held.set(chunk, found);
    return found;
  }

  async open(chunk) {
    const maps = await inflated(this.chunks[chunk]);
    const size = this.width * this.height;
    for (let i = size; i < maps.length; i += 1) maps[i] ^= maps[i - size];
    this.held.set(chunk, maps);
    for (const old of this.held.keys()) {
      if (this.held.size <= CHUNKS_HELD) break;
      this.held.delete(old);
    }
    this.ready();
  }
}
