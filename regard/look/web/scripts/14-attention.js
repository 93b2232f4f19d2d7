// Attention: all heads on a sheet, and one of them enlarged as a matrix and as lines.

const attentionShown = { measure: "maps", kind: "all", as: null };  // stays as it is when another view is opened in between

view("attention", "Attention", (part, place, here) => {
  const layers = part.layers;
  const detail = make("div", { class: "enlarged" });
  const sheetPlace = make("div");
  const kinds = [...new Set(layers.map((layer) => layer.kind))];
  const measures = Object.entries(MEASURES).filter(([name]) => name === "maps" || layers.some((layer) => layer[name]?.length));
  if (!kinds.includes(attentionShown.kind)) attentionShown.kind = "all";
  let sheet = null;

  const silenced = (layer, head) => (here.page.data.silenced ?? []).some(([a, b]) => a === layer && b === head);

  function fillSheet() {
    const of = layers.map((layer, k) => [k, layer]).filter(([, layer]) => attentionShown.kind === "all" || layer.kind === attentionShown.kind);
    sheet = headSheet(here, of, silenced, select);
    refill(sheetPlace, sheet.element);
    sheet.paint(attentionShown.measure);
    select(...(of.some(([k]) => k === current()[0]) ? current() : [of[0][0], 0]));
  }

  // place of the layer in the list, place of the head in the layer
  function current() {
    let at = layers.findIndex((layer) => layer.layer === chosen.layer && layer.call === (chosen.call ?? layer.call));
    if (at < 0) at = Math.max(0, layers.findIndex((layer) => layer.proved));
    return [at, Math.max(0, layers[at].heads.indexOf(chosen.head))];
  }

  function select(at, head) {
    choose({ layer: layers[at].layer, call: layers[at].call, head: layers[at].heads[head] ?? null });
    sheet.mark(at, head);
    enlarge(here, layers[at], head, detail);
  }

  const controls = make("div", { class: "controls" },
    measures.length > 1 ? choice("what the sheet shows", measures, attentionShown.measure, (name) => {
      attentionShown.measure = name;
      sheet.paint(name);
    }) : null,
    kinds.length > 1 ? choice("which layers", [["all", "all"], ...kinds.map((kind) => [kind, kind])], attentionShown.kind, (kind) => {
      attentionShown.kind = kind;
      fillSheet();
    }) : null);
  refill(place, make("div", { class: "overview" },
    make("div", { class: "title-line" }, make("h2", {}, "Heads"), make("p", { class: "facts" }, "rows are layers, columns are heads")),
    controls, sheetPlace), detail);
  fillSheet();
  here.painters.push(() => sheet.paint(attentionShown.measure));
});

let enlarging = 0;  // counts, so that what arrives late does not replace what was chosen since

async function enlarge(here, layer, head, place) {
  const mine = ++enlarging;
  here.enlarged?.close();
  const inner = (here.enlarged = new Here(here.page));
  here.over.signal.addEventListener("abort", () => inner.close());
  if (!here.paintsEnlarged) {
    here.paintsEnlarged = true;
    here.painters.push(() => here.enlarged.repaint());
  }
  const { page } = here;
  const number = layer.heads[head];
  const title = make("h2", {}, layer.proved ? `Layer ${layer.layer}, head ${number}` : `Layer ${layer.layer}`);
  const where = make("p", { class: "facts" }, make("bdi", { class: "name" }, layer.name || "the model"),
    ` · ${layer.kind}-attention`, layer.call ? ` · call ${layer.call}` : null, layer.operator ? ` · ${layer.operator}` : null);
  if (!layer.proved) {
    refill(place, make("div", { class: "title-line" }, title, where),
      make("p", { class: "reason" }, make("strong", {}, "These weights are not shown, because they are not proved. "), layer.reason ?? ""));
    return;
  }
  const facts = [
    ["entropy", layer.entropy?.[head], "mean over the queries, in nats: 0 if each looks at one key"],
    ["distance", layer.distance?.[head], "mean number of places between a query and what it looks at"],
    ["proved to", layer.error, "how far the weighted values are from what the model computed"],
  ].filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value, said]) => make("span", { class: "fact", title: said }, make("span", { class: "what" }, `${name} `), three(value)));

  const [rows, columns] = [page.data.streams[layer.rows], page.data.streams[layer.columns]];
  const [queries, keys] = [labelsOf(rows, layer.n), labelsOf(columns, layer.m)];
  const readout = make("output", { class: "readout", "aria-live": "polite" });
  const name = `attention of layer ${layer.layer}, head ${number}: ${layer.n} queries by ${layer.m} keys`;
  const [matrixPlace, linesPlace] = [make("div", { class: "as-matrix" }), make("div", { class: "as-lines" })];
  const figures = make("div", { class: layer.m > LONG ? "figures long" : "figures" }, matrixPlace, linesPlace);
  const legend = make("div", { class: "legend" });
  const narrow = matchMedia("(max-width: 900px)").matches;
  attentionShown.as ??= narrow ? "matrix" : "both";
  figures.dataset.as = attentionShown.as;
  const shape = choice("how the head is shown", [["matrix", "matrix"], ["lines", "lines"], ["both", "both"]], attentionShown.as, (as) => {
    attentionShown.as = as;
    figures.dataset.as = as;
  });
  const silence = page.data.live?.silence ? page.asked.silenceButton(layer.layer, number) : null;
  const compare = page.before ? page.asked.compareButton() : null;
  refill(place, make("div", { class: "title-line" }, title, where), make("p", { class: "figures-of" }, facts),
    layer.note ? make("p", { class: "note" }, layer.note) : null,
    make("div", { class: "controls" }, shape, silence, compare), readout, figures, legend);

  const [weights, earlier] = await Promise.all([weightsOf(page, page.data, layer, head), weightsBefore(page, layer, head)]);
  if (mine !== enlarging || inner.closed) return;
  const difference = earlier && ((i, j) => weights.drawn[i * layer.m + j] - earlier.drawn[i * layer.m + j]);

  const matrix = heatmap(inner, { n: layer.n, m: layer.m, rows: queries, columns: keys, name, rowName: `queries: ${rows.name} ↓`, columnName: `keys: ${columns.name} →`,
    told: (i, j = null) => pointAt(i, j, "matrix") });
  const links = lines(inner, { n: layer.n, m: layer.m, rows: queries, columns: keys, name,
    told: (side, k) => pointAt(side === "query" ? k : null, side === "key" ? k : null, "lines") });
  refill(matrixPlace, matrix.element);
  refill(linesPlace, links.element);

  function pointAt(i, j, from) {
    if (from !== "matrix") matrix.mark(i, j);
    if (from !== "lines") links.mark(i === null ? null : "query", i);
    refill(readout, sentence(i, j));
  }

  function sentence(i, j) {
    if (i === null && j === null) return make("span", { class: "quiet" }, "Point at a cell or a token, or use the arrow keys.");
    if (i !== null && j !== null) {
      const now = weights.at(i, j);
      const then = earlier?.at(i, j);
      return [make("span", {}, "query ", token(queries[i], i)), make("span", {}, " → key ", token(keys[j], j)), " ",
        make("strong", {}, weightWords(now)), then ? make("span", { class: "before" }, ` before ${weightWords(then)}, change ${signed(difference(i, j))}`) : null];
    }
    const [side, k] = i === null ? ["key", j] : ["query", i];
    const others = i === null ? queries : keys;
    return [side === "query" ? "query " : "key ", token((i === null ? keys : queries)[k], k), side === "query" ? " looks at " : " is looked at by ",
      weights.of(side, k, 5).map(([other, weight]) => make("span", { class: "item" }, token(others[other], other), " ", make("strong", {}, three(weight)), " "))];
  }

  inner.paint(() => {
    const levels = new Uint8Array(layer.n * layer.m);
    const { drawn } = weights;
    if (difference) {
      const most = largestChange(drawn, earlier.drawn);
      for (let k = 0; k < levels.length; k++) levels[k] = 128 + Math.round((127 * (drawn[k] - earlier.drawn[k])) / most);
      matrix.show(levels, divergingPalette());
      const bar = colourBar((t) => diverging(2 * t - 1), [[0, three(-most)], [0.5, "0"], [1, `+${three(most)}`]], "change");
      bar.paint();
      refill(legend, bar.element);
    } else {
      for (let k = 0; k < levels.length; k++) levels[k] = Math.round(255 * Math.sqrt(Math.min(1, Math.max(0, drawn[k]))));
      matrix.show(levels, sequentialPalette());
      const bar = colourBar(sequential, [0, 0.01, 0.1, 0.25, 0.5, 1].map((w) => [Math.sqrt(w), String(w).replace(/^0\./, ".")]), "weight");
      bar.paint();
      refill(legend, bar.element, weights.bound && !layer.largest.all
        ? make("p", { class: "quiet" }, `Listed are the ${layer.largest.count} largest weights of each row; others are drawn as an even share of the rest.`) : null);
    }
  });
  links.show(weights, difference);
  refill(readout, sentence(null, null));
  performance.mark("regard:interactive");
}

function labelsOf(stream, count) {
  return stream && stream.labels.length === count ? stream.labels : Array.from({ length: count }, (_, k) => stream?.labels[k] ?? String(k));
}

async function weightsOf(page, data, layer, head) {
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
  const same = page.partBefore?.layers.find((each) => each.layer === layer.layer && each.call === layer.call);
  if (!same?.proved || same.n !== layer.n || same.m !== layer.m || same.heads[head] !== layer.heads[head]) return null;
  return weightsOf(page, page.before, same, head);
}

function largestChange(now, then) {
  let most = 1e-6;
  for (let k = 0; k < now.length; k++) most = Math.max(most, Math.abs(now[k] - then[k]));
  return most;
}
