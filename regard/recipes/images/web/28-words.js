// The cross-attention of each word over the image: a small map for each word, and one of them large.

const wordsShown = { layer: null, head: MEAN, word: 0, strength: 0.85 };

view("words", "Words over the image", (part, place, here) => {
  const figure = new WordsFigure(part, here);
  const { layers } = part;
  const unknown = part.unknown.length ? make("div", { class: "unknown" }, make("h3", {}, "Unknown"),
    make("ul", {}, part.unknown.map((words) => make("li", {}, words)))) : null;
  if (!layers.length) {
    refill(place, make("h2", {}, "Words over the image"), make("div", { class: "image-figure" },
      make("div", { class: "picture alone" }, shownImage(part.picture)), make("div", { class: "image-side" }, unknown)));
    return;
  }
  if (!layers[wordsShown.layer]) wordsShown.layer = Math.max(0, layers.findLastIndex(({ proved }) => proved));
  wordsShown.word = Math.min(wordsShown.word, part.words.length - 1);
  const controls = make("div", { class: "controls" });

  function show() {
    const layer = layers[wordsShown.layer];
    if (wordsShown.head >= layer.heads.length) wordsShown.head = MEAN;
    const which = picker("layer", layers.map(({ layer: number, name }, k) => [k, `${nth(number)} · ${name}`]), wordsShown.layer, (k) => {
      wordsShown.layer = Number(k);
      show();
    });
    const heads = layer.heads.map((number, k) => [k, `head ${nth(number)}`]);
    const head = picker("head", [[MEAN, "mean of all"], ...heads], wordsShown.head, (k) => {
      wordsShown.head = Number(k);
      figure.load();
    });
    const strength = slider("strength", { low: 0, high: 1, step: 0.05, now: wordsShown.strength }, (value) => {
      wordsShown.strength = value;
      figure.paint();
    });
    refill(controls, layers.length > 1 ? which : null, heads.length > 1 ? head : null, strength);
    figure.load();
  }

  refill(place, make("h2", {}, "Where each word looks in the image"), figure.sentence, controls,
    make("div", { class: "image-figure" }, make("div", {}, figure.image, figure.legend, figure.readout),
      make("div", { class: "image-side" }, figure.thumbs, unknown)));
  show();
});

class WordsFigure {
  constructor(part, here) {
    Object.assign(this, { part, here, maps: null, at: null });
    this.labels = part.words.map(shownToken);
    this.canvas = make("canvas", { class: "over" });
    this.box = make("div", { class: "patch", hidden: true });
    this.image = make("div", { class: "picture", tabindex: "0", role: "application", "aria-roledescription": "image" },
      shownImage(part.picture), this.canvas, this.box);
    this.sentence = make("p", { class: "sentence" });
    this.readout = make("output", { class: "readout", "aria-live": "polite" });
    this.legend = make("div", { class: "legend" });
    this.thumbs = make("div", { class: "head-maps word-maps" });
    const under = (event) => cellUnder(event, this.image, ...this.grid);
    this.image.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.layer.proved && this.point(under(event)));
    this.image.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.point(null));
    this.image.addEventListener("click", (event) => this.layer.proved && this.point(under(event)));
    this.image.addEventListener("keydown", (event) => {
      if (!steps(event) || !this.layer.proved) return;
      event.preventDefault();
      this.point(stepped(event, this.at, ...this.grid));
    });
  }

  get layer() {
    return this.part.layers[wordsShown.layer];
  }

  get grid() {
    return this.layer.grid;
  }

  async load() {
    const { layer } = this;
    const unpackedMaps = layer.proved ? await unpackedFloats(layer.maps) : null;
    if (this.here.closed || layer !== this.layer) return;
    this.maps = unpackedMaps?.numbers ?? null;
    this.at = null;
    const [rows, columns] = this.grid;
    refill(this.thumbs, this.maps ? this.labels.map((label, k) => {
      const canvas = make("canvas", { class: "over", width: columns, height: rows });
      const strong = strengths(this.valuesOf(k));
      paintPatches(canvas, rows, columns, (patch) => [SPEAKS_FOR, strong[patch]]);
      const touched = () => {
        wordsShown.word = k;
        this.paint();
      };
      return make("button", { type: "button", class: "head-map", style: `--colour: ${css(SPEAKS_FOR)}`, onclick: touched },
        make("span", { class: "map picture alone" }, shownImage(this.part.picture), canvas), make("span", { class: "caption" }, this.caption(k)));
    }) : null);
    this.paint();
  }

  // the word that is written there, if the model writes
  caption(k) {
    const { writes } = this.part;
    return writes ? token(shownToken(writes[k])) : streamToken({ kind: "text" }, this.labels[k], k);
  }

  // how much the word looks at each patch, in one head or in the mean of all
  valuesOf(word) {
    const [rows, columns] = this.grid;
    const [size, count] = [rows * columns, this.labels.length];
    const heads = wordsShown.head === MEAN ? this.layer.heads.map((_, k) => k) : [wordsShown.head];
    const found = new Array(size).fill(0);
    for (const head of heads) {
      for (let patch = 0; patch < size; patch++) found[patch] += this.maps[(head * count + word) * size + patch] / heads.length;
    }
    return found;
  }

  paint() {
    const { layer, part } = this;
    const { word } = wordsShown;
    this.sentence.className = layer.proved ? "sentence" : "reason";
    this.canvas.hidden = !layer.proved;
    if (!layer.proved) {
      refill(this.sentence, make("strong", {}, "These weights are not shown, because they are not proved. "), layer.reason ?? "");
      refill(this.legend);
      return;
    }
    const [rows, columns] = this.grid;
    const values = this.valuesOf(word);
    const strong = strengths(values);
    paintPatches(this.canvas, rows, columns, (patch) => [SPEAKS_FOR, strong[patch]]);
    this.canvas.style.opacity = wordsShown.strength;
    this.image.setAttribute("aria-label", `${rows} by ${columns} patches, and where a word looks`);
    const read = streamToken({ kind: "text" }, this.labels[word], word);
    refill(this.sentence, part.writes ? ["Where the model looks when it has read ", read, " and writes ", token(shownToken(part.writes[word])), "."]
      : ["Where the model looks when it reads ", read, "."], " No colour at the mean, or less.");
    for (const [k, thumb] of [...this.thumbs.children].entries()) thumb.setAttribute("aria-pressed", String(k === word));
    const { mean, top } = scaleOf(values);
    const bar = colourBar((t) => mixed(GROUND, SPEAKS_FOR, t), [[0, three(mean)], [1, three(top)]], "weight, from the mean");
    bar.paint();
    refill(this.legend, bar.element);
    this.say();
  }

  point(next) {
    this.at = next;
    this.say();
  }

  say() {
    this.box.hidden = this.at === null;
    const inside = this.valuesOf(wordsShown.word);
    const total = inside.reduce((sum, value) => sum + value, 0);
    if (this.at === null) {
      const rest = total < 0.999 ? ` ${percent(1 - total)} of the weight lies on tokens that are nowhere in the image (a class token).` : "";
      refill(this.readout, make("span", { class: "quiet" }, `Point at a patch to read its weight.${rest}`));
      return;
    }
    const [i, j] = this.at;
    const [rows, columns] = this.grid;
    const [wide, high] = [100 / columns, 100 / rows];
    Object.assign(this.box.style, { left: `${j * wide}%`, top: `${i * high}%`, width: `${wide}%`, height: `${high}%` });
    refill(this.readout, `row ${nth(i)}, column ${nth(j)} `, make("strong", {}, three(inside[i * columns + j])));
  }
}
