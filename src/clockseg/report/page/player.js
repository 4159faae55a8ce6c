// What shows frames in time: a video, or, where there is none, a clock. Both tell `shown(frame)`.

/** The frame that is to be seen at a time: the last that begins at or before it. */
export function frameAt(seconds, time) {
  let low = 0;
  let high = seconds.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (seconds[middle] <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

const SLACK = 0.002; // Browsers round times to the microsecond, containers to the millisecond.

export class VideoPlayer {
  constructor(url, seconds, { shown, changed, failed }) {
    Object.assign(this, { seconds, shown, changed, wanted: null, frame: 0 });
    this.video = document.createElement('video');
    Object.assign(this.video, { muted: true, playsInline: true, preload: 'auto', src: url });
    this.video.addEventListener('loadeddata', () => this.seek(this.frame));
    this.video.addEventListener('seeked', () => this.arrived());
    for (const event of ['play', 'pause', 'ended']) this.video.addEventListener(event, changed);
    this.video.addEventListener('error', failed);
    this.watch();
  }

  get playing() {
    return !this.video.paused && !this.video.ended;
  }

  set speed(rate) {
    this.video.playbackRate = rate;
  }

  play() {
    if (this.frame >= this.seconds.length - 1) this.seek(0);
    this.video.play().catch(() => this.changed());
  }

  pause() {
    this.video.pause();
    this.seek(this.frame);
  }

  /** Go to a frame; of several asked for while the video is on its way, the last one counts. */
  seek(frame) {
    this.frame = frame;
    if (this.video.readyState < 1) return;
    if (this.video.seeking) {
      this.wanted = frame;
      return;
    }
    const gap = frame + 1 < this.seconds.length ? this.seconds[frame + 1] - this.seconds[frame] : 0.02;
    this.video.currentTime = this.seconds[frame] + Math.min(gap / 2, 0.5);
  }

  arrived() {
    const { wanted } = this;
    this.wanted = null;
    if (wanted !== null && wanted !== frameAt(this.seconds, this.video.currentTime + SLACK)) this.seek(wanted);
    else this.show(this.video.currentTime);
  }

  watch() {
    const next = (now, told) => {
      if (!this.video.seeking) this.show(told ? told.mediaTime : this.video.currentTime);
      this.watch();
    };
    if (this.video.requestVideoFrameCallback) this.video.requestVideoFrameCallback(next);
    else requestAnimationFrame((now) => next(now, null));
  }

  show(time) {
    this.frame = frameAt(this.seconds, time + SLACK);
    this.shown(this.frame);
  }

  /** Draw what is to be seen; `ratio`: the height of the picture by its width, what is below it is left out. */
  draw(context, width, height, ratio) {
    if (this.video.readyState < 2) return false;
    const across = this.video.videoWidth;
    const down = Math.min(this.video.videoHeight, Math.round(across * ratio));
    context.drawImage(this.video, 0, 0, across, down, 0, 0, width, height);
    return true;
  }
}

export class ClockPlayer {
  constructor(seconds, { shown, changed }) {
    Object.assign(this, { seconds, shown, changed, frame: 0, speed: 1, playing: false });
  }

  play() {
    if (this.frame >= this.seconds.length - 1) this.frame = 0;
    this.playing = true;
    this.changed();
    let time = this.seconds[this.frame];
    let before = performance.now();
    const next = (now) => {
      if (!this.playing) return;
      time += ((now - before) / 1000) * this.speed;
      before = now;
      this.seek(frameAt(this.seconds, time));
      if (this.frame >= this.seconds.length - 1) this.pause();
      else requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  }

  pause() {
    this.playing = false;
    this.changed();
  }

  seek(frame) {
    this.frame = frame;
    this.shown(frame);
  }

  draw() {
    return false;
  }
}
