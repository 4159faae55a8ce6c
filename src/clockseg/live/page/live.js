"use strict";
// One request at a time for each source: it answers when there is a newer frame, and a slow page just gets fewer of them.

const show = { paused: false, masks: true, opacity: 0.55, hidden: new Set() };
const $ = (id) => document.getElementById(id);
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
// The token of the address is in its fragment, which browsers send to no one by themselves.
const ask = (path) => fetch(path, { headers: { Authorization: `Bearer ${location.hash.slice(1)}` } });
let colours = new Uint32Array(256);

async function begin() {
  const answer = await ask("about");
  if (!answer.ok) {
    $("setting").textContent = await answer.text();
    return;
  }
  const about = await answer.json();
  $("setting").textContent = `${about.network} in ${about.engine}, schedule: ${about.schedule}`;
  document.title = about.sources.length === 1 ? `${about.sources[0]} · clockseg live` : document.title;
  $("sources").classList.toggle("alone", about.sources.length === 1);
  const views = about.sources.map((name, number) => new View(name, number, about));
  legend(about, views);
  controls(views);
  views.forEach((view) => view.follow());
}

function legend(about, views) {
  const boxes = about.classes.map((name, id) => {
    const item = document.createElement("li"), label = document.createElement("label");
    const box = document.createElement("input"), swatch = document.createElement("span");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => { box.checked ? show.hidden.delete(id) : show.hidden.add(id); paint(about, views); });
    swatch.className = "swatch";
    swatch.style.backgroundColor = `rgb(${about.palette[id].join(",")})`;
    label.append(box, swatch, name);
    item.append(label);
    $("classes").append(item);
    return box;
  });
  document.querySelector(".legend").hidden = !boxes.length;
  const all = (on) => { boxes.forEach((box, id) => { box.checked = on; on ? show.hidden.delete(id) : show.hidden.add(id); }); paint(about, views); };
  $("all").addEventListener("click", () => all(true));
  $("none").addEventListener("click", () => all(false));
  paint(about, views);
}

function paint(about, views) {
  colours = new Uint32Array(256);
  about.palette.slice(0, 255).forEach(([red, green, blue], id) => {
    // Bytes in memory are red, green, blue, opacity.
    if (!show.hidden.has(id)) colours[id] = ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  });
  views.forEach((view) => view.drawMask());
}

function controls(views) {
  const pause = () => {
    show.paused = !show.paused;
    $("pause").setAttribute("aria-pressed", String(show.paused));
    $("pause").textContent = show.paused ? "Go on" : "Pause";
  };
  const opacity = () => {
    show.masks = $("masks").checked;
    show.opacity = $("opacity").value / 100;
    views.forEach((view) => { view.mask.style.opacity = show.masks ? show.opacity : 0; });
  };
  $("pause").addEventListener("click", pause);
  $("masks").addEventListener("change", opacity);
  $("opacity").addEventListener("input", opacity);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "p" || event.key === "P") pause();
    if (event.key === "m" || event.key === "M") { $("masks").checked = !$("masks").checked; opacity(); }
  });
  addEventListener("resize", () => views.forEach((view) => view.timeline.draw()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => views.forEach((view) => view.timeline.draw()));
  opacity();
}

class View {
  constructor(name, number, about) {
    const made = $("source").content.cloneNode(true);
    this.root = made.querySelector("article");
    this.name = name;
    this.number = number;
    this.after = 0;
    this.picture = made.querySelector(".picture");
    this.mask = made.querySelector(".mask");
    this.ids = null;
    made.querySelector("h2").textContent = name;
    this.say("Connecting", "");
    this.picture.setAttribute("aria-label", `The newest frame of ${name}`);
    this.timeline = new Timeline(made.querySelector(".timeline"), about);
    $("sources").append(made);
    this.timeline.draw();
  }

  async follow() {
    for (;;) {
      try {
        const answer = await ask(`new?source=${this.number}&after=${this.after}`);
        if (!answer.ok) throw new Error(String(answer.status));
        await this.take(await answer.arrayBuffer());
      } catch (error) {
        this.say("The run has ended, or can't be reached", "gone");
        await wait(2000);
      }
      while (show.paused) await wait(100);
      // A page that isn't seen asks for nothing.
      while (document.hidden) await wait(500);
    }
  }

  async take(buffer) {
    const length = new DataView(buffer).getUint32(0);
    const told = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    this.tell(told.state);
    if (!told.number) return;
    const start = 4 + length;
    const picture = await createImageBitmap(new Blob([new Uint8Array(buffer, start, told.picture)], { type: "image/jpeg" }));
    const masks = told.masks ? await createImageBitmap(new Blob([new Uint8Array(buffer, start + told.picture, told.masks)], { type: "image/png" }), { colorSpaceConversion: "none" }) : null;
    if (told.number < this.after) this.timeline.clear();
    this.after = told.number;
    this.draw(picture, masks);
    this.timeline.add(told.moments);
  }

  draw(picture, masks) {
    this.root.querySelector(".empty").hidden = true;
    this.root.querySelector(".empty").style.display = "none";
    for (const canvas of [this.picture, this.mask]) {
      if (canvas.width !== picture.width || canvas.height !== picture.height) { canvas.width = picture.width; canvas.height = picture.height; }
    }
    this.picture.getContext("2d").drawImage(picture, 0, 0);
    this.ids = masks && this.read(masks);
    this.drawMask();
    picture.close();
    if (masks) masks.close();
  }

  read(masks) {
    const canvas = this.reader || (this.reader = document.createElement("canvas"));
    canvas.width = masks.width;
    canvas.height = masks.height;
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(masks, 0, 0);
    return context.getImageData(0, 0, masks.width, masks.height);
  }

  drawMask() {
    if (!this.ids) return;
    const { width, height, data } = this.ids, drawn = new ImageData(width, height), pixels = new Uint32Array(drawn.data.buffer);
    for (let place = 0; place < pixels.length; place += 1) pixels[place] = colours[data[4 * place]];
    // Painted from memory, so that is where it is kept.
    this.mask.getContext("2d", { willReadFrequently: true }).putImageData(drawn, 0, 0);
  }

  say(text, kind) {
    const state = this.root.querySelector(".state");
    if (state.textContent !== text) state.textContent = text;
    state.className = `state ${kind}`;
  }

  tell(state) {
    const words = { connecting: "Connecting", live: "Live", ended: "Ended", failed: "Given up" };
    const gone = state.state !== "live" && state.frames;
    this.say(words[state.state] + (state.trouble ? `: ${state.trouble}` : ""), state.state === "live" ? "live" : gone ? "gone" : "");
    if (!state.latency_ms) return;
    const figure = (name, text) => { this.root.querySelector(`[data-figure=${name}]`).textContent = text; };
    const ms = (value) => (value === null ? "–" : `${value.toFixed(value < 10 ? 1 : 0)} ms`);
    figure("median", ms(state.latency_ms.median));
    figure("p99", ms(state.latency_ms.p99));
    figure("fps", state.source_fps.toFixed(1));
    figure("rate", state.network_rate === null ? "–" : `${(100 * state.network_rate).toFixed(0)} %`);
    figure("dropped", `${state.dropped} of ${state.frames + state.dropped}`);
    figure("reconnects", String(state.reconnects));
  }
}

class Timeline {
  constructor(canvas, about) {
    this.canvas = canvas;
    this.stages = about.stages;
    this.most = about.history;
    this.moments = [];
  }

  clear() { this.moments = []; }

  add(moments) {
    this.moments = this.moments.concat(moments).slice(-this.most);
    this.draw();
  }

  draw() {
    const canvas = this.canvas, ratio = devicePixelRatio || 1, row = 14, top = 12, below = 52;
    const width = canvas.clientWidth || 600, height = top + row * this.stages.length + 10 + below;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    pen.scale(ratio, ratio);
    pen.font = `12px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    pen.fillStyle = colour("soft");
    const left = Math.min(width / 3, 12 + Math.max(...this.stages.map((name) => pen.measureText(name).width), pen.measureText("latency").width));
    this.stages.forEach((name, stage) => pen.fillText(name, 0, top + row * stage + row / 2, left - 8));
    const pitch = 5, room = Math.max(1, Math.floor((width - left) / pitch)), shown = this.moments.slice(-room);
    const most = Math.max(20, ...shown.map((moment) => moment[3])), base = height - 4, tall = below - 8;
    shown.forEach((moment, place) => this.column(pen, moment, width - (shown.length - place) * pitch, { row, top, colour, pitch }));
    pen.fillStyle = colour("soft");
    pen.fillText("latency", 0, base - tall / 2, left - 8);
    pen.fillText(`${most.toFixed(0)} ms`, left, base - tall - 1);
    pen.strokeStyle = colour("line");
    pen.strokeRect(left, base, width - left, 0);
    pen.fillStyle = colour("held");
    shown.forEach((moment, place) => {
      const high = moment[3] === null ? 0 : Math.max(1, (tall - 8) * moment[3] / most);
      pen.fillRect(width - (shown.length - place) * pitch, base - high, pitch - 1, high);
    });
    this.describe(shown);
  }

  column(pen, [, fired, fill, , dropped], x, { row, top, colour, pitch }) {
    this.stages.forEach((_, stage) => {
      const y = top + row * stage;
      pen.fillStyle = colour(fill ? "ink" : fired & (1 << stage) ? "fired" : "held");
      if (fill) pen.fillRect(x, y, pitch - 1, row);
      else if (fired & (1 << stage)) pen.fillRect(x, y + 2, pitch - 1, row - 4);
      else pen.fillRect(x, y + row / 2, pitch - 1, 1);
    });
    if (dropped) {
      pen.fillStyle = colour("mark");
      pen.beginPath();
      pen.moveTo(x - 2, 2);
      pen.lineTo(x + pitch + 1, 2);
      pen.lineTo(x + pitch / 2, 9);
      pen.fill();
    }
  }

  describe(shown) {
    const rates = this.stages.map((name, stage) => `${name} fired on ${shown.filter((moment) => moment[1] & (1 << stage)).length}`);
    const dropped = shown.reduce((sum, moment) => sum + moment[4], 0);
    this.canvas.setAttribute("aria-label", `Of the last ${shown.length} frames: ${rates.join(", ")}; ${dropped} dropped between them.`);
  }
}

begin();
