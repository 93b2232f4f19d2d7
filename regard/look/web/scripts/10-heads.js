// All heads of all layers as small maps: a contact sheet from which one is chosen.

const MEASURES = { maps: "maps", entropy: "entropy", distance: "distance" };

// layers: those to be shown, as [place in the list, layer]; selected(place, head's place)
function headSheet(here, layers, silenced, selected) {
  const sheet = make("div", { class: "sheet", role: "group", "aria-label": "heads by layer", tabindex: "-1" });
  const most = Math.max(1, ...layers.map(([, layer]) => layer.heads.length));
  sheet.style.setProperty("--side", `${most <= 4 ? 56 : most <= 8 ? 42 : most <= 12 ? 34 : most <= 16 ? 30 : 26}px`);
  const buttons = new Map();  // "place/head" -> button
  const rows = layers.map(([place, layer]) => {
    const title = `${layer.name}${layer.call ? `, call ${layer.call}` : ""}`;
    const cells = layer.proved ? layer.heads.map((head, k) => cell(place, layer, head, k)) : reasonCell(place, layer);
    return make("div", { class: "layer" }, make("span", { class: "number", title }, String(layer.layer)), cells);
  });
  const numbers = Array.from({ length: most }, (_, k) => make("span", { class: "number" }, layers[0]?.[1].heads[k] ?? String(k)));
  refill(sheet, make("div", { class: "layer numbers", "aria-hidden": "true" }, make("span", { class: "number corner" }), numbers), rows);

  function cell(place, layer, head, k) {
    const canvas = make("canvas", { width: layer.small.width, height: layer.small.height });
    const gone = silenced(layer.layer, head);
    const button = make("button", {
      type: "button", class: gone ? "head silenced" : "head", tabindex: "-1", onclick: () => selected(place, k),
      "aria-label": `layer ${layer.layer}, head ${head}${gone ? ", silenced" : ""}`, title: `layer ${layer.layer}, head ${head}`,
    }, canvas, make("span", { class: "figure" }));
    buttons.set(`${place}/${k}`, button);
    return button;
  }

  function reasonCell(place, layer) {
    const button = make("button", { type: "button", class: "head unproved", tabindex: "-1", onclick: () => selected(place, 0), title: layer.reason,
      "aria-label": `layer ${layer.layer} is not shown: ${layer.reason}` }, "not proved");
    buttons.set(`${place}/0`, button);
    return button;
  }

  // one layer after the other, so that the page answers in between
  async function paintMaps() {
    const table = sequentialPalette();
    for (const [place, layer] of layers) {
      if (!layer.proved) continue;
      const bytes = await smallOf(layer);
      if (here.closed) return;
      const { height, width } = layer.small;
      layer.heads.forEach((_, k) => paintCells(buttons.get(`${place}/${k}`).querySelector("canvas"), bytes.subarray(k * height * width, (k + 1) * height * width), height, width, table));
      await new Promise((resume) => setTimeout(resume));
    }
    performance.mark("regard:complete");
  }

  function paintFigures(measure) {
    const all = layers.flatMap(([, layer]) => (layer.proved ? layer[measure] ?? [] : []));
    const largest = Math.max(1e-12, ...all.filter(Number.isFinite));
    for (const [place, layer] of layers) {
      if (!layer.proved) continue;
      layer.heads.forEach((_, k) => {
        const value = layer[measure]?.[k] ?? null;
        const figure = buttons.get(`${place}/${k}`).querySelector(".figure");
        const colour = value === null ? null : sequential(0.85 * Math.max(0, value / largest));
        figure.textContent = value === null ? "–" : value >= 10 ? value.toFixed(0) : value.toFixed(1);
        figure.style.background = colour ? css(colour) : "none";
        figure.style.color = colour ? legible(colour) : "inherit";
      });
    }
  }

  sheet.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const now = [...buttons].find(([, button]) => button === document.activeElement);
    if (!step || !now) return;
    event.preventDefault();
    const [place, head] = now[0].split("/").map(Number);
    const row = layers.findIndex(([each]) => each === place) + step[0];
    if (row < 0 || row >= layers.length) return;
    const [nextPlace, layer] = layers[row];
    const last = layer.proved ? layer.heads.length - 1 : 0;
    const next = Math.min(last, Math.max(0, head + step[1]));
    selected(nextPlace, next);
    buttons.get(`${nextPlace}/${next}`).focus();
  });

  return {
    element: sheet,
    paint(measure) {
      sheet.dataset.measure = measure;
      if (measure === "maps") paintMaps();
      else paintFigures(measure);
    },
    mark(place, head) {
      for (const [name, button] of buttons) {
        const now = name === `${place}/${head}`;
        button.setAttribute("aria-pressed", String(now));
        button.tabIndex = now ? 0 : -1;
        if (now) button.scrollIntoView({ block: "nearest", inline: "nearest" });
      }
    },
  };
}
