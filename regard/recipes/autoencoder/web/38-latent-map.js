// The latent space as a map: a line, a plane or a space with the codes of inputs in it, and a mark at the code that is decoded.

const NEAR = 7;  // pixels from a code at which it is meant
const LATENT_GROUPS = 24;  // labels that are named below the map
const TRAVEL = 4;  // pixels of a drag

class LatentMap {
  // placed(place): somebody points at a place; picked(row): at the code of an input
  constructor(part, here, { placed, picked }) {
    Object.assign(this, { part, here, placed, picked, dims: part.axes.length, place: part.here.place, row: null, lit: null });
    this.held = part.held;
    this.canvas = make("canvas", { class: "splats" });
    this.marks = make("canvas", { class: "marks" });
    this.thumb = make("div", { class: "thumb", hidden: true, "aria-hidden": "true" });
    const count = this.held?.count ?? 0;
    const moves = this.dims > 2 ? "arrow keys turn, plus and minus zoom" : "arrow keys move the point that is decoded";
    this.frame = make("div", {
      class: `space latent-map${this.dims > 2 ? "" : " flat"}`, tabindex: "0", role: "application", "aria-roledescription": "map",
      "aria-label": `latent space with the codes of ${count} inputs; ${moves}, page keys go from input to input, Home to this input`,
    }, this.canvas, this.marks, this.thumb);
    this.readout = make("output", { class: "readout short", "aria-live": "polite" });
    this.legend = make("div", { class: "legend" });
    this.element = make("div", { class: "latent-map-figure" }, this.readout, this.frame, this.legend);
    this.camera = new Camera(false);
    this.drawn = "points";  // or "inputs", small at their codes, or "decoded", below the points
  }

  get count() {
    return this.held?.count ?? 0;
  }

  async load() {
    const { held, part } = this;
    this.places = held ? floatsOf(await unpacked(held.places)) : new Float32Array(0);
    this.shown = held ? await new Exhibit(part.inputs, held.shown).load() : null;
    this.grid = part.grid ? await new Exhibit(part.inputs, part.grid.shown).load() : null;
    this.thumbs = new Map((held?.thumbs ?? []).map((row, k) => [row, k]));
    this.seen = seenArrays(this.count);
    if (this.dims > 2) this.steer();
    else this.listen();
    this.frame.addEventListener("keydown", (event) => this.stepped(event));
    this.here.sized(this.element, (width) => this.arrange(width));
    this.here.paint(() => this.paint());
    this.say(null);
  }

  // ---- where things are

  arrange(width) {
    const wide = Math.min(width - 2, 720);
    if (this.dims > 2) this.size = spaceSize(wide);
    else {
      const [across, up] = this.dims === 1 ? [1, 0.28] : this.part.axes.map((_, i) => this.part.high[i] - this.part.low[i]);
      const high = Math.min(640, Math.max(this.dims === 1 ? 120 : 240, (wide * up) / across));
      this.size = { width: Math.round(wide), height: Math.round(high) };
    }
    for (const canvas of [this.canvas, this.marks]) sharpen(canvas, this.size.width, this.size.height);
    Object.assign(this.frame.style, { width: `${this.size.width}px`, height: `${this.size.height}px` });
    this.paint();
  }

  // one scale for both axes: distances are what is to be seen
  get scale() {
    const { low, high } = this.part;
    const { width, height } = this.size;
    if (this.dims === 1) return width / (high[0] - low[0]);
    return Math.min(width / (high[0] - low[0]), height / (high[1] - low[1]));
  }

  middle(i) {
    return (this.part.low[i] + this.part.high[i]) / 2;
  }

  pixel(place, spread = 0.5) {
    const { width, height } = this.size;
    const x = width / 2 + (place[0] - this.middle(0)) * this.scale;
    return [x, this.dims === 1 ? height * spread : height / 2 - (place[1] - this.middle(1)) * this.scale];
  }

  under(x, y) {
    const { width, height } = this.size;
    const across = this.middle(0) + (x - width / 2) / this.scale;
    return this.dims === 1 ? [across] : [across, this.middle(1) - (y - height / 2) / this.scale];
  }

  // of codes with three numbers: half the longest side of the map
  get radius() {
    return Math.max(...this.part.axes.map((_, i) => this.part.high[i] - this.part.low[i])) / 2 || 1;
  }

  inSpace(place) {
    return place.map((value, i) => (value - this.middle(i)) / this.radius);
  }

  project() {
    const { dims, places, seen } = this;
    if (dims > 2) {
      if (!this.scaled) {
        this.scaled = new Float32Array(places.length);
        for (let k = 0; k < this.count; k++) this.scaled.set(this.inSpace([...places.subarray(3 * k, 3 * k + 3)]), 3 * k);
      }
      this.camera.project(this.scaled, 3, this.size, seen);
      return;
    }
    for (let k = 0; k < this.count; k++) {
      const spread = 0.5 + 0.55 * (((k * 0.6180339887) % 1) - 0.5);  // along a line, codes are spread so that each is seen
      [seen.x[k], seen.y[k]] = this.pixel(places.subarray(k * dims, (k + 1) * dims), spread);
    }
  }

  // ---- what is drawn

  colour(k) {
    return this.held.classes ? ofHead(this.held.classes[k]) : sequential(0.6);
  }

  paint() {
    if (!this.size) return;
    this.project();
    if (this.dims > 2) this.paintSpace();
    else this.paintPlane();
    this.paintMarks();
    this.paintLegend();
  }

  paintSpace() {
    this.splats ??= new Splats(this.canvas, this.count);
    const paper = paperOf(this.frame);
    const colours = new Uint8ClampedArray(3 * this.count);
    const radii = new Float32Array(this.count);
    for (let k = 0; k < this.count; k++) {
      const faint = this.lit !== null && this.held.classes[k] !== this.lit;
      colours.set(faint ? mixed(this.colour(k), paper, 0.85) : this.colour(k), 3 * k);
      radii[k] = (this.count > 400 ? 3 : 4.5) * this.seen.size[k];
    }
    this.splats.paint(this.seen, radii, colours, paper, this.size);
  }

  paintPlane() {
    const context = sharpened(this.canvas);
    const { width, height } = this.size;
    const style = getComputedStyle(this.frame);
    context.clearRect(0, 0, width, height);
    if (this.drawn === "decoded") this.paintBackground(context);
    paintLatentAxes(this, context, style);
    const radius = this.count > 400 ? 2.6 : 4;
    for (let k = 0; k < this.count; k++) {
      const inputs = this.drawn === "inputs";
      context.globalAlpha = this.lit !== null && this.held.classes[k] !== this.lit ? 0.1 : inputs ? 1 : 0.85;
      context.fillStyle = css(this.colour(k));
      if (inputs && this.thumbs.has(k)) {
        this.paintInput(context, k);
        continue;
      }
      context.beginPath();
      context.arc(this.seen.x[k], this.seen.y[k], radius, 0, 7);
      context.fill();
      if (this.drawn === "decoded") {
        context.strokeStyle = "#0008";
        context.lineWidth = 0.7;
        context.stroke();
      }
    }
    context.globalAlpha = 1;
  }

  // an input in a frame of the colour of its label
  paintInput(context, k) {
    const half = Math.max(9, Math.min(16, this.size.width / 40));
    const [x, y] = [this.seen.x[k] - half, this.seen.y[k] - half];
    context.fillRect(x - 1.5, y - 1.5, 2 * half + 3, 2 * half + 3);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.shown.image, ...this.shown.cell(this.thumbs.get(k)), x, y, 2 * half, 2 * half);
  }

  // what is decoded at each field of the map
  paintBackground(context) {
    const { rows, columns } = this.part.grid;
    const { low, high } = this.part;
    const [left, top] = this.pixel(this.dims === 1 ? [low[0]] : [low[0], high[1]], 0);
    const wide = ((high[0] - low[0]) * this.scale) / columns;
    const tall = this.dims === 1 ? Math.min(wide, this.size.height) : ((high[1] - low[1]) * this.scale) / rows;
    const offset = this.dims === 1 ? (this.size.height - tall) / 2 : 0;
    context.imageSmoothingEnabled = false;
    for (let k = 0; k < rows * columns; k++) {
      const [x, y] = [left + (k % columns) * wide, top + offset + Math.floor(k / columns) * tall];
      context.drawImage(this.grid.image, ...this.grid.cell(k), x + 0.05 * wide, y + 0.05 * tall, 0.9 * wide, 0.9 * tall);
    }
  }

  seenAt(place) {
    if (this.dims < 3) return this.pixel(place);
    const one = seenArrays(1);
    this.camera.project(Float32Array.from(this.inSpace(place)), 3, this.size, one);
    return [one.x[0], one.y[0]];
  }

  // the code that is decoded, and that of this input
  paintMarks() {
    const context = sharpened(this.marks);
    const { width, height } = this.size;
    const style = getComputedStyle(this.frame);
    const [ink, paper] = [style.color, style.backgroundColor];
    context.clearRect(0, 0, width, height);
    if (this.dims > 2) paintDirections(this, context, style);
    const [a, b] = this.seenAt(this.part.here.place);
    const [x, y] = this.seenAt(this.place);
    for (const [colour, wide] of [[paper, 4.5], [ink, 2]]) {
      Object.assign(context, { strokeStyle: colour, lineWidth: wide });
      context.strokeRect(a - 6, b - 6, 12, 12);
      context.beginPath();
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        context.moveTo(x + 5 * dx, y + 5 * dy);
        context.lineTo(x + 14 * dx, y + 14 * dy);
      }
      context.stroke();
    }
  }

  paintLegend() {
    const { held, part } = this;
    const itself = make("span", { class: "key itself" }, make("span", { class: "mark hollow" }), clipped(shown(part.here.name), 40));
    const cross = make("span", { class: "key" }, make("span", { class: "cross", "aria-hidden": "true" }, "✛"), "decoded");
    const present = new Set(held?.classes ?? []);
    const keys = (held?.labels ?? []).map((label, k) => [label, k]).filter(([, k]) => present.has(k)).slice(0, LATENT_GROUPS);
    refill(this.legend, itself, cross, keys.map(([label, k]) => this.groupKey(label, k)));
  }

  // one label alone, or all again
  groupKey(label, k) {
    const touched = () => {
      this.lit = this.lit === k ? null : k;
      this.paint();
      [...this.legend.querySelectorAll("button")].find((button) => button.dataset.label === String(k))?.focus();
    };
    const dot = make("span", { class: "dot", style: `--colour: ${css(ofHead(k))}` });
    return make("button", { type: "button", class: "key", "data-label": k, "aria-pressed": String(this.lit === k), onclick: touched }, dot, clipped(shown(label), 30));
  }

  // ---- who points where

  at(event) {
    const box = this.frame.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  nearest(x, y, reach = NEAR) {
    return nearestSeen(this.seen, x, y, reach);
  }

  listen() {
    let down = null;
    const to = ([x, y]) => this.go(this.under(x, y), null);
    this.frame.addEventListener("pointerdown", (event) => {
      if (event.button > 0) return;
      this.frame.setPointerCapture(event.pointerId);
      down = this.at(event);
      const row = this.nearest(...down);
      this.hover(null);
      if (row === null) to(down);
      else this.go(this.placeOf(row), row);
    });
    this.frame.addEventListener("pointermove", (event) => {
      const now = this.at(event);
      if (down === null) {
        if (event.pointerType === "mouse") this.hover(this.nearest(...now, 14));
        return;
      }
      if (down.length && Math.hypot(now[0] - down[0], now[1] - down[1]) < TRAVEL) return;
      down = [];  // from now on it is a drag
      to(now);
    });
    const ended = () => {
      down = null;
    };
    for (const name of ["pointerup", "pointercancel"]) this.frame.addEventListener(name, ended);
    this.frame.addEventListener("pointerleave", () => this.hover(null));
  }

  steer() {
    steered(this.frame, this.camera, {
      moved: () => this.paint(),
      pointed: (x, y) => this.hover(x === null ? null : this.nearest(x, y, 14)),
      chosen: (x, y) => {
        const row = this.nearest(x, y, 12);
        if (row === null) this.go(this.unprojected(x, y), null);
        else this.go(this.placeOf(row), row);
      },
    });
  }

  // the place in space that is seen there, as far away as the one that is decoded now
  unprojected(x, y) {
    const one = seenArrays(1);
    this.camera.project(Float32Array.from(this.inSpace(this.place)), 3, this.size, one);
    const { yaw, pitch, zoom } = this.camera;
    const scale = 0.46 * zoom * Math.min(this.size.width, this.size.height) * one.size[0];
    const [right, up, depth] = [(x - this.size.width / 2) / scale, (this.size.height / 2 - y) / scale, one.depth[0]];
    const deep = depth * Math.cos(pitch) + up * Math.sin(pitch);
    const found = [right * Math.cos(yaw) + deep * Math.sin(yaw), deep * Math.cos(yaw) - right * Math.sin(yaw),
      up * Math.cos(pitch) - depth * Math.sin(pitch)];
    return found.map((value, i) => value * this.radius + this.middle(i));
  }

  placeOf(row) {
    return [...this.places.subarray(row * this.dims, (row + 1) * this.dims)];
  }

  stepped(event) {
    if (event.ctrlKey || event.metaKey) return;
    const far = { PageDown: 1, PageUp: -1 }[event.key];
    if (far && this.count) {
      event.preventDefault();
      const row = ((this.row ?? (far > 0 ? -1 : 0)) + far + this.count) % this.count;
      this.go(this.placeOf(row), row);
      return;
    }
    if (this.dims > 2) return;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (event.key !== "Home" && !step) return;
    event.preventDefault();
    if (!step) return this.go(this.part.here.place, "here");
    const { low, high } = this.part;
    const stride = (event.shiftKey ? 5 : 1) * ((high[0] - low[0]) / 60);
    this.go(this.place.map((value, i) => Math.min(high[i], Math.max(low[i], value + step[i] * stride))), null);
  }

  // somebody chose a place, the code of an input, or that of this input
  go(place, row) {
    const inside = place.map((value, i) => (this.dims > 2 ? value : Math.min(this.part.high[i], Math.max(this.part.low[i], value))));
    this.show(inside, row);
    if (row === null) this.placed(inside);
    else this.picked(row);
  }

  show(place, row) {
    this.place = place;
    this.row = typeof row === "number" ? row : null;
    if (this.size) this.paintMarks();
  }

  // ---- what is told

  hover(row) {
    this.say(row);
    const k = row === null ? undefined : this.thumbs.get(row);
    this.thumb.hidden = row === null || k === undefined;
    if (this.thumb.hidden) return;
    refill(this.thumb, make("span", { class: "cell" }, this.shown.small(k)), this.nameOf(row));
    const [x, y] = [this.seen.x[row], this.seen.y[row]];
    const wide = this.thumb.offsetWidth;
    this.thumb.style.left = `${x + 16 + wide > this.size.width ? Math.max(0, x - 16 - wide) : x + 16}px`;
    this.thumb.style.top = `${Math.max(4, Math.min(this.size.height - this.thumb.offsetHeight - 4, y - this.thumb.offsetHeight / 2))}px`;
  }

  nameOf(row) {
    const { names, labels, classes } = this.held;
    return `${clipped(shown(names[row]), 40)}${classes ? `, ${clipped(shown(labels[classes[row]]), 30)}` : ""}`;
  }

  say(row) {
    if (row !== null) {
      refill(this.readout, make("bdi", {}, this.nameOf(row)));
      return;
    }
    refill(this.readout, make("span", { class: "quiet" }, mapWords(this.part)));
  }
}

function mapWords({ axes, explained, held, latent }) {
  const which = held ? `Each point is the code of an input of the ${held.split} split.` : "There are no inputs to draw.";
  if (axes.length === 1) return `${which} Up and down they are only spread, so that each is seen.`;
  if (!explained.length) return which;
  const share = explained.reduce((a, b) => a + b, 0);
  return `${which} ${axes.join(" and ")} are the first two principal components of ${latent} numbers: ${percent(share)} of the variance.`;
}
