// A graph: its edges in grey, and over them the attention that stands out.

const graphShown = { layer: null, head: MEAN, colour: null, least: null };
const STANDS_OUT = 1.25;  // times an even share
const FEW_EDGES = 1.5;    // for each node, at most, when a page opens
const calm = matchMedia("(prefers-reduced-motion: reduce)");

view("graph", "Graph", (part, place, here) => {
  const figure = new GraphFigure(part, here);
  const { layers, colours } = part;
  const drawn = part.numbers.length;
  const facts = `${whole(part.count)} nodes${drawn < part.count ? `, ${whole(drawn)} of them drawn` : ""}`;
  const controls = make("div", { class: "controls" });
  if (!layers[graphShown.layer]) graphShown.layer = layers.length ? Math.max(0, layers.findLastIndex(({ proved }) => proved)) : null;
  if (!colours.some(({ name }) => name === graphShown.colour)) graphShown.colour = colours[0]?.name ?? null;

  function show() {
    const layer = layers[graphShown.layer] ?? null;
    if (!layer || graphShown.head >= layer.heads.length) graphShown.head = MEAN;
    const names = layers.map(({ layer: number, name }, k) => [k, `${nth(number)} · ${name || "the model"}`]);
    const which = picker("layer", names, graphShown.layer, (k) => {
      graphShown.layer = Number(k);
      show();
    });
    const heads = (layer?.heads ?? []).map((number, k) => [k, `head ${nth(number)}`]);
    const head = picker("head", [[MEAN, "mean of all"], ...heads], graphShown.head, (k) => {
      graphShown.head = Number(k);
      show();
    });
    const paint = choice("colour of the nodes", colours.map(({ name }) => [name, name]), graphShown.colour, (name) => {
      graphShown.colour = name;
      figure.paint();
    });
    refill(controls, layers.length > 1 ? which : null, heads.length > 1 ? head : null, colours.length > 1 ? paint : null,
      layer?.proved ? figure.least.element : null);
    figure.show(layer);
  }

  refill(place, make("div", { class: "title-line" }, make("h2", {}, "The graph"), make("p", { class: "facts" }, facts)), controls,
    make("div", { class: "space-figure" }, make("div", { class: "space-place" }, figure.frame),
      make("div", { class: "space-side" }, figure.sentence, figure.readout, figure.legend)),
    RegionPanel.offered(here, "group") ? figure.groups() : null);
  figure.listen();
  show();
});

class GraphFigure {
  constructor(part, here) {
    Object.assign(this, { part, here, layer: null, weights: null, at: null, chosen: part.centre });
    this.labels = part.labels.map(shown);
    this.places = Float32Array.from(part.places.flat());
    this.seen = seenArrays(this.labels.length);
    this.camera = new Camera(true);
    this.canvas = make("canvas");
    this.frame = make("div", {
      class: "space", tabindex: "0", role: "application", "aria-roledescription": "graph",
      "aria-label": `${part.count} nodes; arrow keys go from node to node, enter puts one in the middle, plus and minus zoom`,
    }, this.canvas);
    this.sentence = make("p", { class: "sentence" });
    this.readout = make("output", { class: "readout", "aria-live": "polite" });
    this.legend = make("div", { class: "legend" });
    this.least = leastSlider((least) => {
      graphShown.least = least;
      this.paint();
    });
  }

  listen() {
    this.frame.addEventListener("keydown", (event) => this.stepped(event));  // before the camera, which moves with arrows, too
    const under = (x, y) => nearestSeen(this.seen, x, y, 16);
    steered(this.frame, this.camera, {
      moved: () => this.paint(),
      pointed: (x, y) => this.point(x === null ? null : under(x, y)),
      chosen: (x, y) => this.choose(under(x, y)),
    });
    this.here.sized(this.frame.parentElement, (width) => {
      this.size = spaceSize(width);
      sharpen(this.canvas, this.size.width, this.size.height);
      Object.assign(this.frame.style, { width: `${this.size.width}px`, height: `${this.size.height}px` });
      this.paint();
    });
    this.here.painters.push(() => this.paint());
  }

  // nodes that are left out together
  groups() {
    const { part, here, labels } = this;
    const places = new Map(labels.map((label, k) => [label, k]));
    const read = (text) => {
      const found = text.split(",").map((name) => name.trim()).filter(Boolean).map((name) => places.get(name));
      return found.includes(undefined) ? null : found;
    };
    const place = (number) => part.numbers.indexOf(number);
    this.left = new GroupChooser(this.frame, {
      thing: "node", placeholder: `names, such as ${labels.slice(0, 2).join(", ")}`, seen: () => this.seen, read,
      write: (chosenOnes) => chosenOnes.map((k) => labels[k]).join(", "), painted: () => this.paint(),
    });
    const panel = new RegionPanel(here, {
      title: "Without some nodes",
      chosen: () => [...this.left.places].map((k) => part.numbers[k]),
      said: (region) => `${region.length > 1 ? `${whole(region.length)} nodes` : "node"} ${clipped(region.map((each) => labels[place(each)]).join(", "), 60)}`,
      about: () => (here.page.data.region.about && this.chosen !== null
        ? { number: part.numbers[this.chosen], words: `node ${clipped(labels[this.chosen], 24)}` } : null),
      controls: this.left.controls,
    });
    return panel.element;
  }

  async show(layer) {
    const { part } = this;
    this.layer = layer;
    const hidden = layer !== null && !layer.proved;
    this.sentence.className = hidden ? "reason" : "sentence";
    if (hidden) {
      refill(this.sentence, make("strong", {}, "These weights are not shown, because they are not proved. "), layer.reason ?? "");
    } else {
      this.sentence.textContent = layer === null ? part.note ?? "" : `Grey lines are the edges of the graph. A coloured arrow is as strong as the weight with which the node at its tip looks at the other${
        layer.full ? "; here every node looks at every node, and the largest weights of each are known" : ""}, and a ring is a node that looks at itself. Drawn is what stands out from an even share, which is one over the number of nodes that a node looks at; of a node that you point at, all.`;
    }
    if (!this.ground) this.ground = groundOf(sixteens(await unpackedOnce(part.lists[0])));
    const bytes = await unpackedOnce(part.lists[layer?.list ?? 0]);
    const ends = sixteens(bytes);
    const count = ends.length / 2;
    const halves = layer?.proved ? fromHalves(await unpackedOnce(layer.weights)) : null;
    if (this.here.closed || layer !== this.layer) return;
    [this.source, this.target] = [ends.subarray(0, count), ends.subarray(count)];
    this.weights = halves && new Float32Array(count);
    const heads = layer?.heads.map((_, k) => k) ?? [];
    const chosenHeads = graphShown.head === MEAN ? heads : [graphShown.head];
    for (const head of halves ? chosenHeads : []) {
      for (let e = 0; e < count; e++) this.weights[e] += (halves[head * count + e] * layer.scale) / chosenHeads.length;
    }
    this.degrees = new Uint32Array(this.labels.length);
    for (const [a, b] of this.ground) [this.degrees[a], this.degrees[b]] = [this.degrees[a] + 1, this.degrees[b] + 1];
    this.ratios = halves && this.weights.map((weight, e) => weight * layer.keys[this.target[e]]);
    if (halves) this.least.show(this.ratios, this.labels.length);
    this.paint();
    this.say();
    performance.mark("regard:interactive");
  }

  get group() {
    return this.part.colours.find(({ name }) => name === graphShown.colour) ?? null;
  }

  // classes have their colours by name, whichever of them are there
  classColour(name) {
    const place = this.group?.classes.indexOf(name) ?? -1;
    return place < 0 ? plainNode() : ofHead(place);
  }

  // [[edge, other node], …] of a node, strongest first: what it looks at, or who looks at it
  links(k, looking) {
    const [mine, other] = looking ? [this.target, this.source] : [this.source, this.target];
    const found = [];
    for (let e = 0; e < mine.length; e++) if (mine[e] === k && (looking || other[e] !== k)) found.push([e, other[e]]);
    return this.weights ? found.sort((a, b) => this.weights[b[0]] - this.weights[a[0]]) : found;
  }

  paint() {
    if (!this.size || !this.source) return;
    this.camera.project(this.places, 2, this.size, this.seen);
    const context = sharpened(this.canvas);
    context.clearRect(0, 0, this.size.width, this.size.height);
    const { group } = this;
    const node = this.at ?? this.chosen;
    const near = node === null ? [] : [node, ...this.links(node, true).map(([, k]) => k), ...this.links(node, false).map(([, k]) => k)];
    const known = [...this.degrees.keys()].sort((a, b) => this.degrees[b] - this.degrees[a]);
    paintNetwork(context, {
      ...this, zoom: this.camera.zoom, ink: getComputedStyle(this.frame).color, paper: paperOf(this.frame),
      strength: this.weights ? (e) => Math.sqrt(Math.min(1, this.weights[e])) : () => 0,
      drawn: (e) => this.weights !== null && (this.ratios[e] >= this.least.now || this.source[e] === node || this.target[e] === node),
      state: { node, chosen: this.chosen, first: node === null ? [] : [...near, ...known] },
      colour: (k) => this.classColour(group?.groups[k]),
    });
    if (this.left) paintGroup(context, this.seen, this.left.places, 6);
    const present = group ? new Set(group.groups) : new Set();
    const keys = [...(group?.classes ?? []), ...(present.has(UNKNOWN) ? [UNKNOWN] : [])].filter((name) => present.has(name)).map((name) => (
      make("span", { class: "key" }, make("span", { class: "dot", style: `--colour: ${css(this.classColour(name))}` }), shown(name))));
    const line = (colour, words) => make("span", { class: "key" }, make("span", { class: "line", style: `--colour: ${css(colour)}` }), words);
    const ways = node !== null && this.weights
      ? [line(lineColour(), "what it looks at"), line(toColour(), "who looks at it")] : this.weights ? [line(lineColour(), "attention")] : [];
    refill(this.legend, keys.length ? make("div", { class: "keys" }, make("span", { class: "axis-name" }, group.name), keys) : null,
      make("div", { class: "keys" }, this.ground.length ? line(groundColour(), this.directed ? "edge, to its target" : "edge") : null, ways));
  }

  point(k) {
    if (this.at === k) return;
    this.at = k;
    this.paint();
    this.say();
  }

  // A node comes to the middle; of a large graph a served page draws what lies around it.
  choose(k) {
    this.chosen = k;
    this.at = null;
    this.say();
    const { page } = this.here;
    if (k !== null && offers(page.data.live, "node") && k !== this.part.centre) page.asked.around(this.part.numbers[k]);
    else if (k !== null) this.middle(k);
    this.paint();
  }

  middle(k) {
    const [dx, dy] = [this.size.width / 2 - this.seen.x[k], this.size.height / 2 - this.seen.y[k]];
    const { across, down } = this.camera;
    const began = performance.now();
    const step = () => {
      const part = calm.matches ? 1 : Math.min(1, (performance.now() - began) / 220);
      const eased = 1 - (1 - part) ** 3;
      [this.camera.across, this.camera.down] = [across + dx * eased, down + dy * eased];
      this.paint();
      if (part < 1 && !this.here.closed) requestAnimationFrame(step);
    };
    step();
  }

  stepped(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const now = this.at ?? this.chosen;
    if (way) {
      event.preventDefault();
      this.at = now === null ? this.degrees.indexOf(Math.max(...this.degrees)) : this.towards(now, way);
      this.paint();
      this.say();
    } else if (event.key === "Enter" && now !== null) this.choose(now);
    else if (event.key === "Escape") this.choose(null);
    else if (event.key === " " && this.left) {
      event.preventDefault();
      this.left.flip(now);
    }
  }

  // the node that is met first in a direction, more or less
  towards(from, [right, below]) {
    let [best, found] = [Infinity, from];
    for (let k = 0; k < this.labels.length; k++) {
      const [dx, dy] = [this.seen.x[k] - this.seen.x[from], this.seen.y[k] - this.seen.y[from]];
      const along = dx * right + dy * below;
      const aside = Math.abs(dx * below) + Math.abs(dy * right);
      if (along > 1 && along + 2.5 * aside < best) [best, found] = [along + 2.5 * aside, k];
    }
    return found;
  }

  say() {
    const k = this.at ?? this.chosen;
    if (k === null || !this.source) {
      const words = "Point at a node to see what it looks at, click to put it in the middle; drag to move, scroll to zoom.";
      refill(this.readout, make("span", { class: "quiet" }, words));
      return;
    }
    const said = this.part.colours.map(({ name, groups }) => make("span", { class: "item" },
      make("span", { class: "quiet" }, `${name} `), shown(groups[k]))).flatMap((item) => [" ", item]);
    const list = (words, looking, most) => {
      const links = this.links(k, looking);
      if (!links.length) return null;
      const rest = links.length > most ? ` and ${links.length - most} more` : "";
      return make("p", { class: "neighbours" }, make("span", { class: "quiet" }, words), links.slice(0, most).map(([e, other]) => [
        make("span", { class: "item" }, other === k ? "itself" : token(this.labels[other]), " ",
          this.weights ? make("strong", {}, three(this.weights[e])) : null), " "]), rest);
    };
    const lists = this.weights ? [list("looks at ", true, 12), list("is looked at by ", false, 8)]
      : this.directed ? [list("hears from ", true, 12), list("is heard by ", false, 8)] : list("neighbours ", true, 12);
    refill(this.readout, make("span", { class: "item" }, "node ", token(this.labels[k])), said, lists);
  }

  get directed() {
    return this.ground.some(([, , both]) => !both);
  }
}

const UNKNOWN = "not known";

function plainNode() {
  return dark() ? oklch(0.62, 0.02, 260) : oklch(0.55, 0.02, 260);
}

// Edges from all sources to all targets -> [[a, b, both ways], …], each pair of nodes once.
function groundOf(ends) {
  const count = ends.length / 2;
  const found = new Map();
  for (let e = 0; e < count; e++) {
    const [a, b] = [ends[e], ends[count + e]];
    const back = found.get(b * 65536 + a);
    if (back) back[2] = true;
    else found.set(a * 65536 + b, [a, b, a === b]);
  }
  return [...found.values()];
}

// How much attention has to stand out to be drawn. Equal steps of the slider are equally many edges; what is kept is the measure.
function leastSlider(changed) {
  const words = make("output", {}, "");
  const input = make("input", { type: "range", min: 0, max: 100, step: 1, value: 0 });
  const element = make("label", { class: "slider" }, make("span", {}, "what stands out"), input, words);
  let sorted = new Float32Array(0);
  const figure = { element, now: 0, show };
  const above = (least) => sorted.length - sorted.filter((ratio) => ratio < least).length;

  function say() {
    const count = above(figure.now);
    const text = figure.now === 0 ? `all ${whole(sorted.length)}`
      : `${whole(count)} of ${whole(sorted.length)}: from ${three(figure.now)} × an even share on`;
    words.textContent = count ? text : `none is ${three(figure.now)} × an even share: attention is spread evenly`;
    input.setAttribute("aria-valuetext", words.textContent);
  }

  // ratios: of each edge, its weight over what it would be if its node looked at all alike
  function show(ratios, nodes) {
    sorted = Float32Array.from(ratios).sort();
    const most = Math.ceil(FEW_EDGES * nodes);
    const first = Math.max(STANDS_OUT, sorted.length > most ? sorted[sorted.length - most] : 0);
    figure.now = graphShown.least ?? first;
    input.value = Math.min(100, Math.round(100 * (1 - above(figure.now) / Math.max(1, sorted.length))));
    say();
  }

  input.addEventListener("input", () => {
    const place = Math.min(sorted.length - 1, Math.round((Number(input.value) / 100) * sorted.length));
    figure.now = Number(input.value) === 0 ? 0 : sorted[Math.max(0, place)] ?? 0;
    say();
    changed(figure.now);
  });
  return figure;
}
