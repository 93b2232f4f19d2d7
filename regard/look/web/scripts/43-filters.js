// Filters of convolutions: with three channels in their colours, with one around zero.

view("filters", "Filters", (part, place, here) => {
  refill(place, make("h2", {}, "Filters of convolutions"), part.layers.map((layer) => filterFigure(here, layer)));
});

function filterFigure(here, layer) {
  const [count, height, width, channels] = layer.filters.shape;
  const readout = make("output", { class: "readout short", "aria-live": "polite" });
  const sheet = make("div", { class: "filter-sheet", style: `--side: ${Math.min(72, Math.max(34, 9 * width))}px` });
  const quiet = () => refill(readout, make("span", { class: "quiet" }, `${count} filters of ${height} × ${width}${channels === 3 ? " in colour" : ""}, all on one scale from ${three(layer.filters.low)} to ${three(layer.filters.high)}`));
  unpackedLevels(layer.filters).then((levels) => {
    if (here.closed) return;
    const size = height * width * channels;
    const most = Math.max(Math.abs(levels.low), Math.abs(levels.high)) || 1;
    const canvases = Array.from({ length: count }, () => make("canvas", { width, height }));
    refill(sheet, canvases.map((canvas, k) => {
      const tell = () => {
        const values = Array.from({ length: size }, (_, p) => levels.at(k * size + p));
        refill(readout, `filter ${k}: from `, make("strong", {}, three(Math.min(...values))), " to ", make("strong", {}, three(Math.max(...values))));
      };
      return make("button", { type: "button", class: "filter", "aria-label": `filter ${k}`, onclick: tell, onfocus: tell, onpointerenter: tell, onpointerleave: quiet }, canvas);
    }));
    here.paint(() => canvases.forEach((canvas, k) => {
      const pixels = new Uint8ClampedArray(4 * height * width);
      for (let p = 0; p < height * width; p++) {
        const first = k * size + p * channels;
        const colour = channels === 3 ? levels.bytes.subarray(first, first + 3) : diverging(levels.at(first) / most);
        pixels.set([colour[0], colour[1], colour[2], 255], 4 * p);
      }
      canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
    }));
  });
  quiet();
  return make("figure", { class: "plain" }, make("h3", { class: "name" }, layer.name), readout, sheet);
}
