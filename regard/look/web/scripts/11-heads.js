// All heads of all layers as small maps: a contact sheet from which one is chosen.

// layers: those to be shown, as [place in the list, layer]. selected(place of the layer, place of the head) hears what is chosen.
function headSheet(here, layers, silenced, selected) {
  const sheet = make("div", { class: "sheet", role: "group", "aria-label": "heads by layer" });
  const most = Math.max(1, ...layers.map(([, layer]) => layer.heads.length));
  const side = most <= 4 ? 56 : most <= 8 ? 42 : most <= 12 ? 34 : most <= 16 ? 30 : 26;
  const buttons = new Map();  // "layer/head", both as places -> button
  sheet.style.setProperty("--side", `${side}px`);
  const rows = layers.map(([place, layer]) => {
    const title = `${layer.name}${layer.call ? `, call ${nth(layer.call)}` : ""}`;
    const cells = layer.proved ? layer.heads.map((head, k) => mapButton(place, layer, head, k)) : reasonButton(place, layer);
    return make("div", { class: "layer" }, make("span", { class: "number", title }, nth(layer.layer)), cells);
  });
  const numbers = Array.from({ length: most }, (_, k) => make("span", { class: "number" }, nth(layers[0]?.[1].heads[k] ?? k)));
  refill(sheet, make("div", { class: "layer numbers", "aria-hidden": "true" }, make("span", { class: "number" }), numbers), rows);

  function mapButton(place, layer, head, k) {
    const canvas = make("canvas", { width: layer.small.width, height: layer.small.height });
    const gone = silenced(layer.layer, head);
    const name = `layer ${nth(layer.layer)}, head ${nth(head)}${gone ? ", silenced" : ""}`;
    const button = make("button", {
      type: "button", class: gone ? "head silenced" : "head", onclick: () => selected(place, k), "aria-label": name, title: name,
    }, canvas, make("span", { class: "figure" }));
    buttons.set(`${place}/${k}`, button);
    return button;
  }

  function reasonButton(place, layer) {
    const button = make("button", {
      type: "button", class: "head unproved", onclick: () => selected(place, 0), title: layer.reason,
      "aria-label": `layer ${nth(layer.layer)} is not shown: ${layer.reason}`,
    }, "not proved");
    buttons.set(`${place}/0`, button);
    return button;
  }

  const proved = layers.filter(([, layer]) => layer.proved);

  // one layer after the other, so that the page answers in between
  async function paintMaps() {
    const table = sequentialPalette();
    for (const [place, layer] of proved) {
      const bytes = await smallOf(layer);
      if (here.closed) return;
      const { height, width } = layer.small;
      layer.heads.forEach((_, k) => {
        const map = bytes.subarray(k * height * width, (k + 1) * height * width);
        paintCells(buttons.get(`${place}/${k}`).querySelector("canvas"), map, height, width, table);
      });
      await new Promise((resume) => setTimeout(resume));
    }
    performance.mark("regard:complete");
  }

  function paintFigures(measure) {
    const all = proved.flatMap(([, layer]) => layer[measure] ?? []);
    const largest = Math.max(1e-12, ...all.filter(Number.isFinite));
    for (const [place, layer] of proved) {
      layer.heads.forEach((_, k) => {
        const value = layer[measure]?.[k] ?? null;
        const figure = buttons.get(`${place}/${k}`).querySelector(".figure");
        const colour = value === null ? null : sequential(0.85 * Math.max(0, value / largest));
        figure.textContent = value === null ? "–" : value.toFixed(value >= 10 ? 0 : 1);
        figure.style.background = colour ? css(colour) : "none";
        figure.style.color = colour ? legible(colour) : "inherit";
      });
    }
  }

  sheet.addEventListener("keydown", (event) => {
    const step = steps(event);
    const now = [...buttons].find(([, button]) => button === document.activeElement);
    if (!step || !now) return;
    event.preventDefault();
    const [place, head] = now[0].split("/").map(Number);
    const row = Math.min(layers.length - 1, Math.max(0, layers.findIndex(([each]) => each === place) + step[0]));
    const [nextPlace, layer] = layers[row];
    const next = layer.proved ? Math.min(layer.heads.length - 1, Math.max(0, head + step[1])) : 0;
    selected(nextPlace, next);
    buttons.get(`${nextPlace}/${next}`).focus();
  });

  return {
    element: sheet,
    // measure: maps, entropy or distance
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
