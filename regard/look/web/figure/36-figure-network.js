// Nodes and edges: the edges in grey, and over them the attention that stands out.

const networkShown = { layer: null, head: MEAN, colour: null, least: null };
const STANDS_OUT = 1.25;  // times an even share
const FEW_EDGES = 1.5;    // for each node, at most, when a page opens
const UNKNOWN = "not known";
const calm = matchMedia("(prefers-reduced-motion: reduce)");

class NetworkDrawing extends SpaceDrawing {
  constructor(part, here) {
    super(part, here, new Camera(true), "arrow keys go from node to node, enter puts one in the middle, plus and minus zoom");
    Object.assign(this, { labels: part.labels.map(shown), layer: null, weights: null, chosen: part.centre });
    this.least = leastSlider((least) => {
      networkShown.least = least;
      this.paint();
    });
  }

  async load() {
    await super.load();
    this.ground = groundOf(sixteens(await unpackedOnce(this.part.edges[0])));
    this.groups = await Promise.all(this.part.groups.map(async ({ of }) => new Int32Array((await unpacked(of)).buffer)));
  }

  begin() {
    const { part: { layers, groups }, labels } = this;
    const places = new Map(labels.map((label, k) => [label, k]));
    const place = new Map(Array.from(this.names, (name, k) => [name, k]));
    if (!layers[networkShown.layer]) networkShown.layer = layers.length ? Math.max(0, layers.findLastIndex(({ proved }) => proved)) : null;
    if (!groups.some(({ name }) => name === networkShown.colour)) networkShown.colour = groups[0]?.name ?? null;
    this.listen();
    this.offerGroups({
      placeholder: `names, such as ${labels.slice(0, 2).join(", ")}`,
      read: (text) => {
        const found = text.split(",").map((name) => name.trim()).filter(Boolean).map((name) => places.get(name));
        return found.includes(undefined) ? null : found;
      },
      write: (some) => some.map((k) => labels[k]).join(", "),
      listed: (region) => region.map((each) => labels[place.get(each)]).join(", "),
      called: (k) => clipped(labels[k], 24),
    });
    this.here.painters.push(() => this.paint());
    this.pick();
  }

  // the layer, the head and the colours that are chosen
  pick() {
    const { layers, groups } = this.part;
    const layer = layers[networkShown.layer] ?? null;
    if (!layer || networkShown.head >= layer.heads.length) networkShown.head = MEAN;
    const names = layers.map(({ layer: number, name }, k) => [k, `${nth(number)} · ${name || "the model"}`]);
    const which = picker("layer", names, networkShown.layer, (k) => {
      networkShown.layer = Number(k);
      this.pick();
    });
    const heads = (layer?.heads ?? []).map((number, k) => [k, `head ${nth(number)}`]);
    const head = picker("head", [[MEAN, "mean of all"], ...heads], networkShown.head, (k) => {
      networkShown.head = Number(k);
      this.pick();
    });
    const paint = choice("colour of the nodes", groups.map(({ name }) => [name, name]), networkShown.colour, (name) => {
      networkShown.colour = name;
      this.paint();
    });
    refill(this.controls, layers.length > 1 ? which : null, heads.length > 1 ? head : null, groups.length > 1 ? paint : null,
      layer?.proved ? this.least.element : null);
    this.show(layer);
  }

  async show(layer) {
    const { part } = this;
    this.layer = layer;
    this.sentence.className = "sentence";
    if (layer !== null && !layer.proved) this.sayUnproved(layer);
    else {
      this.sentence.textContent = layer === null ? part.note ?? "" : `Grey lines are the edges of the graph. A coloured arrow is as strong as the weight with which the node at its tip looks at the other${
        layer.full ? "; here every node looks at every node, and the largest weights of each are known" : ""}, and a ring is a node that looks at itself. Drawn is what stands out from an even share, which is one over the number of nodes that a node looks at; of a node that you point at, all.`;
    }
    const bytes = await unpackedOnce(part.edges[layer?.list ?? 0]);
    const ends = sixteens(bytes);
    const count = ends.length / 2;
    const halves = layer?.proved ? fromHalves(await unpackedOnce(layer.weights)) : null;
    if (this.here.closed || layer !== this.layer) return;
    [this.source, this.target] = [ends.subarray(0, count), ends.subarray(count)];
    this.weights = halves && new Float32Array(count);
    const heads = layer?.heads.map((_, k) => k) ?? [];
    const chosenHeads = networkShown.head === MEAN ? heads : [networkShown.head];
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

  // the groups that nodes are coloured by, and that of each node
  get group() {
    const k = this.part.groups.findIndex(({ name }) => name === networkShown.colour);
    return k < 0 ? null : { ...this.part.groups[k], of: this.groups[k] };
  }

  // the group of a node in words
  nameOf(groups, k) {
    return groups.of[k] < 0 ? UNKNOWN : groups.names[groups.of[k]];
  }

  mark() {
    this.paint();
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
    this.camera.project(this.given, 2, this.size, this.seen);
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
      colour: (k) => (group && group.of[k] >= 0 ? ofHead(group.of[k]) : plainNode()),
    });
    if (this.left) paintGroup(context, this.seen, this.left.places, 6);
    const present = [...new Set(group?.of)].sort((a, b) => (a < 0) - (b < 0) || a - b);
    const keys = present.map((k) => make("span", { class: "key" },
      make("span", { class: "dot", style: `--colour: ${css(k < 0 ? plainNode() : ofHead(k))}` }), shown(k < 0 ? UNKNOWN : group.names[k])));
    const line = (colour, words) => make("span", { class: "key" }, make("span", { class: "line", style: `--colour: ${css(colour)}` }), words);
    const ways = node !== null && this.weights
      ? [line(lineColour(), "what it looks at"), line(toColour(), "who looks at it")] : this.weights ? [line(lineColour(), "attention")] : [];
    refill(this.legend, keys.length ? make("div", { class: "keys" }, make("span", { class: "axis-name" }, group.name), keys) : null,
      make("div", { class: "keys" }, this.ground.length ? line(groundColour(), this.directed ? "edge, to its target" : "edge") : null, ways));
  }

  // A node comes to the middle; of a large graph a served page draws what lies around it.
  choose(k) {
    this.chosen = k;
    this.at = null;
    this.say();
    const { page } = this.here;
    if (k !== null && offers(page.data.live, "node") && k !== this.part.centre) page.asked.around(this.names[k]);
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
    const said = this.part.groups.map((groups, i) => make("span", { class: "item" }, make("span", { class: "quiet" }, `${groups.name} `),
      shown(this.nameOf({ ...groups, of: this.groups[i] }, k)))).flatMap((item) => [" ", item]);
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
    figure.now = networkShown.least ?? first;
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
