// One head, enlarged: as a matrix, as lines, and in figures.

// as: matrix, lines or both; by: words or tokens, null: words where two texts meet and most words are one token. Both stay so for the next head
const enlargedShown = { as: null, by: null };

async function enlarge(here, layer, head, place) {
  const inner = here.afresh();
  const { page } = here;
  const title = layer.proved ? `Layer ${nth(layer.layer)}, head ${nth(layer.heads[head])}` : `Layer ${nth(layer.layer)}`;
  const heading = make("div", { class: "title-line" }, make("h2", {}, title), whereabouts(layer));
  if (!layer.proved) {
    const words = make("strong", {}, "These weights are not shown, because they are not proved. ");
    refill(place, heading, make("p", { class: "reason" }, words, layer.reason ?? ""));
    return;
  }
  enlargedShown.as ??= matchMedia("(max-width: 900px)").matches ? "matrix" : "both";
  const readout = make("output", { class: "readout", "aria-live": "polite" });
  const [matrixPlace, linesPlace] = [make("div", { class: "as-matrix" }), make("div", { class: "as-lines" })];
  const figures = make("div", { class: layer.m > LONG ? "figures long" : "figures" }, matrixPlace, linesPlace);
  const legend = make("div", { class: "legend" });
  figures.dataset.as = enlargedShown.as;
  const ways = choice("how the head is shown", ["matrix", "lines", "both"].map((way) => [way, way]), enlargedShown.as, (way) => {
    enlargedShown.as = way;
    figures.dataset.as = way;
  });
  const tokens = [page.data.streams[layer.rows], page.data.streams[layer.columns]];
  const words = wordsOf(tokens, layer);
  // (where tokens are letters, whole words say too little)
  const few = words?.every((each) => 2 * countWords(each) >= each.length);
  const by = words ? enlargedShown.by ?? (layer.kind === "cross" && few ? "words" : "tokens") : "tokens";
  const units = words ? choice("what a row and a column are", ["words", "tokens"].map((unit) => [unit, unit]), by, (unit) => {
    enlargedShown.by = unit;
    enlarge(here, layer, head, place);
    place.querySelector(".units input:checked")?.focus();
  }) : null;
  units?.classList.add("units");
  const silence = page.data.live?.silence ? page.asked.silenceButton(layer.layer, layer.heads[head]) : null;
  const hearAll = page.data.live?.silence && page.data.silenced?.length ? page.asked.hearAllButton() : null;
  const compare = page.before ? page.asked.compareButton() : null;
  const windows = layer.windows ? picker("shown", layer.windows.map(({ name }, k) => [k, name]), layer.window, (k) => {
    attentionShown.windows.set(layerKey(layer), Number(k));
    page.open("attention");
  }) : null;
  refill(place, heading, figuresOf(layer, head), layer.note ? make("p", { class: "note" }, layer.note) : null,
    make("div", { class: "controls" }, windows, ways, units, silence, hearAll, compare), readout, figures, legend);

  const [weights, earlier] = await Promise.all([weightsOf(page.data, layer, head), weightsBefore(page, layer, head)]);
  if (inner.closed) return;
  const shown = by === "words" ? inWords(layer, tokens, words, weights, earlier) : [layer, tokens, weights, earlier];
  new Enlarged(...shown, readout).draw(inner, matrixPlace, linesPlace, legend);
  performance.mark("regard:interactive");
}

// The word of each query and of each key; null where nobody knows, or no word has two pieces.
function wordsOf([rows, columns], { n, m }) {
  const each = [[rows, n], [columns, m]].map(([stream, count]) => stream?.words ?? Array.from({ length: count }, (_, k) => k));
  const fit = each[0].length === n && each[1].length === m;
  return fit && (countWords(each[0]) < n || countWords(each[1]) < m) ? each : null;
}

// What `Enlarged` shows, with whole words for tokens.
function inWords(layer, streams, words, weights, earlier) {
  const [queries, keys] = words;
  const whole = streams.map((stream, side) => ({ ...stream, labels: spelled(stream.labels, words[side]) }));
  const merged = [weights, earlier].map((each) => each?.merged(queries, keys) ?? null);
  return [{ ...layer, n: countWords(queries), m: countWords(keys) }, whole, ...merged];
}

// The words that pieces make up, without the spaces around them.
function spelled(labels, words) {
  const found = Array.from({ length: countWords(words) }, () => "");
  labels.forEach((label, k) => { found[words[k]] += label; });
  return found.map((word) => word.trim() || word);
}

function whereabouts({ name, kind, call, operator, implied }) {
  const kinds = { edges: "attention along edges", cross: implied ? "attention over projected keys" : "cross-attention" };
  const words = [kinds[kind] ?? `${kind}-attention`, call ? `call ${nth(call)}` : null, operator].filter(Boolean);
  return make("p", { class: "facts" }, make("bdi", { class: "name" }, name || "the model"), ` · ${words.join(" · ")}`);
}

function figuresOf(layer, head) {
  const facts = [
    ["entropy", layer.entropy?.[head], "mean over the queries, in nats: 0 if each looks at one key"],
    ["distance", layer.distance?.[head], "mean number of places between a query and what it looks at"],
    ["proved to", layer.error, "how far the weighted values are from what the model computed"],
  ].filter(([, value]) => value !== null && value !== undefined);
  return make("p", { class: "figures-of" }, facts.map(([name, value, said]) => (
    make("span", { title: said }, make("span", { class: "what" }, `${name} `), three(value)))));
}

class Enlarged {
  // earlier: the weights before the last run, if they are compared
  constructor(layer, [rows, columns], weights, earlier, readout) {
    Object.assign(this, { layer, rows, columns, weights, earlier, readout });
    this.queries = labelsOf(rows, layer.n);
    this.keys = labelsOf(columns, layer.m);
  }

  draw(inner, matrixPlace, linesPlace, legend) {
    const { layer: { layer, n, m } } = this;
    const [rows, columns] = [labelsOf(this.rows, n, shortLabels), labelsOf(this.columns, m, shortLabels)];
    const tokens = { n, m, rows, columns, name: `attention of layer ${nth(layer)}: ${n} queries by ${m} keys` };
    const [rowName, columnName] = [`queries: ${this.rows.name} ↓`, `keys: ${this.columns.name} →`];
    this.matrix = heatmap(inner, { ...tokens, rowName, columnName, told: (i, j = null) => {
      this.links.mark(i === null ? null : "query", i);
      this.say(i, j);
    } });
    this.links = lines(inner, { ...tokens, told: (side, k) => {
      const [i, j] = [side === "query" ? k : null, side === "key" ? k : null];
      this.matrix.mark(i, j);
      this.say(i, j);
    } });
    refill(matrixPlace, this.matrix.element);
    refill(linesPlace, this.links.element);
    inner.paint(() => (this.earlier ? this.paintChange(legend) : this.paintWeights(legend)));
    this.links.show(this.weights, this.earlier ? (i, j) => this.change(i, j) : null);
    this.say(null, null);
  }

  change(i, j) {
    const k = i * this.layer.m + j;
    return this.weights.drawn[k] - this.earlier.drawn[k];
  }

  paintWeights(legend) {
    const levels = Uint8Array.from(this.weights.drawn, (weight) => Math.round(255 * Math.sqrt(Math.min(1, Math.max(0, weight)))));
    this.matrix.show(levels, sequentialPalette());
    const bar = colourBar(sequential, ROOTS, "weight");
    bar.paint();
    const { count, all } = this.layer.largest;
    refill(legend, bar.element, (this.weights.bound || this.weights.estimated) && !all ? make("p", { class: "quiet" },
      `Listed are the ${count} largest weights of each row; others are drawn as an even share of the rest.`) : null);
  }

  paintChange(legend) {
    const [now, then] = [this.weights.drawn, this.earlier.drawn];
    const most = now.reduce((largest, weight, k) => Math.max(largest, Math.abs(weight - then[k])), 1e-6);
    this.matrix.show(Uint8Array.from(now, (weight, k) => 128 + Math.round((127 * (weight - then[k])) / most)), divergingPalette());
    const bar = changeBar(most, "change");
    bar.paint();
    refill(legend, bar.element);
  }

  // about a cell, a query, a key, or nothing
  say(i, j) {
    if (i !== null && j !== null) refill(this.readout, this.cellWords(i, j));
    else if (i !== null) refill(this.readout, this.tokenWords("query", i));
    else if (j !== null) refill(this.readout, this.tokenWords("key", j));
    else refill(this.readout, make("span", { class: "quiet" }, "Point at a cell or a token, or use the arrow keys."));
  }

  cellWords(i, j) {
    const then = this.earlier ? ` before ${weightWords(this.earlier.at(i, j))}, change ${signed(this.change(i, j))}` : "";
    const figures = [make("strong", {}, weightWords(this.weights.at(i, j))), make("span", { class: "before" }, then)];
    return ["query ", streamToken(this.rows, this.queries[i], i), " → key ", streamToken(this.columns, this.keys[j], j), " ", figures];
  }

  tokenWords(side, k) {
    const both = [(k) => streamToken(this.rows, this.queries[k], k), (k) => streamToken(this.columns, this.keys[k], k)];
    const [mine, others] = side === "query" ? both : both.reverse();
    const best = this.weights.of(side, k, 5);
    return [`${side} `, mine(k), side === "query" ? " looks at " : " is looked at by ", best.map(([other, weight]) => (
      make("span", { class: "item" }, others(other), " ", make("strong", {}, three(weight)), " ")))];
  }
}

function labelsOf(stream, count, shownAs = shownLabels) {
  const labels = shownAs(stream);
  return Array.from({ length: count }, (_, k) => labels[k] ?? nth(k));
}

async function weightsOf(data, layer, head) {
  if (data.live && served) {
    try {
      return await Weights.served(data.record, layer, head);
    } catch {
      // a server that has ended, or has forgotten this record: what the page itself lists is still true
    }
  }
  return Weights.listed(layer, head);
}

// the same head before the last run, if its map has the same shape
async function weightsBefore(page, layer, head) {
  const same = page.partBefore && throughWindows(page.partBefore.layers).find((each) => each.layer === layer.layer && each.call === layer.call);
  if (!same?.proved || same.n !== layer.n || same.m !== layer.m || same.heads[head] !== layer.heads[head]) return null;
  return weightsOf(page.before, same, head);
}
