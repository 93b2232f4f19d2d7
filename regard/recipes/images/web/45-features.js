// Feature maps: what each channel of a layer makes of the image, one of them enlarged, and all of them in three colours.

const featuresShown = { layer: 0, map: 0 };

view("features", "Feature maps", (part, place, here) => {
  const figure = make("div", { class: "feature-figure" });
  if (featuresShown.layer >= part.layers.length) featuresShown.layer = 0;
  const names = part.layers.map((layer, k) => [k, `${layer.name || "the model"}  ${layer.rows} × ${layer.columns}`]);

  async function show() {
    const layer = part.layers[featuresShown.layer];
    const inner = here.afresh();
    const [maps, colours] = await Promise.all([unpackedLevels(layer.maps), unpackedLevels(layer.colours)]);
    if (!inner.closed) featureFigure(inner, layer, maps, colours, figure);
  }

  const layerPicker = picker("layer", names, featuresShown.layer, (k) => {
    featuresShown.layer = Number(k);
    show();
  });
  refill(place, make("h2", {}, "Feature maps"), make("p", { class: "sentence" }, "What a layer puts out at each place, channel by channel."),
    make("div", { class: "controls" }, layerPicker), figure);
  show();
});

function featureFigure(here, layer, maps, colours, place) {
  const [count, n, m] = maps.shape;
  const most = Math.max(Math.abs(maps.low), Math.abs(maps.high)) || 1;
  const readout = make("output", { class: "readout", "aria-live": "polite" });
  const named = (k) => {
    const channel = `channel ${nth(layer.channels[Math.floor(k / layer.poses)])}`;
    return layer.poses > 1 ? `${channel}, ${poseWords(k % layer.poses)}` : channel;
  };
  const short = (k) => {
    const [channel, pose] = [nth(layer.channels[Math.floor(k / layer.poses)]), k % layer.poses];
    return layer.poses > 1 ? `${channel} · ${pose >= 4 ? "mirrored " : ""}${90 * (pose % 4)}°` : channel;
  };
  const value = (k, i, j) => maps.at((k * n + i) * m + j);
  const shade = (k) => Uint8Array.from({ length: n * m }, (_, p) => 128 + Math.round((127 * maps.at(k * n * m + p)) / most));
  const told = (i, j) => {
    if (i === null) refill(readout, make("span", { class: "quiet" }, featureWords(layer, maps)));
    else refill(readout, `${named(featuresShown.map)}, row ${nth(i)}, column ${nth(j)} `, make("strong", {}, three(value(featuresShown.map, i, j))));
  };
  const large = heatmap(here, { n, m, name: "the chosen channel", highest: 380, told });
  const heading = make("h3");
  const bar = changeBar(most, "value");
  const whole = make("canvas", { width: m, height: n });
  const canvases = Array.from({ length: count }, () => make("canvas", { width: m, height: n }));
  const buttons = canvases.map((canvas, k) => make("button", {
    type: "button", class: "feature", "aria-label": named(k), onclick: () => choose(k),
  }, canvas, make("span", {}, short(k))));
  const sheet = make("div", { class: layer.poses > 1 ? "feature-sheet poses" : "feature-sheet", role: "group", "aria-label": "channels" }, buttons);
  sheet.style.setProperty("--poses", layer.poses);
  sheet.addEventListener("keydown", (event) => {
    const step = steps(event);
    if (!step) return;
    event.preventDefault();
    choose(Math.min(count - 1, Math.max(0, featuresShown.map + step[0] + step[1])));
    buttons[featuresShown.map].focus();
  });

  function choose(k) {
    featuresShown.map = k;
    heading.textContent = named(k);
    large.show(shade(k), divergingPalette());
    for (const [other, button] of buttons.entries()) {
      button.setAttribute("aria-pressed", String(other === k));
      button.tabIndex = other === k ? 0 : -1;
    }
    told(null);
  }

  if (featuresShown.map >= count) featuresShown.map = 0;
  refill(place, make("div", {}, heading, readout, large.element, make("div", { class: "legend" }, bar.element),
    make("figure", { class: "plain feature-colours" }, make("h3", {}, "all channels in three colours"), whole,
      make("p", { class: "sentence" }, `Places of one colour are alike: the three directions in which they differ most, ${percent(layer.explained)} of the variance.`))),
  sheet);
  here.paint(() => {
    bar.paint();
    const table = divergingPalette();
    canvases.forEach((canvas, k) => paintCells(canvas, shade(k), n, m, table));
    const pixels = new Uint8ClampedArray(4 * n * m);
    for (let p = 0; p < n * m; p++) pixels.set([...[0, 1, 2].map((c) => 255 * colours.at(3 * p + c)), 255], 4 * p);
    whole.getContext("2d").putImageData(new ImageData(pixels, m, n), 0, 0);
    choose(featuresShown.map);
  });
}

function featureWords({ name, rows, columns, of, channels, poses }, { shape: [, n, m], low, high }) {
  const many = channels.length < of ? `${channels.length} of ${of} channels, those that vary most` : `${of} channels`;
  const turned = poses > 1 ? `, each in ${poses} poses` : "";
  const drawn = n < rows || m < columns ? `, drawn at ${n} × ${m}` : "";
  return `${name || "the model"}: ${many}${turned}, ${rows} × ${columns}${drawn}; values from ${three(low)} to ${three(high)}.`;
}
