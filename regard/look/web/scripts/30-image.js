// The attention of each head over the picture, in a colour of its own, and rollout.

const imageShown = { layer: null, way: "together", alone: 0, off: new Set(), strength: 0.85 };
const ROLLOUT = [255, 176, 32];

const NO_MAPS = "No layer lets every patch look at every patch (they look within windows, or not at all), so no map is laid over it.";

view("image", "Image", (part, place, here) => {
  if (!part.layers.length) {
    const picture = make("img", { src: safePicture(part.picture), alt: "what the model was shown" });
    refill(place, make("h2", {}, "The picture"), make("p", { class: "sentence" }, NO_MAPS),
      make("div", { class: "image-figure" }, make("div", { class: "picture alone" }, picture)));
    return;
  }
  const figure = new PictureFigure(part, here);
  const ways = [["together", "heads together"], ["alone", "one head"], ...(part.rollout ? [["rollout", "rollout"]] : [])];
  if (!ways.some(([way]) => way === imageShown.way)) imageShown.way = "together";
  if (imageShown.layer === null || imageShown.layer >= part.layers.length) imageShown.layer = part.layers.length - 1;
  const wayChoice = choice("what is shown", ways, imageShown.way, (way) => {
    imageShown.way = way;
    figure.paint();
  });
  const layers = part.layers.map((layer, k) => [k, `${layer.layer}  ${layer.name}`]);
  const layerPicker = picker("layer", layers, imageShown.layer, (k) => {
    imageShown.layer = Number(k);
    figure.load();
  });
  const strength = slider("strength", { low: 0, high: 1, step: 0.05, now: imageShown.strength }, (value) => {
    imageShown.strength = value;
    figure.paint();
  });
  refill(place, make("h2", {}, `Where ${part.query} looks`), figure.sentence,
    make("div", { class: "controls" }, wayChoice, layers.length > 1 ? layerPicker : null, strength),
    make("div", { class: "image-figure" }, make("div", {}, figure.picture, figure.readout), figure.thumbs));
  figure.load();
});

class PictureFigure {
  constructor(part, here) {
    const { grid: { rows, columns } } = part;
    Object.assign(this, { part, here, rows, columns, size: rows * columns, maps: null, rollout: null, at: null });
    this.canvas = make("canvas", { class: "over", width: columns, height: rows });
    this.box = make("div", { class: "patch" });
    this.picture = make("div", {
      class: "picture", tabindex: "0", role: "application", "aria-roledescription": "picture",
      "aria-label": `${rows} by ${columns} patches`,
    }, make("img", { src: safePicture(part.picture), alt: "what the model was shown" }), this.canvas, this.box);
    this.readout = make("output", { class: "readout", "aria-live": "polite" });
    this.thumbs = make("div", { class: "head-maps" });
    this.sentence = make("p", { class: "sentence" });
    const under = (event) => cellUnder(event, this.picture, rows, columns);
    this.picture.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.point(under(event)));
    this.picture.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.point(null));
    this.picture.addEventListener("click", (event) => this.point(under(event)));
    this.picture.addEventListener("keydown", (event) => {
      if (!steps(event)) return;
      event.preventDefault();
      this.point(stepped(event, this.at, rows, columns));
    });
    this.say();
  }

  get layer() {
    return this.part.layers[imageShown.layer];
  }

  get areHeads() {
    return imageShown.way !== "rollout";
  }

  lit(k) {
    return imageShown.way === "alone" ? k === imageShown.alone : !imageShown.off.has(this.layer.heads[k]);
  }

  // how much head number k of the layer looks at a patch
  value(k, patch) {
    return this.maps.at(k * this.size + patch);
  }

  async load() {
    const { layer, part } = this;
    const [maps, rollout] = await Promise.all([unpackedLevels(layer.maps), part.rollout ? unpackedLevels(part.rollout) : null]);
    if (this.here.closed || layer !== this.layer) return;
    Object.assign(this, { maps, rollout });
    imageShown.alone = Math.min(imageShown.alone, layer.heads.length - 1);
    const patches = Array.from({ length: this.size }, (_, patch) => patch);
    this.strengths = layer.heads.map((_, k) => strengths(patches.map((patch) => this.value(k, patch))));
    this.rolled = rollout ? strengths(patches.map((patch) => rollout.at(patch))) : null;
    refill(this.thumbs, layer.heads.map((head, k) => this.thumb(head, k)));
    this.paint();
  }

  thumb(head, k) {
    const canvas = make("canvas", { width: this.columns, height: this.rows });
    paintPatches(canvas, this.rows, this.columns, (patch) => [ofHead(head), this.strengths[k][patch]]);
    const touched = () => {
      if (imageShown.way === "alone") imageShown.alone = k;
      else if (!imageShown.off.delete(head)) imageShown.off.add(head);
      this.paint();
    };
    return make("button", {
      type: "button", class: "head-map", style: `--colour: ${css(ofHead(head))}`, onclick: touched, "aria-label": `head ${head}`,
    }, make("span", { class: "map" }, canvas), make("span", { class: "caption" }, make("span", { class: "dot" }), `head ${head}`));
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

  paint() {
    if (!this.maps) return;
    const painted = this.areHeads ? (patch) => this.strongest(patch) : (patch) => [ROLLOUT, this.rolled[patch]];
    paintPatches(this.canvas, this.rows, this.columns, painted);
    this.canvas.style.opacity = imageShown.strength;
    for (const [k, thumb] of [...this.thumbs.children].entries()) thumb.setAttribute("aria-pressed", String(this.lit(k)));
    this.thumbs.hidden = !this.areHeads;
    this.sentence.textContent = {
      together: "Each patch has the colour of the head that looks at it most; the more than at others, the stronger.",
      alone: `Where head ${this.layer.heads[imageShown.alone]} looks.`,
      rollout: "Attention of all layers multiplied, with the residual connections: how much of each patch can reach the end.",
    }[imageShown.way];
    this.say();
  }

  point(next) {
    this.at = next;
    this.say();
  }

  say() {
    this.box.hidden = this.at === null;
    if (this.at === null || !this.maps) {
      refill(this.readout, make("span", { class: "quiet" }, "Point at a patch to read its numbers."));
      return;
    }
    const [i, j] = this.at;
    const [wide, high] = [100 / this.columns, 100 / this.rows];
    Object.assign(this.box.style, { left: `${j * wide}%`, top: `${i * high}%`, width: `${wide}%`, height: `${high}%` });
    const patch = i * this.columns + j;
    const figures = this.areHeads ? this.headWords(patch) : make("strong", {}, three(this.rollout.at(patch)));
    refill(this.readout, `row ${i}, column ${j} `, figures);
  }

  headWords(patch) {
    const values = this.layer.heads.map((head, k) => [head, this.value(k, patch), k]).filter(([, , k]) => this.lit(k));
    const dot = (head) => make("span", { class: "dot", style: `--colour: ${css(ofHead(head))}` });
    return values.sort((a, b) => b[1] - a[1]).slice(0, 4).map(([head, value]) => (
      make("span", { class: "item" }, dot(head), `head ${head} `, make("strong", {}, three(value)), " ")));
  }
}

// How strongly patches are coloured, from 0 to 1: by how much more than the mean they get. A head that looks everywhere
// alike, nowhere at more than three times the mean, stays faint.
function strengths(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const full = Math.max(3 * mean, ...values, 1e-12) - mean;
  return values.map((value) => Math.max(0, value - mean) / full);
}

// painted(patch) -> [colour, how strong from 0 to 1]
function paintPatches(canvas, rows, columns, painted) {
  const pixels = new Uint8ClampedArray(4 * rows * columns);
  for (let patch = 0; patch < rows * columns; patch++) {
    const [colour, strength] = painted(patch);
    pixels.set([...colour, 255 * strength], 4 * patch);
  }
  canvas.getContext("2d").putImageData(new ImageData(pixels, columns, rows), 0, 0);
}

// only what lies in the page itself is shown
function safePicture(address) {
  return /^data:image\/(png|jpeg|gif|webp);base64,/.test(address) ? address : "data:,";
}
