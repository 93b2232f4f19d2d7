// The things of a figure as the rows of a table, with their weights: what is drawn beside it, in numbers.

const MOST_ROWS = 100;
const FEW_WEIGHTS = 6;   // learned vectors that have a column each

const rowsShown = { by: "weight" };

class FigureRows {
  constructor(figure) {
    this.figure = figure;
    this.place = make("div");
    this.words = make("p", { class: "quiet" });
    const by = choice("order of the rows", [["weight", "largest first"], ["number", "by number"]], rowsShown.by, (way) => {
      rowsShown.by = way;
      this.show();
    });
    this.element = make("section", { class: "point-rows", "aria-label": "rows" }, make("div", { class: "title-line" },
      make("h3", {}, "Rows"), by), this.place, this.words);
    this.element.hidden = !figure.part.rows;
  }

  // [[words, value of a thing, signed], …] of what colours the picture now
  get weights() {
    const { figure } = this;
    const { source } = figure;
    if (!source?.proved || !source.of) return [];
    if (source.many) {
      const few = Array.from({ length: source.layer.count }, (_, k) => k).filter((k) => !figureShown.off.has(k)).slice(0, FEW_WEIGHTS);
      return few.map((each) => [source.called(each), source.of(each, figureShown.head), false]);
    }
    const words = source.measure ? source.title : figure.row ? "weight" : "attention received";
    return [[words, figure.row ?? source.of(0, figureShown.head), Boolean(source.measure?.signed)]];
  }

  show() {
    if (!this.figure.part.rows || !this.figure.columns) return;
    const { figure, weights } = this;
    const { part, count } = figure;
    const wide = part.columns.length;
    const size = (k) => Math.max(0, ...weights.map(([, values]) => Math.abs(values[k])));
    const order = Array.from({ length: count }, (_, k) => k);
    if (rowsShown.by === "weight" && weights.length) order.sort((a, b) => size(b) - size(a) || a - b);
    const most = weights.map(([, values]) => Math.max(1e-30, ...Array.from(values, Math.abs)));
    const cell = ([, values, around], k, w) => make("td", { class: "weighed" },
      make("span", { class: "share", style: `width: ${(46 * Math.abs(values[k])) / most[w]}px; --colour: ${css(around && values[k] < 0 ? diverging(-0.8) : around ? diverging(0.8) : sequential(0.55))}` }),
      around ? signed(values[k]) : three(values[k]));
    const rows = order.slice(0, MOST_ROWS).map((k) => make("tr", {
      "aria-selected": String(figureShown.chosen === k), onpointerenter: () => figure.point(k), onpointerleave: () => figure.point(null),
    }, make("th", { scope: "row" }, make("button", { type: "button", class: "row-number", onclick: () => this.choose(k) }, nth(figure.names[k]))),
    part.columns.map((_, d) => make("td", {}, asWritten(figure.columns[k * wide + d]))), weights.map((each, w) => cell(each, k, w))));
    const head = make("tr", {}, make("th", { scope: "col" }, part.thing), part.columns.map((name) => make("th", { scope: "col" }, shown(name))),
      weights.map(([words]) => make("th", { scope: "col" }, words)));
    const focused = this.element.contains(document.activeElement) ? document.activeElement.textContent : null;
    refill(this.place, scrolled(make("table", { class: "rows" }, make("thead", {}, head), make("tbody", {}, rows))));
    if (focused !== null) [...this.place.querySelectorAll("button")].find((button) => button.textContent === focused)?.focus();
    this.words.textContent = [
      count > MOST_ROWS ? `${whole(MOST_ROWS)} of ${whole(part.count)} rows.` : null,
      part.wide > wide ? `${wide} of ${part.wide} columns.` : null,
    ].filter(Boolean).join(" ");
  }

  choose(k) {
    this.figure.choose(figureShown.chosen === k ? null : k);
  }
}

// A number of a table as it stands there, but for what 32 bits cannot hold.
function asWritten(x) {
  return String(Number(x.toPrecision(6))).replace("-", "−");
}
