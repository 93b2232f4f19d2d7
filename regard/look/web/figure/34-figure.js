// A figure: things at places in space or in a plane, as discs or as a surface, coloured by what looks at them, by their groups or
// by a number. Every seed of a pool has a colour of its own.

const figureShown = { title: null, head: MEAN, off: new Set(), chosen: null, camera: null };
const SIZES = [[150, 6.5], [600, 5], [3000, 3.6], [9000, 2.5], [Infinity, 1.9]];  // up to so many points: radius in pixels

view("figure", ({ tab }) => tab, (part, place, here) => {
  const drawing = part.edges.length ? new NetworkDrawing(part, here) : new FigureDrawing(part, here);
  refill(place, make("div", { class: "title-line" }, make("h2", {}, part.title), make("p", { class: "facts" }, part.facts)),
    drawing.controls, make("div", { class: "space-figure" }, make("div", { class: "space-place" }, drawing.frame),
      make("div", { class: "space-side" }, drawing.sentence, drawing.readout, drawing.legend, drawing.rows?.element ?? null)),
    drawing.regionPlace);
  drawing.load().then(() => !here.closed && drawing.begin());
});

class FigureDrawing extends SpaceDrawing {
  constructor(part, here) {
    const flat = part.axes.length < 3;
    if (figureShown.camera?.flat !== flat) figureShown.camera = new Camera(flat);
    const keys = `arrow keys ${flat ? "move" : "turn"}, plus and minus zoom, page keys go from ${part.thing} to ${part.thing}`;
    super(part, here, figureShown.camera, keys);
    Object.assign(this, { sources: figureSources(part), source: null, row: null });
    const field = make("input", { type: "number", min: 1, max: part.count, placeholder: "none" });
    field.addEventListener("change", () => this.choose(field.value === "" ? null : this.placeOf(Number(field.value) - 1)));
    this.field = field;
    this.rows = new FigureRows(this);
    this.number = make("label", { class: "picker" }, make("span", {}, part.thing), field);
  }

  get flat() {
    return this.camera.flat;
  }

  get chosen() {
    return figureShown.chosen;
  }

  // what is looked at first: the seeds of a pool
  get best() {
    const pools = this.sources.filter(({ layer, proved }) => proved && layer?.what === "seed");
    const proved = this.sources.filter((source) => source.proved);
    return pools.at(-1) ?? proved.filter(({ layer }) => layer).at(-1) ?? proved[0] ?? this.sources[0] ?? null;
  }

  async load() {
    const { part } = this;
    const [numbers, faces] = await Promise.all([part.numbers, part.faces].map((text) => text && unpacked(text)).concat(super.load()));
    this.places = centredPlaces(this.given, this.dims);
    this.columns = numbers ? new Float32Array(numbers.buffer) : this.given;
    this.surface = faces && new Surface(this.canvas, new Int32Array(faces.buffer));
    this.splats = faces ? null : new Splats(this.canvas, this.count);
    this.strengths = new Float32Array(this.count);
    this.colours = new Uint8ClampedArray(3 * this.count);
    this.radii = new Float32Array(this.count);
  }

  begin() {
    this.listen();
    const drawn = new Map(Array.from(this.names, (name, k) => [name, k]));
    this.offerGroups({
      placeholder: "such as 1, 4-7",
      read: (text) => numbersOf(text, this.part.count)?.filter((number) => drawn.has(number)).map((number) => drawn.get(number)) ?? null,
      write: (places) => numbersInWords(places.map((k) => this.names[k]), (k) => String(k + 1)),
      listed: (region) => numbersInWords(region),
      called: (k) => nth(this.names[k]),
    });
    this.here.painters.push(() => this.recolour());
    this.pick(this.sources.find(({ title }) => title === figureShown.title) ?? this.best);
  }

  // another source of colours
  pick(source) {
    const { sources, part, here } = this;
    figureShown.title = source?.title ?? null;
    if (!source || figureShown.head >= source.heads.length) figureShown.head = MEAN;
    const names = sources.map(({ title }, k) => [k, title]);
    const which = picker(part.layers.length ? "layer" : "colour", names, sources.indexOf(source), (k) => this.pick(sources[Number(k)]));
    const heads = (source?.heads ?? []).map((number, k) => [k, `head ${nth(number)}`]);
    const headPicker = picker("head", [[MEAN, "mean of all"], ...heads], figureShown.head, (k) => {
      figureShown.head = Number(k);
      this.pick(source);
    });
    const alone = source?.layer && figureShown.head !== MEAN && here.page.data.live?.silence;
    refill(this.controls, sources.length > 1 ? which : null, heads.length > 1 ? headPicker : null,
      alone ? here.page.asked.silenceButton(source.layer.layer, source.heads[figureShown.head]) : null, this.number);
    this.show(source);
  }

  async show(source) {
    this.source = source;
    this.frame.hidden = source !== null && !source.proved;
    refill(this.legend);
    if (source && !source.proved) {
      this.sayUnproved(source.layer);
      return;
    }
    this.sentence.className = "sentence";
    this.sentence.textContent = source?.sentence ? `${this.surface ? "Colour" : "Colour and size"}: ${source.sentence}.` : "";
    if (source && !source.values) await source.load(this.count);
    if (this.here.closed || source !== this.source) return;
    this.choose(figureShown.chosen !== null && figureShown.chosen < this.count ? figureShown.chosen : null);
    performance.mark("regard:interactive");
  }

  // the layer of the attention view that lists what each point looks at
  get listed() {
    const layer = this.source?.layer;
    if (layer?.kind !== "among") return null;
    const all = this.here.page.data.views.find(({ view: name }) => name === "attention")?.layers ?? [];
    return all.find((each) => each.layer === layer.layer && each.call === layer.call && each.largest) ?? null;
  }

  async choose(k) {
    figureShown.chosen = k;
    this.field.value = k === null ? "" : this.names[k] + 1;
    this.row = null;
    if (k !== null && this.listed) {
      const row = await rowOf(this.listed, figureShown.head, this.names[k]);
      if (this.here.closed || figureShown.chosen !== k) return;
      this.row = Float32Array.from(this.names, (name) => row[name]);
    }
    this.recolour();
    this.say();
  }

  // the drawn point with this number, or the one nearest to it
  placeOf(number) {
    if (!Number.isFinite(number)) return null;
    let best = 0;
    for (let k = 0; k < this.count; k++) if (Math.abs(this.names[k] - number) < Math.abs(this.names[best] - number)) best = k;
    return best;
  }

  stepped(event) {
    if (event.key === "Escape") return this.choose(null);
    if (event.key === " " && this.left) {
      event.preventDefault();
      return this.left.flip(figureShown.chosen);
    }
    const step = { PageDown: 1, PageUp: -1 }[event.key];
    if (!step) return null;
    event.preventDefault();
    return this.choose(Math.min(this.count - 1, Math.max(0, (figureShown.chosen ?? -1) + step)));
  }

  mark() {
    this.paintMarks();
  }

  recolour() {
    if (!this.source?.proved || !this.colours) {
      if (this.colours) {
        const { plain } = this;
        for (let k = 0; k < this.count; k++) this.colours.set(plain, 3 * k);
        this.strengths.fill(0);
      }
    } else if (this.source.groups) this.colourByGroup();
    else if (this.source.many) this.colourByFew();
    else this.colourByOne();
    this.rows.show();
    this.paint();
  }

  // of what nothing is said of
  get plain() {
    return this.surface ? plainSurface() : plainColour();
  }

  colourByGroup() {
    const { values, groups: { names } } = this.source;
    for (let k = 0; k < this.count; k++) this.colours.set(ofHead(values[k]), 3 * k);
    this.strengths.fill(1);
    const there = new Set(values);
    const keys = names.map((name, k) => [name, k]).filter(([, k]) => there.has(k));
    refill(this.legend, keys.map(([name, k]) => make("span", { class: "key" },
      make("span", { class: "dot", style: `--colour: ${css(ofHead(k))}` }), shown(name))));
  }

  // a thing takes the colour of the one that has most to do with it, among those that are switched on
  colourByFew() {
    const { source, count } = this;
    const { layer } = source;
    const few = Array.from({ length: layer.count }, (_, k) => k);
    const lit = few.filter((k) => !figureShown.off.has(k));
    const nothing = this.plain;
    for (let k = 0; k < count; k++) this.colours.set(nothing, 3 * k);
    this.strengths.fill(0);
    const even = layer.kind === "asks" ? 1 / layer.count : 1 / this.part.count;
    const weights = lit.map((each) => [each, source.of(each, figureShown.head)]);
    const most = weights.reduce((largest, [, values]) => values.reduce((a, b) => Math.max(a, b), largest), 0);
    const full = Math.max(3 * even, ...weights.map(([, values]) => reach(values))) - even;
    for (const [each, values] of weights) {
      const colour = ofHead(each);
      for (let k = 0; k < count; k++) {
        const strength = Math.min(1, Math.max(0, values[k] - even) / full);
        if (strength <= this.strengths[k]) continue;
        this.strengths[k] = strength;
        this.colours.set(mixed(nothing, colour, Math.sqrt(strength)), 3 * k);
      }
    }
    const keys = few.map((each) => {
      const touched = () => {
        if (!figureShown.off.delete(each)) figureShown.off.add(each);
        this.recolour();
      };
      const dot = make("span", { class: "dot", style: `--colour: ${css(ofHead(each))}` });
      return make("button", {
        type: "button", class: "key few", onclick: touched, "aria-pressed": String(!figureShown.off.has(each)),
      }, dot, source.called(each));
    });
    const focus = [...this.legend.querySelectorAll("button")].indexOf(document.activeElement);
    refill(this.legend, keys, make("p", { class: "quiet" },
      `A ${this.part.thing} has the colour of the one with most weight on it, and is grey up to an even share (${three(even)}). Largest: ${three(most)}.`));
    if (focus >= 0) this.legend.querySelectorAll("button")[focus]?.focus();
  }

  colourByOne() {
    const { source, count, plain } = this;
    const values = this.row ?? source.of(0, figureShown.head);
    const around = Boolean(source.measure?.signed);
    const most = source.measure ? reach(values) : Math.max(3 / this.part.count, reach(values));
    for (let k = 0; k < count; k++) {
      const part = Math.max(around ? -1 : 0, Math.min(1, values[k] / most));
      this.strengths[k] = Math.abs(part);
      this.colours.set(around ? mixed(plain, diverging(Math.sign(part)), Math.abs(part)) : pointRamp(part), 3 * k);
    }
    const shade = (t) => (around ? mixed(plain, diverging(Math.sign(2 * t - 1)), Math.abs(2 * t - 1)) : pointRamp(t));
    const stops = around ? [[0, three(-most)], [0.5, "0"], [1, three(most)]] : [[0, "0"], [1, three(most)]];
    const bar = colourBar(shade, stops, source.measure ? "" : this.row ? "weight" : "attention received");
    bar.paint();
    const listed = this.row && !this.listed.largest.all;
    refill(this.legend, bar.element, listed ? make("p", { class: "quiet" },
      `The ${this.listed.largest.count} largest weights of the row are listed; others count as 0.`) : null);
  }

  paint() {
    if (!this.size || !this.places) return;
    this.camera.project(this.places, this.dims, this.size, this.seen);
    if (this.surface) {
      const scale = 0.46 * this.camera.zoom * Math.min(this.size.width, this.size.height);
      this.radii.fill(2.5);
      this.surface.paint(this.seen, this.colours, scale, this.size);
    } else this.paintDiscs();
    this.paintMarks();
  }

  paintDiscs() {
    const plain = SIZES.find(([most]) => this.count <= most)[1] * Math.min(1, Math.max(0.75, this.size.width / 700));
    const near = Math.sqrt(this.camera.zoom);
    for (let k = 0; k < this.count; k++) this.radii[k] = plain * near * this.seen.size[k] * (0.7 + 0.8 * this.strengths[k]);
    this.splats.paint(this.seen, this.radii, this.colours, paperOf(this.frame), this.size);
  }

  paintMarks() {
    if (!this.size) return;
    const context = sharpened(this.marks);
    context.clearRect(0, 0, this.size.width, this.size.height);
    paintAxes(context, this.camera, this.part.axes, this.size, getComputedStyle(this.frame));
    if (this.left) paintGroup(context, this.seen, this.left.places, 5);
    for (const [k, width] of [[figureShown.chosen, 2.5], [this.at, 1.5]]) {
      if (k === null || k >= this.count) continue;
      context.strokeStyle = getComputedStyle(this.frame).color;
      context.lineWidth = width;
      context.beginPath();
      context.arc(this.seen.x[k], this.seen.y[k], this.radii[k] + 3.5, 0, 7);
      context.stroke();
    }
  }

  say() {
    const k = this.at ?? figureShown.chosen;
    if (k === null) {
      const how = this.flat ? "Drag to move" : "Drag to turn";
      refill(this.readout, make("span", { class: "quiet" }, `${how}, scroll to zoom. Point at a ${this.part.thing} to read it, click to keep it.`));
      return;
    }
    refill(this.readout, make("span", { class: "item" }, `${this.part.thing} `, make("strong", {}, nth(this.names[k]))), " ",
      make("span", { class: "quiet" }, `(${this.numberWords(k)}) `), this.sourceWords(k), this.rowWords(k));
  }

  numberWords(k) {
    const wide = this.part.columns.length;
    return this.part.columns.map((name, d) => `${shown(name)} ${three(this.columns[k * wide + d])}`).join(", ");
  }

  sourceWords(k) {
    const { source } = this;
    if (!source?.proved || !source.values) return null;
    if (source.groups) return make("span", { class: "item" }, `${source.title} `, make("strong", {}, shown(source.groups.names[source.values[k]])));
    if (!source.many) {
      const value = source.of(0, figureShown.head)[k];
      const word = source.measure ? `${source.title} ` : "gets ";
      const figure = source.measure?.signed ? signed(value) : three(value);
      return make("span", { class: "item" }, word, make("strong", {}, figure), source.measure ? "" : " of all attention");
    }
    const all = Array.from({ length: source.layer.count }, (_, few) => [few, source.of(few, figureShown.head)[k]]);
    return all.sort((a, b) => b[1] - a[1]).slice(0, 5).map(([few, value]) => [make("span", { class: "item" },
      make("span", { class: "dot", style: `--colour: ${css(ofHead(few))}` }), `${source.called(few)} `, make("strong", {}, three(value))), " "]);
  }

  rowWords(k) {
    if (!this.row) return null;
    const chosenOne = figureShown.chosen;
    if (k !== chosenOne) {
      return [" ", make("span", { class: "item" }, `${this.part.thing} ${nth(this.names[chosenOne])} looks at it with `, make("strong", {}, three(this.row[k])))];
    }
    const best = [...this.row.keys()].sort((a, b) => this.row[b] - this.row[a]).slice(0, 5);
    return [" and looks at ", best.map((other) => [make("span", { class: "item" }, `${nth(this.names[other])} `,
      make("strong", {}, three(this.row[other]))), " "])];
  }
}

// of a surface that says nothing
function plainSurface() {
  return dark() ? [92, 96, 104] : [214, 217, 222];
}

// A point that nothing looks at is still to be seen.
function plainColour() {
  return dark() ? oklch(0.42, 0.012, 260) : oklch(0.81, 0.012, 260);
}

function pointRamp(t) {
  return mixed(plainColour(), sequential(0.3 + 0.7 * t), Math.min(1, 4 * t));
}

// The directions of the axes, in a corner.
function paintAxes(context, camera, axes, { height }, style) {
  const ends = seenArrays(3);
  const unit = new Float32Array(axes.length * 3);
  axes.forEach((_, d) => { unit[d * axes.length + d] = 1; });
  const still = new Camera(camera.flat);
  Object.assign(still, { yaw: camera.yaw, pitch: camera.pitch });
  still.project(unit, axes.length, { width: 68, height: 68 }, ends);
  context.font = tokenFont(11);
  context.textBaseline = "middle";
  context.textAlign = "center";
  context.lineWidth = 1;
  axes.forEach((name, d) => {
    if (!name) return;
    const [x, y] = [ends.x[d] + 6, ends.y[d] + height - 78];
    context.strokeStyle = style.borderTopColor;
    context.beginPath();
    context.moveTo(40, height - 44);
    context.lineTo(x, y);
    context.stroke();
    context.fillStyle = style.color;
    const [dx, dy] = [x - 40, y - height + 44];
    const far = Math.hypot(dx, dy) || 1;
    const text = clipped(shown(name), 12);
    context.textAlign = text.length > 3 ? "left" : "center";
    context.fillText(text, x + (8 * dx) / far, y + (8 * dy) / far);
  });
}
