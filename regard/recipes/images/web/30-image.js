// The attention of each head over the image, in a colour of its own, rollout, and what each patch contributes.

const imageShown = { layer: null, way: null, alone: 0, off: new Set(), strength: 0.85 };
const GROUND = [16, 18, 22];  // of small maps and of bars, where nothing is coloured

const NO_MAPS = "No layer lets every patch look at every patch (they look within windows, or not at all), so no map is laid over it.";
const SIGNS = "Orange supports the prediction, blue opposes it.";

view("image", "Image", (part, place, here) => {
  const matters = part.matters ?? [];
  const views = here.page.data.input?.views;
  if (!part.layers.length && !matters.length) {
    refill(place, make("h2", {}, "The image"), make("p", { class: "sentence" }, NO_MAPS),
      make("div", { class: "image-figure" }, make("div", { class: "picture alone" }, shownImage(part.picture))));
    return;
  }
  const figure = new ImageFigure(part, here);
  const heads = part.layers.length > 0;
  const ways = [
    ...(heads ? [["together", "heads together"], ["alone", "one head"]] : []), ...(part.rollout ? [["rollout", "rollout"]] : []),
    ...matters.map(({ name }) => [name, name]),
  ];
  if (!ways.some(([way]) => way === imageShown.way)) [[imageShown.way]] = ways;
  if (heads && (imageShown.layer === null || imageShown.layer >= part.layers.length)) imageShown.layer = part.layers.length - 1;
  const wayChoice = choice("what is shown", ways, imageShown.way, (way) => {
    imageShown.way = way;
    figure.paint();
  });
  const layers = part.layers.map((layer, k) => [k, nth(layer.layer)]);
  const which = picker("layer", layers, imageShown.layer, (k) => {
    imageShown.layer = Number(k);
    figure.load();
  });
  refill(figure.layerPicker, layers.length > 1 ? which : null, figure.layerName);
  const strength = slider("strength", { low: 0, high: 1, step: 0.05, now: imageShown.strength }, (value) => {
    imageShown.strength = value;
    figure.paint();
  });
  const plain = make("figure", { class: "plain as-seen" }, make("div", { class: "picture alone" }, shownImage(part.picture)),
    make("figcaption", {}, "the image, as the model is given it"));
  refill(place, figure.heading, figure.sentence, views ? make("p", { class: "sentence" }, ofOneView(views)) : null,
    make("div", { class: "controls" }, wayChoice, figure.layerPicker, strength),
    make("div", { class: "image-figure" }, make("div", {}, figure.image, figure.legend, figure.readout,
        RegionPanel.offered(here, "box") ? imageRegion(here, figure.image) : null),
      make("div", { class: "image-side" }, plain, figure.thumbs)));
  figure.load();
});

function ofOneView(views) {
  return `This shows the image as it stands; the prediction averages ${views} of it.`;
}

class ImageFigure {
  constructor(part, here) {
    Object.assign(this, { part, here, maps: null, rollout: null, matters: [], at: null });
    this.canvas = make("canvas", { class: "over" });
    this.box = make("div", { class: "patch" });
    this.image = make("div", { class: "picture", tabindex: "0", role: "application", "aria-roledescription": "image" },
      shownImage(part.picture), this.canvas, this.box);
    this.readout = make("output", { class: "readout", "aria-live": "polite" });
    this.thumbs = make("div", { class: "head-maps" });
    this.sentence = make("p", { class: "sentence" });
    this.heading = make("h2");
    this.legend = make("div", { class: "legend" });
    this.layerName = make("bdi", { class: "name" });
    this.layerPicker = make("div", { class: "layer-picker" });
    const under = (event) => cellUnder(event, this.image, ...this.grid);
    this.image.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.point(under(event)));
    this.image.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.point(null));
    this.image.addEventListener("click", (event) => this.point(under(event)));
    this.image.addEventListener("keydown", (event) => {
      if (!steps(event)) return;
      event.preventDefault();
      this.point(stepped(event, this.at, ...this.grid));
    });
    this.say();
  }

  get layer() {
    return this.part.layers[imageShown.layer];
  }

  get areHeads() {
    return imageShown.way === "together" || imageShown.way === "alone";
  }

  // which contribution is shown, or undefined
  get mattering() {
    return this.matters.find(({ name }) => name === imageShown.way);
  }

  // rows and columns of what is shown: later layers may have merged patches
  get grid() {
    const { rows, columns } = this.part.grid;
    return this.areHeads && this.layer ? this.layer.maps.shape.slice(1) : [rows, columns];
  }

  lit(k) {
    return imageShown.way === "alone" ? k === imageShown.alone : !imageShown.off.has(this.layer.heads[k]);
  }

  // how much head number k of the layer looks at each patch
  valuesOf(k) {
    const [, rows, columns] = this.layer.maps.shape;
    return [...this.maps.numbers.subarray(k * rows * columns, (k + 1) * rows * columns)];
  }

  async load() {
    const { layer, part } = this;
    const [maps, rollout] = await Promise.all([layer?.maps, part.rollout].map((each) => (each ? unpackedFloats(each) : null)));
    if (this.here.closed || layer !== this.layer) return;
    this.matters = (part.matters ?? []).map((each) => ({ ...each, strengths: signs(each.values, each.faint) }));
    Object.assign(this, { maps, rollout, rolled: rollout ? strengths([...rollout.numbers]) : null, strengths: [] });
    if (layer) {
      const [count, rows, columns] = layer.maps.shape;
      imageShown.alone = Math.min(imageShown.alone, count - 1);
      this.strengths = layer.heads.map((_, k) => strengths(this.valuesOf(k)));
      refill(this.thumbs, layer.heads.map((head, k) => this.thumb(head, k, rows, columns)));
    }
    this.loaded = true;
    this.paint();
  }

  thumb(head, k, rows, columns) {
    const canvas = make("canvas", { width: columns, height: rows });
    paintPatches(canvas, rows, columns, (patch) => [ofHead(head), this.strengths[k][patch]]);
    const touched = () => {
      if (imageShown.way === "alone") imageShown.alone = k;
      else if (!imageShown.off.delete(head)) imageShown.off.add(head);
      this.paint();
    };
    const gone = (this.here.page.data.silenced ?? []).some(([a, b]) => a === this.layer.layer && b === head);
    const name = `head ${nth(head)}${gone ? ", silenced" : ""}`;
    return make("button", {
      type: "button", class: "head-map", style: `--colour: ${css(ofHead(head))}`, onclick: touched, "aria-label": name,
    }, make("span", { class: "map" }, canvas), make("span", { class: "caption" }, make("span", { class: "dot" }), name));
  }

  // a patch takes the colour of the head that looks at it most
  strongest(patch) {
    let [found, most] = [0, 0];
    this.layer.heads.forEach((head, k) => {
      const now = this.lit(k) ? this.strengths[k][patch] : 0;
      if (now > most) [found, most] = [head, now];
    });
    return [ofHead(found), most];
  }

  // colour and strength of a patch, in the way that is chosen
  painted(patch) {
    if (this.areHeads) return this.strongest(patch);
    if (!this.mattering) return [SPEAKS_FOR, this.rolled[patch]];
    const part = this.mattering.strengths[patch];
    return [part < 0 ? SPEAKS_AGAINST : SPEAKS_FOR, Math.abs(part)];
  }

  paint() {
    if (!this.loaded) return;
    const [rows, columns] = this.grid;
    paintPatches(this.canvas, rows, columns, (patch) => this.painted(patch));
    this.canvas.style.opacity = imageShown.strength;
    this.image.setAttribute("aria-label", `${rows} by ${columns} ${this.part.piece === "patch" ? "patches" : "parts"}`);
    for (const [k, thumb] of [...this.thumbs.children].entries()) thumb.setAttribute("aria-pressed", String(this.lit(k)));
    this.thumbs.hidden = this.layerPicker.hidden = !this.areHeads;
    this.layerName.textContent = this.layer?.name ?? "";
    this.heading.textContent = this.mattering ? "What matters to the prediction" : `Where ${this.part.query} looks`;
    this.paintLegend();
    this.sentence.textContent = this.mattering ? `${capital(this.mattering.sentence)}. ${SIGNS}` : {
      together: "Each patch has the colour of the head that looks at it most: none at the mean of that head, all of it at its largest, or at three times the mean.",
      alone: `Where head ${nth(this.layer?.heads[imageShown.alone] ?? 0)} looks.`,
      rollout: "Attention of all layers multiplied, with the residual connections: how much of each patch can reach the end.",
    }[imageShown.way];
    if (this.at && (this.at[0] >= rows || this.at[1] >= columns)) this.at = null;
    this.say();
  }

  // what the colours mean, in numbers where there is one scale
  paintLegend() {
    const over = (colour) => (t) => mixed(GROUND, colour, t);
    const above = (colour, { mean, top }, title) => colourBar(over(colour), [[0, three(mean)], [1, three(top)]], title);
    const bar = () => {
      if (this.mattering) {
        const most = reach(this.mattering.values, this.mattering.faint);
        const colour = (t) => mixed(GROUND, t < 0.5 ? SPEAKS_AGAINST : SPEAKS_FOR, Math.abs(2 * t - 1));
        return colourBar(colour, [[0, three(-most)], [0.5, "0"], [1, signed(most)]], "logit");
      }
      if (imageShown.way === "rollout") return above(SPEAKS_FOR, scaleOf([...this.rollout.numbers]), "share, from the mean");
      if (imageShown.way === "alone") {
        return above(ofHead(this.layer.heads[imageShown.alone]), scaleOf(this.valuesOf(imageShown.alone)), "share, from the mean");
      }
      return colourBar(over([235, 235, 235]), [[0, "mean"], [1, "largest"]], "of each head");
    };
    const made = bar();
    made.paint();
    refill(this.legend, made.element);
  }

  point(next) {
    this.at = next;
    this.say();
  }

  say() {
    this.box.hidden = this.at === null;
    if (this.at === null || !this.loaded) {
      refill(this.readout, make("span", { class: "quiet" }, `Point at a ${this.part.piece} to read its numbers.`));
      return;
    }
    const [i, j] = this.at;
    const [rows, columns] = this.grid;
    const [wide, high] = [100 / columns, 100 / rows];
    Object.assign(this.box.style, { left: `${j * wide}%`, top: `${i * high}%`, width: `${wide}%`, height: `${high}%` });
    const patch = i * columns + j;
    const alone = () => (this.mattering ? signed(this.mattering.values[patch]) : three(this.rollout.at(patch)));
    refill(this.readout, `row ${nth(i)}, column ${nth(j)} `, this.areHeads ? this.headWords(patch) : make("strong", {}, alone()));
  }

  headWords(patch) {
    const values = this.layer.heads.map((head, k) => [head, this.valuesOf(k)[patch], k]).filter(([, , k]) => this.lit(k));
    const dot = (head) => make("span", { class: "dot", style: `--colour: ${css(ofHead(head))}` });
    return values.sort((a, b) => b[1] - a[1]).slice(0, 4).map(([head, value]) => (
      make("span", { class: "item" }, dot(head), `head ${nth(head)} `, make("strong", {}, three(value)), " ")));
  }
}

// How strongly patches are coloured, from 0 to 1: by how much more than the mean they get. A head that looks everywhere
// alike, nowhere at more than three times the mean, stays faint.
function strengths(values) {
  const { mean, top } = scaleOf(values);
  return values.map((value) => Math.max(0, value - mean) / (top - mean));
}

function scaleOf(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, top: Math.max(3 * mean, ...values, 1e-12) };
}

// Contributions from −1 to 1, around zero.
function signs(values, faint) {
  const full = reach(values, faint);
  return values.map((value) => Math.max(-1, Math.min(1, value / full)));
}

// painted(patch) -> [colour, how strong from 0 to 1]
function paintPatches(canvas, rows, columns, painted) {
  Object.assign(canvas, { width: columns, height: rows });
  const pixels = new Uint8ClampedArray(4 * rows * columns);
  for (let patch = 0; patch < rows * columns; patch++) {
    const [colour, strength] = painted(patch);
    pixels.set([...colour, 255 * strength], 4 * patch);
  }
  canvas.getContext("2d").putImageData(new ImageData(pixels, columns, rows), 0, 0);
}

// What the model was shown. Of a small image every pixel is to be seen.
function shownImage(address) {
  const image = make("img", { src: safeImage(address), alt: "what the model was shown" });
  image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth <= 64));
  return image;
}
