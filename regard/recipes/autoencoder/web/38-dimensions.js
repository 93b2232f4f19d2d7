// One line for each number of a code: a slider, and a strip of what is decoded along it.

const LINES = 8;  // dimensions on the page at once

class Dimensions {
  // moved(number, value): a slider was moved; stepped(place, step): a step of a strip was chosen, in a page without a server
  constructor(part, here, { live, moved, stepped, turned }) {
    Object.assign(this, { part, here, live, moved, stepped, turned, page: 0, code: [...part.here.code], inputs: new Map() });
    this.list = make("div", { class: "dimensions" });
    this.pager = make("div", { class: "controls" });
    this.element = make("section", { class: "latent-section" }, make("h2", {}, "One dimension at a time"),
      make("p", { class: "sentence" }, this.words()), this.pager, this.list);
    this.strips = new Map();  // number of a dimension -> [exhibit, place of its first step]
  }

  words() {
    const { part, live } = this;
    const rest = "All other numbers of the code stay as they are.";
    const order = part.variational ? "The KL of a dimension is what it costs; the largest comes first." : "Those that vary most come first.";
    const few = !live && part.dimensions.length > part.strips.of.length ? ` This page is a file and has the first ${part.strips.of.length} of ${part.latent}.` : "";
    return `Each strip shows what is decoded from −3 σ to 3 σ. ${rest} ${order}${few}`;
  }

  get known() {
    return this.live ? this.part.dimensions : this.part.dimensions.slice(0, this.part.strips.of.length);
  }

  get visible() {
    return this.known.slice(this.page * LINES, (this.page + 1) * LINES);
  }

  async load() {
    await this.take(this.part.strips);
    this.show();
  }

  // strips that came with the page or were asked for
  async take({ of, steps: count, shown: data }) {
    const exhibit = await new Exhibit(this.part.inputs, data).load();
    of.forEach((dimension, k) => this.strips.set(dimension, [exhibit, k * count]));
    this.count = count;
  }

  show() {
    const pages = Math.ceil(this.known.length / LINES);
    const turn = (to) => {
      this.page = to;
      this.show();
      this.turned();
    };
    const button = (words, to) => make("button", { type: "button", class: "toggle", disabled: to < 0 || to >= pages, onclick: () => turn(to) }, words);
    const first = this.page * LINES;
    refill(this.pager, pages > 1 ? [button("previous", this.page - 1),
      make("span", { class: "state" }, `${first + 1} to ${Math.min(first + LINES, this.known.length)} of ${this.known.length}`), button("next", this.page + 1)] : null);
    this.inputs.clear();
    refill(this.list, this.visible.map((dimension) => this.line(dimension)));
  }

  line({ number, kl, variance, active, low, high }) {
    const [from, to] = [Math.min(low, this.code[number]), Math.max(high, this.code[number])];
    const said = make("output", { class: "figure" });
    const input = make("input", {
      type: "range", min: this.live ? from : low, max: this.live ? to : high, "aria-label": `z${number + 1}`,
      step: this.live ? (to - from) / 200 : (high - low) / (this.count - 1),
    });
    input.value = this.code[number];
    input.addEventListener("input", () => this.heard(number, Number(input.value)));
    this.inputs.set(number, { input, said });
    const strip = make("div", { class: "strip", "aria-hidden": "true" });
    this.fillStrip(strip, number, low, high);
    this.inputs.get(number).strip = strip;
    const told = kl === null ? `variance ${three(variance)}` : `KL ${three(kl)} nats`;
    this.tell(number);
    return make("div", { class: active ? "dimension" : "dimension unused" },
      make("p", { class: "dimension-name" }, make("strong", {}, `z${number + 1}`), make("span", { class: "quiet" }, ` ${told}`),
        active ? null : make("span", { class: "badge plain" }, "not used")),
      make("div", { class: "dimension-slider" }, input, said), strip);
  }

  fillStrip(strip, number, low, high) {
    const found = this.strips.get(number);
    if (!found) return refill(strip, make("span", { class: "quiet" }, "…"));
    const [exhibit, start] = found;
    return refill(strip, Array.from({ length: this.count }, (_, k) => {
      const value = low + (k * (high - low)) / (this.count - 1);
      const cell = make("span", { class: "strip-cell", title: `z${number + 1} = ${three(value)}` }, exhibit.small(start + k));
      cell.addEventListener("click", () => this.heard(number, value));
      return cell;
    }));
  }

  tell(number) {
    const { said } = this.inputs.get(number);
    said.textContent = three(this.code[number]);
  }

  heard(number, value) {
    if (!this.live) {
      // a page without a server knows one change at a time
      this.code = [...this.part.here.code];
      for (const [other, { input }] of this.inputs) if (other !== number) input.value = this.code[other];
    }
    this.code[number] = value;
    this.inputs.get(number).input.value = value;
    for (const each of this.inputs.keys()) this.tell(each);
    if (this.live) {
      this.moved(this.code);
      return;
    }
    const { low, high } = this.part.dimensions.find((each) => each.number === number);
    const [exhibit, start] = this.strips.get(number);
    const step = Math.min(this.count - 1, Math.max(0, Math.round(((value - low) / (high - low)) * (this.count - 1))));
    this.stepped(exhibit, start + step, number, value);
  }

  // another code is decoded
  follow(code) {
    this.code = [...code];
    for (const [number, { input }] of this.inputs) {
      if (Number(input.max) < code[number]) input.max = code[number];
      if (Number(input.min) > code[number]) input.min = code[number];
      if (document.activeElement !== input) input.value = code[number];
      this.tell(number);
    }
  }

  // strips through another code
  async renew(strips) {
    await this.take(strips);
    for (const { number, low, high } of this.visible) this.fillStrip(this.inputs.get(number).strip, number, low, high);
  }
}
