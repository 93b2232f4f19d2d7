// The attention of each head over the picture, in a colour of its own, and rollout.

const imageShown = { layer: null, way: "together", alone: 0, off: new Set(), opacity: 0.85 };

view("image", "Image", (part, place, here) => {
  const { rows, columns } = part.grid;
  const ways = [["together", "heads together"], ["alone", "one head"], ...(part.rollout ? [["rollout", "rollout"]] : [])];
  if (!ways.some(([way]) => way === imageShown.way)) imageShown.way = "together";
  if (imageShown.layer === null || imageShown.layer >= part.layers.length) imageShown.layer = part.layers.length - 1;
  const canvas = make("canvas", { class: "over", width: columns, height: rows });
  const box = make("div", { class: "patch", hidden: true });
  const picture = make("div", { class: "picture", tabindex: "0", role: "application", "aria-roledescription": "picture", "aria-label": `the picture, ${rows} by ${columns} patches` },
    make("img", { src: safePicture(part.picture), alt: "what the model was shown" }), canvas, box);
  const readout = make("output", { class: "readout", "aria-live": "polite" });
  const thumbs = make("div", { class: "head-maps" });
  const sentence = make("p", { class: "sentence" });
  const strip = make("div");
  let [maps, rollout, at] = [null, null, null];

  const layer = () => part.layers[imageShown.layer];
  const areHeads = () => imageShown.way !== "rollout";
  const lit = (k) => (imageShown.way === "alone" ? k === imageShown.alone : !imageShown.off.has(layer().heads[k]));

  async function load() {
    const mine = layer();
    const [loaded, rolled] = await Promise.all([unpackedLevels(mine.maps), part.rollout ? unpackedLevels(part.rollout) : null]);
    if (here.closed || mine !== layer()) return;
    [maps, rollout] = [loaded, rolled];
    const size = rows * columns;
    maps.largest = mine.heads.map((_, k) => Math.max(1e-12, ...Array.from({ length: size }, (__, p) => maps.at(k * size + p))));
    fillThumbs();
    paint();
    performance.mark("regard:interactive");
  }

  // a patch takes the colour of the head that looks at it most, compared with where that head looks most
  function paint() {
    if (!maps) return;
    const size = rows * columns;
    const pixels = new Uint8ClampedArray(4 * size);
    for (let p = 0; p < size; p++) {
      let [most, colour] = [0, [0, 0, 0]];
      if (areHeads()) {
        layer().heads.forEach((head, k) => {
          const value = lit(k) ? maps.at(k * size + p) / maps.largest[k] : 0;
          if (value > most) [most, colour] = [value, ofHead(head)];
        });
      } else {
        most = (rollout.at(p) - rollout.low) / Math.max(1e-12, rollout.high - rollout.low);
        colour = [255, 176, 32];
      }
      pixels.set([...colour, 255 * Math.min(1, most)], 4 * p);
    }
    canvas.getContext("2d").putImageData(new ImageData(pixels, columns, rows), 0, 0);
    canvas.style.opacity = imageShown.opacity;
    for (const [k, thumb] of [...thumbs.children].entries()) thumb.setAttribute("aria-pressed", String(lit(k)));
    thumbs.hidden = !areHeads();
    refill(sentence, { together: "Each patch has the colour of the head that looks at it most, as strong as it looks there.", alone: `Where head ${layer().heads[imageShown.alone] ?? 0} looks from ${part.query}.`,
      rollout: "Attention of all layers multiplied, with the residual connections: how much of each patch can reach the end." }[imageShown.way]);
  }

  function fillThumbs() {
    const size = rows * columns;
    refill(thumbs, layer().heads.map((head, k) => {
      const small = make("canvas", { width: columns, height: rows });
      const colour = ofHead(head);
      const pixels = new Uint8ClampedArray(4 * size);
      for (let p = 0; p < size; p++) pixels.set([...colour, (255 * maps.at(k * size + p)) / maps.largest[k]], 4 * p);
      small.getContext("2d").putImageData(new ImageData(pixels, columns, rows), 0, 0);
      return make("button", { type: "button", class: "head-map", style: `--colour: ${css(colour)}`, onclick: () => touched(k, head), "aria-label": `head ${head}` },
        make("span", { class: "map" }, small), make("span", { class: "caption" }, make("span", { class: "dot" }), `head ${head}`));
    }));
  }

  function touched(k, head) {
    if (imageShown.way === "alone") imageShown.alone = k;
    else if (imageShown.off.has(head)) imageShown.off.delete(head);
    else imageShown.off.add(head);
    paint();
    say();
  }

  function say() {
    box.hidden = at === null;
    if (at === null || !maps) {
      refill(readout, make("span", { class: "quiet" }, "Point at a patch to read its numbers."));
      return;
    }
    const [i, j] = at;
    const p = i * columns + j;
    Object.assign(box.style, { left: `${(100 * j) / columns}%`, top: `${(100 * i) / rows}%`, width: `${100 / columns}%`, height: `${100 / rows}%` });
    const values = areHeads() ? layer().heads.map((head, k) => [head, maps.at(k * rows * columns + p), k]).filter(([, , k]) => lit(k)).sort((a, b) => b[1] - a[1]).slice(0, 4)
      .map(([head, value]) => make("span", { class: "item" }, make("span", { class: "dot", style: `--colour: ${css(ofHead(head))}` }), `head ${head} `, make("strong", {}, three(value)), " "))
      : make("strong", {}, three(rollout.at(p)));
    refill(readout, `row ${i}, column ${j} `, values);
  }

  function under(event) {
    const area = picture.getBoundingClientRect();
    const inside = (x, count) => Math.min(count - 1, Math.max(0, Math.floor(x * count)));
    return [inside((event.clientY - area.top) / area.height, rows), inside((event.clientX - area.left) / area.width, columns)];
  }
  const point = (next) => {
    at = next;
    say();
  };
  picture.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(under(event)));
  picture.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(null));
  picture.addEventListener("click", (event) => point(under(event)));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [i, j] = at ?? [-step[0], -step[1]];
    point([Math.min(rows - 1, Math.max(0, i + step[0])), Math.min(columns - 1, Math.max(0, j + step[1]))]);
  });

  refill(strip, make("div", { class: "controls" },
    choice("what is shown", ways, imageShown.way, (way) => {
      imageShown.way = way;
      paint();
      say();
    }),
    part.layers.length > 1 ? picker("layer", part.layers.map((each, k) => [k, `${each.layer}  ${each.name}`]), imageShown.layer, (k) => {
      imageShown.layer = Number(k);
      load();
    }) : null,
    slider("strength", { low: 0, high: 1, step: 0.05, now: imageShown.opacity }, (value) => {
      imageShown.opacity = value;
      paint();
    })));
  refill(place, make("div", { class: "title-line" }, make("h2", {}, `Where ${part.query} looks`)), sentence, strip,
    make("div", { class: "image-figure" }, make("div", {}, picture, readout), thumbs));
  say();
  load();
});

// only what lies in the page itself is shown
function safePicture(address) {
  return /^data:image\/(png|jpeg|gif|webp);base64,/.test(address) ? address : "data:,";
}
