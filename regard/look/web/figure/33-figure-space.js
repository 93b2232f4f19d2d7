// What all drawings of figures share: a frame with a camera, words beside it, and things that can be left out together.

class SpaceDrawing {
  // keys: what keys do, in words
  constructor(part, here, camera, keys) {
    Object.assign(this, { part, here, camera, dims: part.axes.length, at: null });
    this.canvas = make("canvas");
    this.marks = make("canvas", { class: "marks" });
    this.frame = make("div", {
      class: "space", tabindex: "0", role: "application", "aria-roledescription": part.kind, "aria-label": `${part.facts}; ${keys}`,
    }, this.canvas, this.marks);
    this.controls = make("div", { class: "controls" });
    this.sentence = make("p", { class: "sentence" });
    this.readout = make("output", { class: "readout", "aria-live": "polite" });
    this.legend = make("div", { class: "legend" });
    this.regionPlace = make("div");
  }

  // places as they are drawn, and the number of each thing
  async load() {
    const [places, shown] = await Promise.all([this.part.places, this.part.shown].map((text) => text && unpacked(text)));
    this.given = new Float32Array(places.buffer);
    this.count = this.given.length / this.dims;
    this.names = shown ? new Uint32Array(shown.buffer) : Uint32Array.from({ length: this.count }, (_, k) => k);
    this.seen = seenArrays(this.count);
  }

  listen() {
    this.frame.addEventListener("keydown", (event) => this.stepped(event));  // before the camera, which moves with arrows, too
    steered(this.frame, this.camera, {
      moved: () => this.soon(),
      pointed: (x, y) => this.point(x === null ? null : nearestSeen(this.seen, x, y, 15)),
      chosen: (x, y) => this.choose(nearestSeen(this.seen, x, y, 18)),
    });
    this.here.sized(this.frame.parentElement, (width) => {
      this.size = spaceSize(width);
      for (const canvas of [this.canvas, this.marks]) sharpen(canvas, this.size.width, this.size.height);
      Object.assign(this.frame.style, { width: `${this.size.width}px`, height: `${this.size.height}px` });
      this.paint();
    });
  }

  // several moves between two pictures are one
  soon() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      if (!this.here.closed) this.paint();
    });
  }

  point(k) {
    if (this.at === k) return;
    this.at = k;
    this.mark();
    this.say();
  }

  sayUnproved(layer) {
    refill(this.sentence, make("strong", {}, "These weights are not shown, because they are not proved. "), layer.reason ?? "");
    this.sentence.className = "reason";
  }

  // Things that are left out together. listed(numbers): all in words; called(k): one of them
  offerGroups({ placeholder, read, write, listed, called }) {
    const { part: { thing }, here } = this;
    if (!RegionPanel.offered(here, "group")) return;
    this.left = new GroupChooser(this.frame, { thing, placeholder, seen: () => this.seen, read, write, painted: () => this.mark() });
    const panel = new RegionPanel(here, {
      title: `Without some ${severalOf(thing)}`,
      chosen: () => [...this.left.places].map((k) => this.names[k]),
      said: (region) => `${region.length > 1 ? `${whole(region.length)} ${severalOf(thing)}` : thing} ${clipped(listed(region), 60)}`,
      about: () => (here.page.data.region.about && this.chosen !== null
        ? { number: this.names[this.chosen], words: `${thing} ${called(this.chosen)}` } : null),
      controls: this.left.controls,
    });
    refill(this.regionPlace, panel.element);
  }
}

// The plural of what a thing is called.
function severalOf(thing) {
  return thing === "vertex" ? "vertices" : `${thing}s`;
}
