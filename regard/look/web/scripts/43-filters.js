// Filters of the first layer: with three channels in their colours, with one around zero.

view("filters", "Filters", (part, place, here) => {
  refill(place, make("h2", {}, "Filters of the first layer"), part.layers.map((layer) => filterFigure(here, layer)));
});

function filterFigure(here, layer) {
  const [count, height, width, channels] = layer.filters.shape;
  const readout = make("output", { class: "readout short", "aria-live": "polite" });
  const poses = layer.poses ?? 1;
  const sheet = make("div", { class: poses > 1 ? "filter-sheet poses" : "filter-sheet" });
  sheet.style.setProperty("--side", `${Math.min(72, Math.max(34, 9 * width))}px`);
  sheet.style.setProperty("--poses", poses);
  const size = `${height} × ${width}${channels === 3 ? " in colour" : ""}`;
  const scale = `from ${three(layer.filters.low)} to ${three(layer.filters.high)}`;
  const all = layer.of ?? count;
  const number = `${count / poses}${all > count ? ` of ${all / poses}` : ""} filters of ${size}`;
  const turned = poses > 1 ? `, each in its ${poses} poses, one below the other` : "";
  const named = (k) => (poses > 1 ? `filter ${nth(Math.floor(k / poses))}, ${poseWords(k % poses)}` : `filter ${nth(k)}`);
  const quiet = () => refill(readout, make("span", { class: "quiet" }, `${number}${turned}, all on one scale ${scale}`));
  unpackedLevels(layer.filters).then((levels) => {
    if (here.closed) return;
    const numbers = height * width * channels;
    const most = Math.max(Math.abs(levels.low), Math.abs(levels.high)) || 1;
    const canvases = Array.from({ length: count }, () => make("canvas", { width, height }));
    refill(sheet, canvases.map((canvas, k) => {
      const tell = () => {
        const values = Array.from({ length: numbers }, (_, p) => levels.at(k * numbers + p));
        const ends = [Math.min(...values), Math.max(...values)].map((value) => make("strong", {}, three(value)));
        refill(readout, `${named(k)}: from `, ends[0], " to ", ends[1]);
      };
      const heard = { onclick: tell, onfocus: tell, onpointerenter: tell, onpointerleave: quiet };
      return make("button", { type: "button", class: "filter", "aria-label": named(k), ...heard }, canvas);
    }));
    here.paint(() => canvases.forEach((canvas, k) => {
      const pixels = new Uint8ClampedArray(4 * height * width);
      for (let p = 0; p < height * width; p++) {
        const first = k * numbers + p * channels;
        const colour = channels === 3 ? levels.bytes.subarray(first, first + 3) : diverging(levels.at(first) / most);
        pixels.set([colour[0], colour[1], colour[2], 255], 4 * p);
      }
      canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
    }));
  });
  quiet();
  return make("figure", { class: "plain" }, make("h3", { class: "name" }, layer.name), readout, sheet);
}

// What pose number p of a filter or of a map is: quarter turns, then those of its mirror image.
function poseWords(p) {
  const turns = p % 4 ? `turned by ${90 * (p % 4)}°` : "";
  return [p >= 4 ? "mirrored" : "", turns].filter(Boolean).join(" and ") || "upright";
}
