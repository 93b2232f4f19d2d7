// Which expert takes which token: all layers at a glance, one layer as a coloured text, and how much work each expert has.

const expertsShown = { layer: 0 };
const ROW = 16;         // pixels of a layer in the overview
const TOKENS_OF_EXPERT = 8;  // most frequent tokens that are named

view("experts", "Experts", (part, place, here) => {
  if (expertsShown.layer >= part.layers.length) expertsShown.layer = 0;
  const detail = make("div");
  const overview = expertsOverview(here, part, (layer) => {
    expertsShown.layer = layer;
    show();
  });
  const names = part.layers.map((layer, k) => [k, `layer ${nth(k)}, ${layer.name}`]);
  const which = part.layers.length > 1 ? make("div", { class: "controls" }, picker("layer", names, expertsShown.layer, (k) => {
    expertsShown.layer = Number(k);
    show();
  })) : null;

  function show() {
    const select = which?.querySelector("select");
    if (select) select.value = String(expertsShown.layer);
    overview.mark(expertsShown.layer);
    refill(detail, expertsOfLayer(here.afresh(), part.layers[expertsShown.layer]));
  }

  const { experts, chosen } = part.layers[0];
  const title = make("div", { class: "title-line" }, make("h2", {}, "Which expert takes which token"),
    make("p", { class: "facts" }, `each token passes ${chosen[0].length} of ${experts} experts; its colour is that of the one that counts most`));
  refill(place, title, overview.element, which, detail);
  show();
});

const ofExpert = (number) => ofHead(number);

// One row for each layer, one field for each token.
function expertsOverview(here, part, picked) {
  const canvas = make("canvas", { class: "experts-overview" });
  const readout = make("output", { class: "readout short", "aria-live": "polite" });
  const most = Math.max(...part.layers.map((layer) => layer.chosen.length));
  let marked = 0;
  let width = 0;
  const quiet = () => refill(readout, make("span", { class: "quiet" }, "all layers, first layer at the top; each field is a token"));

  function paint() {
    if (!width) return;
    const context = sharpened(canvas);
    context.clearRect(0, 0, width, ROW * part.layers.length);
    const field = width / most;
    for (const [row, layer] of part.layers.entries()) {
      for (const [k, experts] of layer.chosen.entries()) {
        context.fillStyle = css(ofExpert(experts[0]));
        context.globalAlpha = row === marked ? 1 : 0.55;
        context.fillRect(k * field, row * ROW, Math.max(field - (field > 4 ? 1 : 0), 0.5), ROW - 2);
      }
    }
    context.globalAlpha = 1;
  }

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const row = Math.min(part.layers.length - 1, Math.max(0, Math.floor((event.clientY - box.top) / ROW)));
    const k = Math.floor(((event.clientX - box.left) / box.width) * most);
    return k < part.layers[row].chosen.length ? [row, k] : null;
  }

  canvas.addEventListener("pointermove", (event) => {
    const found = under(event);
    if (!found) return quiet();
    const [row, k] = found;
    const labels = shownLabels(here.page.data.streams[part.layers[row].stream]);
    refill(readout, `layer ${nth(row)}: `, token(labels[k], k), ` takes ${expertWords(part.layers[row], k)}`);
    return undefined;
  });
  canvas.addEventListener("pointerleave", quiet);
  canvas.addEventListener("click", (event) => {
    const found = under(event);
    if (found) picked(found[0]);
  });
  const frame = make("div", { class: "experts-frame", role: "img",
    "aria-label": `${part.layers.length} layers, ${most} tokens, coloured by expert` }, canvas);
  here.sized(frame, (now) => {
    width = now;
    const height = ROW * part.layers.length;
    [canvas.width, canvas.height] = [now, height].map((size) => Math.round(size * (devicePixelRatio || 1)));
    canvas.style.width = `${now}px`;
    canvas.style.height = `${height}px`;
    paint();
  });
  here.paint(paint);
  quiet();
  const mark = (layer) => {
    marked = layer;
    paint();
  };
  return { element: make("div", {}, readout, frame), mark };
}

function expertWords(layer, k) {
  return layer.chosen[k].map((expert, i) => `expert ${nth(expert)} (${percent(layer.gates[k][i])})`).join(" and ");
}

function expertsOfLayer(here, layer) {
  const labels = shownLabels(here.page.data.streams[layer.stream]);
  const told = make("div", { class: "at-token", "aria-live": "polite" });
  const rows = Array.from({ length: layer.experts }, (_, expert) => expert);
  let lit = null;

  function show(k) {
    if (k === null || !layer.chosen[k]) {
      refill(told, make("p", { class: "facts quiet" }, "point at a token to see its experts"));
      return;
    }
    const likely = layer.chosen[k].map((expert, i) => [expert, layer.gates[k][i]]);
    refill(told, make("h3", {}, "What ", token(labels[k], k), " passes"),
      bars(likely, { named: (expert) => expertName(here, expert) }));
  }

  const shade = (k) => {
    const experts = layer.chosen[k];
    if (!experts || (lit !== null && !experts.includes(lit))) return null;
    return ofExpert(lit ?? experts[0]);
  };
  const inner = new Here(here.page);
  here.over.signal.addEventListener("abort", () => inner.close());
  const text = shadedText(inner, labels, { name: "tokens; choose one to see its experts", shade, told: show });
  here.paint(() => inner.repaint());
  const light = (expert) => {
    lit = expert;
    inner.repaint();
  };
  const head = make("tr", {}, ["expert", "share here", layer.validation ? "in validation" : null, "most often"].filter(Boolean)
    .map((words) => make("th", { scope: "col" }, words)));
  const body = rows.map((expert) => make("tr", { onpointerenter: () => light(expert), onpointerleave: () => light(null) },
    make("th", { scope: "row" }, expertName(here, expert)),
    make("td", { class: "number" }, percent(layer.load[expert])),
    layer.validation ? make("td", { class: "number" }, percent(layer.validation[expert])) : null,
    make("td", {}, oftenTaken(layer, labels, expert))));
  const table = make("table", { class: "experts-table" }, make("thead", {}, head), make("tbody", {}, body));
  show(null);
  return make("div", { class: "side-by-side" }, make("div", {}, text, told), make("div", {}, scrolled(table)));
}

function expertName(here, expert) {
  const swatch = make("span", { class: "swatch" });
  here.paint(() => { swatch.style.background = css(ofExpert(expert)); });
  return make("span", { class: "expert-name" }, swatch, nth(expert));
}

// The tokens that an expert takes most often, with how often.
function oftenTaken(layer, labels, expert) {
  const counts = new Map();
  for (const [k, experts] of layer.chosen.entries()) {
    if (experts.includes(expert)) counts.set(labels[k], (counts.get(labels[k]) ?? 0) + 1);
  }
  const often = [...counts].sort((a, b) => b[1] - a[1]).slice(0, TOKENS_OF_EXPERT);
  return often.map(([label, count]) => make("span", { class: "taken" }, token(label), count > 1 ? make("span", { class: "quiet" }, `×${count}`) : null));
}
