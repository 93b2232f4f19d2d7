// A mesh in space: its triangles, coloured by a number of their corners, turned with the pointer or the arrow keys.

const meshShown = { title: null, chosen: null, camera: null };
const FEW_FACES = 6000;  // so many triangles have their edges drawn

view("mesh", "Mesh", (part, place, here) => {
  const figure = new MeshFigure(part, here);
  const { sources } = figure;
  const start = Math.max(0, sources.findIndex(({ name }) => name === meshShown.title));
  const controls = make("div", { class: "controls" });
  const show = (k) => {
    meshShown.title = sources[k]?.name ?? null;
    const names = sources.map(({ name }, number) => [number, name]);
    refill(controls, sources.length > 1 ? picker("colour", names, k, (chosenOne) => show(Number(chosenOne))) : null, figure.number);
    figure.show(sources[k] ?? null);
  };
  const facts = make("p", { class: "facts" }, `${whole(part.count)} vertices, ${whole(part.triangles)} triangles`);
  refill(place, make("div", { class: "title-line" }, make("h2", {}, "The mesh"), facts), controls,
    make("div", { class: "space-figure" }, make("div", { class: "space-place" }, figure.frame),
      make("div", { class: "space-side" }, figure.sentence, figure.readout, figure.legend)));
  figure.load().then(() => !here.closed && show(start));
});

class MeshFigure {
  constructor(part, here) {
    Object.assign(this, { part, here, source: null, at: null });
    this.sources = [...(part.groups ? [{ name: "predicted class", groups: part.groups }] : []), ...part.measures];
    this.canvas = make("canvas");
    this.marks = make("canvas", { class: "marks" });
    this.frame = make("div", {
      class: "space", tabindex: "0", role: "application", "aria-roledescription": "mesh",
      "aria-label": `${part.count} vertices; arrow keys turn, plus and minus zoom, page keys go from vertex to vertex`,
    }, this.canvas, this.marks);
    this.readout = make("output", { class: "readout", "aria-live": "polite" });
    this.sentence = make("p", { class: "sentence" });
    this.legend = make("div", { class: "legend" });
    this.field = make("input", { type: "number", min: 1, max: part.count, placeholder: "none" });
    this.field.addEventListener("change", () => this.choose(this.field.value === "" ? null : Number(this.field.value) - 1));
    this.number = make("label", { class: "picker" }, make("span", {}, "vertex"), this.field);
    meshShown.camera ??= new Camera(false);
    this.camera = meshShown.camera;
  }

  async load() {
    const [places, faces] = await Promise.all([this.part.places, this.part.faces].map(unpacked));
    this.given = new Float32Array(places.buffer, places.byteOffset, 3 * this.part.count);
    this.places = centredPlaces(this.given, 3);
    this.faces = new Int32Array(faces.buffer, faces.byteOffset, faces.byteLength / 4);
    this.seen = seenArrays(this.part.count);
    this.colours = new Uint8ClampedArray(3 * this.part.count);
    const drawn = this.faces.length / 3;
    this.order = Uint32Array.from({ length: drawn }, (_, k) => k);
    this.depths = new Float32Array(drawn);
    steered(this.frame, this.camera, {
      moved: () => this.soon(),
      pointed: (x, y) => this.point(x === null ? null : this.nearest(x, y, 14)),
      chosen: (x, y) => this.choose(this.nearest(x, y, 18)),
    });
    this.frame.addEventListener("keydown", (event) => this.stepped(event));
    this.here.sized(this.frame.parentElement, (width) => this.arrange(width));
    this.here.painters.push(() => this.recolour());
  }

  nearest(x, y, reachOf) {
    return nearestSeen(this.seen, x, y, reachOf);
  }

  arrange(width) {
    this.size = spaceSize(width);
    for (const canvas of [this.canvas, this.marks]) sharpen(canvas, this.size.width, this.size.height);
    Object.assign(this.frame.style, { width: `${this.size.width}px`, height: `${this.size.height}px` });
    this.paint();
  }

  async show(source) {
    this.source = source;
    if (source && !source.loaded) {
      const bytes = await unpacked(source.groups ? source.groups.of : source.values);
      const Kind = source.groups ? Int32Array : Float32Array;
      source.loaded = new Kind(bytes.buffer, bytes.byteOffset, this.part.count);
    }
    if (this.here.closed || source !== this.source) return;
    this.sentence.textContent = source?.sentence ? `Colour: ${source.sentence}.` : "";
    this.choose(meshShown.chosen !== null && meshShown.chosen < this.part.count ? meshShown.chosen : null);
    this.recolour();
    performance.mark("regard:interactive");
  }

  recolour() {
    if (!this.colours) return;
    const { source, part: { count } } = this;
    const values = source?.loaded;
    const plain = plainSurface();
    if (!values) for (let k = 0; k < count; k++) this.colours.set(plain, 3 * k);
    else if (source.groups) {
      for (let k = 0; k < count; k++) this.colours.set(ofHead(values[k]), 3 * k);
      const there = new Set(values);
      const keys = source.groups.names.map((name, k) => [name, k]).filter(([, k]) => there.has(k));
      refill(this.legend, keys.map(([name, k]) => make("span", { class: "key" },
        make("span", { class: "dot", style: `--colour: ${css(ofHead(k))}` }), shown(name))));
    } else {
      const most = reach(values);
      const shade = (t) => mixed(plain, diverging(Math.sign(t)), Math.min(1, Math.abs(t)));
      for (let k = 0; k < count; k++) this.colours.set(shade(values[k] / most), 3 * k);
      const bar = colourBar((t) => shade(2 * t - 1), [[0, three(-most)], [0.5, "0"], [1, three(most)]], "");
      bar.paint();
      refill(this.legend, bar.element);
    }
    this.paint();
  }

  // several moves between two pictures are one
  soon() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      if (!this.here.closed) this.paint();
    });
  }

  // triangles from far to near; those that stand askew are darker
  paint() {
    if (!this.size || !this.order) return;
    const { seen, faces, order, depths, colours } = this;
    this.camera.project(this.places, 3, this.size, seen);
    for (let f = 0; f < depths.length; f++) {
      depths[f] = seen.depth[faces[3 * f]] + seen.depth[faces[3 * f + 1]] + seen.depth[faces[3 * f + 2]];
    }
    order.sort((a, b) => depths[b] - depths[a]);
    const context = sharpened(this.canvas);
    context.clearRect(0, 0, this.size.width, this.size.height);
    const edges = order.length <= FEW_FACES;
    context.lineWidth = 0.6;
    context.lineJoin = "round";
    const scale = 0.46 * this.camera.zoom * Math.min(this.size.width, this.size.height);
    const line = dark() ? "rgb(255 255 255 / 0.16)" : "rgb(0 0 0 / 0.16)";
    for (const f of order) {
      const [a, b, c] = [faces[3 * f], faces[3 * f + 1], faces[3 * f + 2]];
      const facing = this.facing(a, b, c, scale);
      const light = 0.5 + 0.5 * facing;
      const mean = (d) => light * (colours[3 * a + d] + colours[3 * b + d] + colours[3 * c + d]) / 3;
      const fill = `rgb(${mean(0)} ${mean(1)} ${mean(2)})`;
      context.beginPath();
      context.moveTo(seen.x[a], seen.y[a]);
      context.lineTo(seen.x[b], seen.y[b]);
      context.lineTo(seen.x[c], seen.y[c]);
      context.closePath();
      context.fillStyle = fill;
      context.fill();
      context.strokeStyle = fill;  // or hairs of paper show between neighbours
      context.stroke();
      if (!edges) continue;
      context.strokeStyle = line;
      context.stroke();
    }
    this.paintMarks();
  }

  // 1: seen straight on, 0: seen from its edge
  facing(a, b, c, scale) {
    const { seen } = this;
    const [ux, uy, uz] = [seen.x[b] - seen.x[a], seen.y[b] - seen.y[a], scale * (seen.depth[b] - seen.depth[a])];
    const [vx, vy, vz] = [seen.x[c] - seen.x[a], seen.y[c] - seen.y[a], scale * (seen.depth[c] - seen.depth[a])];
    const across = Math.abs(ux * vy - uy * vx);
    return across / (Math.hypot(across, uy * vz - uz * vy, uz * vx - ux * vz) || 1);
  }

  paintMarks() {
    if (!this.size) return;
    const context = sharpened(this.marks);
    context.clearRect(0, 0, this.size.width, this.size.height);
    for (const [k, width] of [[meshShown.chosen, 2.5], [this.at, 1.5]]) {
      if (k === null || k >= this.part.count) continue;
      context.strokeStyle = getComputedStyle(this.frame).color;
      context.lineWidth = width;
      context.beginPath();
      context.arc(this.seen.x[k], this.seen.y[k], 6, 0, 7);
      context.stroke();
    }
  }

  choose(k) {
    meshShown.chosen = k !== null && k >= 0 && k < this.part.count ? k : null;
    this.field.value = meshShown.chosen === null ? "" : meshShown.chosen + 1;
    this.paintMarks();
    this.say();
  }

  stepped(event) {
    if (event.key === "Escape") return this.choose(null);
    const step = { PageDown: 1, PageUp: -1 }[event.key];
    if (!step) return null;
    event.preventDefault();
    return this.choose(Math.min(this.part.count - 1, Math.max(0, (meshShown.chosen ?? -1) + step)));
  }

  point(k) {
    if (this.at === k) return;
    this.at = k;
    this.paintMarks();
    this.say();
  }

  say() {
    const k = this.at ?? meshShown.chosen;
    if (k === null) {
      refill(this.readout, make("span", { class: "quiet" }, "Drag to turn, scroll to zoom. Point at a vertex to read it, click to keep it."));
      return;
    }
    const [x, y, z] = this.given.subarray(3 * k, 3 * k + 3);
    const value = this.source?.loaded?.[k];
    const words = this.source?.groups ? shown(this.source.groups.names[value]) : value === undefined ? null : signed(value);
    refill(this.readout, make("span", { class: "item" }, "vertex ", make("strong", {}, nth(k))), " ",
      make("span", { class: "quiet" }, `(x ${three(x)}, y ${three(y)}, z ${three(z)}) `),
      words === null ? null : make("span", { class: "item" }, `${this.source.name} `, make("strong", {}, words)));
  }
}

// of a surface that says nothing
function plainSurface() {
  return dark() ? [92, 96, 104] : [214, 217, 222];
}
