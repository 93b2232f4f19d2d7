// What the prediction loses without a part of the input: a server runs the model again without it. All that were tried stay
// below each other, so that they can be compared.

const regionsTried = { record: null, list: [] };
const NO_MODEL = "This page is a file, so the model is not here to be asked. To try it, run";

class RegionPanel {
  // chosen() -> numbers that are asked for, or null; said(numbers): what they are, in words; about() -> {number, words} or null;
  // controls: with which they are chosen; title: of the panel; changed(): what is tried has changed
  constructor(here, { title, chosen: numbers, said, controls, about = () => null, changed = () => {} }) {
    const { page } = here;
    Object.assign(this, { here, page, numbers, said, about, changed });
    this.state = make("span", { class: "state", role: "status" });
    this.error = make("p", { class: "error", role: "alert", hidden: true });
    this.table = make("div");
    this.button = make("button", { type: "button", class: "toggle", onclick: () => this.ask() }, "what is lost without it?");
    const { region, live } = page.data;
    if (regionsTried.record !== page.data.record || !live) Object.assign(regionsTried, { record: page.data.record, list: [] });
    const command = make("code", {}, `regard look ${/\s/.test(page.data.title) ? "RUN" : page.data.title}`);
    const asFile = make("p", { class: "sentence" }, `${NO_MODEL} `, command, " (with the path of the run or model) and open the address that it prints.");
    this.element = make("section", { class: "region", "aria-label": title }, make("h3", {}, title),
      make("p", { class: "sentence" }, `${region.gone} The model then runs again.`),
      live ? [make("div", { class: "controls" }, controls, this.button, this.state), this.error, this.table] : asFile);
    if (live) this.show();
  }

  // can anything be asked?
  static offered({ page: { data } }, shape) {
    return data.region?.shape === shape;
  }

  async ask() {
    const region = this.numbers();
    const about = this.about();
    if (!region?.length) return this.fail("Choose a region first.");
    if (this.page.data.region.about && about === null) {
      return this.fail(`Each ${this.page.data.region.about} has a prediction of its own: click the one that you ask about.`);
    }
    if (this.button.disabled) return null;
    this.button.disabled = true;
    this.error.hidden = true;
    this.state.textContent = "The model is running …";
    const { record } = this.page.data;
    try {
      const found = await answered({ record, region, about: about?.number ?? null }, "/api/region");
      if (regionsTried.record === record) regionsTried.list.push({ region, about, found, words: this.said(region) });
      if (!this.here.closed) this.show();
    } catch (problem) {
      this.fail(problem.message);
    } finally {
      this.button.disabled = false;
      this.state.textContent = "";
    }
    return null;
  }

  fail(words) {
    this.error.textContent = words;
    this.error.hidden = false;
  }

  show() {
    const { list } = regionsTried;
    this.changed(list);
    if (!list.length) {
      refill(this.table);
      return;
    }
    const forget = (k) => {
      list.splice(k, 1);
      this.show();
    };
    const rows = list.map((tried, k) => make("tr", {}, make("th", { scope: "row" }, `${nth(k)} `, make("span", { class: "quiet" }, tried.words,
      tried.about ? `; of ${tried.about.words}` : "")), lossCells(tried.found, this.label),
    make("td", {}, make("button", { type: "button", class: "forget", "aria-label": `forget region ${nth(k)}`, onclick: () => forget(k) }, "×"))));
    const heads = list[0].found.values ? ["without", "prediction"] : ["without", "probability", "logit", "predicted then"];
    refill(this.table, scrolled(make("table", { class: "regions" },
      make("thead", {}, make("tr", {}, heads.map((words) => make("th", { scope: "col" }, words)), make("td"))), make("tbody", {}, rows))));
  }

  // labels of a text keep their spaces
  get label() {
    return (text) => token(this.page.data.input?.kind === "text" && !this.page.data.views.some((part) => part.view === "classes")
      ? shownToken(text) : shown(text));
  }
}

// The prediction before and after: of classes the probability and the logit, of numbers each of them.
function lossCells(found, label) {
  if (found.values) {
    return make("td", {}, found.values.map(([name, was, now]) => make("div", {}, `${shown(name)} ${three(was)} → `,
      make("strong", {}, three(now)), make("span", { class: "quiet" }, ` (${signed(now - was)})`))));
  }
  const [was, now] = found.shares;
  const [high, low] = found.logits;
  const [then, p] = found.then;
  return [make("td", {}, label(found.label), ` ${percent(was)} → `, make("strong", {}, percent(now))),
    make("td", {}, make("strong", {}, signed(low - high))),
    make("td", {}, then === found.label ? "the same" : [label(then), ` ${percent(p)}`])];
}

// A number in a row of fields; what is typed is counted from 1.
function placeField(words, most, changed) {
  const input = make("input", { type: "number", min: 1, max: most, "aria-label": words, onchange: () => changed() });
  return input;
}

// 1, 4–7, 9: numbers counted from 1; word(k) writes one
function numbersInWords(numbers, word = nth) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const runs = [];
  for (const k of sorted) {
    if (runs.length && runs.at(-1)[1] === k - 1) runs.at(-1)[1] = k;
    else runs.push([k, k]);
  }
  return runs.map(([a, b]) => (a === b ? word(a) : `${word(a)}–${word(b)}`)).join(", ");
}

// "1, 4-7" -> [0, 3, 4, 5, 6]; null: it cannot be read
function numbersOf(text, count) {
  const found = new Set();
  for (const part of text.split(/[,;\s]+/).filter(Boolean)) {
    const range = /^(\d{1,9})(?:[-–](\d{1,9}))?$/.exec(part);
    if (!range) return null;
    const [from, to] = [Number(range[1]), Number(range[2] ?? range[1])];
    if (from < 1 || to > count || to < from) return null;
    for (let k = from; k <= to; k++) found.add(k - 1);
  }
  return [...found];
}
