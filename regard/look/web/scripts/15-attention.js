// Attention: all heads on a sheet, and one of them enlarged.

const attentionShown = { measure: "maps", kind: "all", windows: new Map() };  // stays so when another view is opened in between

function layerKey({ layer, call }) {
  return `${layer}/${call}`;
}

// Of a layer that looks within windows, the one that is chosen, in the place of the whole.
function throughWindows(layers) {
  return layers.map((layer) => {
    if (!layer.windows) return layer;
    const window = Math.min(attentionShown.windows.get(layerKey(layer)) ?? 0, layer.windows.length - 1);
    return { ...layer, ...layer.windows[window], name: layer.name, window };
  });
}

view("attention", "Attention", (part, place, here) => {
  const layers = throughWindows(part.layers);
  const detail = make("div", { class: "enlarged" });
  const sheetPlace = make("div");
  const kinds = [...new Set(layers.map((layer) => layer.kind))];
  const measures = ["maps", "entropy", "distance"].filter((name) => name === "maps" || layers.some((layer) => layer[name]?.length));
  const silenced = (layer, head) => (here.page.data.silenced ?? []).some(([a, b]) => a === layer && b === head);
  if (!kinds.includes(attentionShown.kind)) attentionShown.kind = "all";
  if (!measures.includes(attentionShown.measure)) attentionShown.measure = "maps";
  let sheet = null;

  function fillSheet() {
    const { kind, measure } = attentionShown;
    const seen = layers.map((layer, k) => [k, layer]).filter(([, layer]) => kind === "all" || layer.kind === kind);
    sheet = headSheet(here, seen, silenced, select);
    refill(sheetPlace, sheet.element);
    const [at, head] = fromChosen();
    const first = select(...(seen.some(([k]) => k === at) ? [at, head] : [seen[0][0], 0]));
    first.then(() => here.closed || sheet.paint(measure));  // the one that is looked at comes first
  }

  // place of the layer in the list, place of the head in the layer
  function fromChosen() {
    let at = layers.findIndex((layer) => layer.layer === chosen.layer && layer.call === (chosen.call ?? layer.call));
    if (at < 0) at = Math.max(0, layers.findIndex((layer) => layer.proved));
    return [at, Math.max(0, layers[at].heads.indexOf(chosen.head))];
  }

  function select(at, head) {
    choose({ layer: layers[at].layer, call: layers[at].call, head: layers[at].heads[head] ?? null });
    sheet.mark(at, head);
    return enlarge(here, layers[at], head, detail);
  }

  const measureChoice = choice("what the sheet shows", measures.map((name) => [name, name]), attentionShown.measure, (name) => {
    attentionShown.measure = name;
    sheet.paint(name);
  });
  const kindChoice = choice("which layers", ["all", ...kinds].map((kind) => [kind, kind]), attentionShown.kind, (kind) => {
    attentionShown.kind = kind;
    fillSheet();
  });
  refill(place, make("div", { class: "overview" },
    make("div", { class: "title-line" }, make("h2", {}, "Heads"), make("p", { class: "facts" }, "layers by heads")),
    make("div", { class: "controls" }, measures.length > 1 ? measureChoice : null, kinds.length > 1 ? kindChoice : null),
    sheetPlace), detail);
  fillSheet();
  here.painters.push(() => sheet.paint(attentionShown.measure));
});
