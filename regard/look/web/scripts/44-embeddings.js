// Embeddings in the plane: principal components or t-SNE, coloured by group or by place.

const embeddingsShown = { item: 0, way: "pca" };
const GROUPS = 24;   // as many are named below the points
const NAMED = 400;   // more points have no names beside them

view("embeddings", "Embeddings", (part, place, here) => {
  const figure = make("div");
  const controls = make("div", { class: "controls" });
  if (embeddingsShown.item >= part.items.length) embeddingsShown.item = 0;

  function show() {
    const item = part.items[embeddingsShown.item];
    const way = item.tsne ? embeddingsShown.way : "pca";
    const wayChoice = choice("projection", [["pca", "principal components"], ["tsne", "t-SNE"]], way, (next) => {
      embeddingsShown.way = next;
      show();
    });
    const names = part.items.map((each, k) => [k, each.name]);
    const which = names.length > 1 ? picker("embeddings", names, embeddingsShown.item, (k) => {
      embeddingsShown.item = Number(k);
      show();
    }) : make("bdi", { class: "name" }, item.name);
    refill(controls, item.tsne ? wayChoice : null, which);
    refill(figure, scatter(here.afresh(), item, way, part.sheets ?? []));
  }

  refill(place, make("h2", {}, "Embeddings in the plane"), controls, figure);
  if (part.items.length) show();
});

function scatter(here, item, way, sheets) {
  const points = item[way];
  const labels = shownLabels({ labels: item.labels, kind: here.page.data.input?.kind });
  const count = points.length;
  const others = item.said ? item.groups.slice(1) : item.groups;  // the input itself is no class
  const present = new Set(others ?? []);
  const named = () => item.classes ?? [...present].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const groups = others ? named() : null;
  const inOrder = !groups && (item.ordered ?? true);  // elements of a set and nodes of a graph come in none
  const canvas = make("canvas");
  const frame = make("div", {
    class: "scatter", tabindex: "0", role: "application", "aria-roledescription": "scatter plot",
    "aria-label": `${count} points of ${item.name}`,
  }, canvas);
  const thumbs = item.thumbs ? thumbnail(frame, sheets[item.thumbs.sheet]) : null;
  const readout = make("output", { class: "readout short", "aria-live": "polite" });
  const legend = make("div", { class: "legend" });
  const element = make("div", { class: "scatter-figure" }, readout, frame, legend);
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const middle = (values) => (Math.min(...values) + Math.max(...values)) / 2;
  const [cx, cy] = [middle(xs), middle(ys)];
  const reach = [Math.max(1e-9, ...xs.map((x) => Math.abs(x - cx))), Math.max(1e-9, ...ys.map((y) => Math.abs(y - cy)))];
  let [width, height, at, lit] = [0, 0, null, null];

  // both axes have one scale: distances are what is to be seen
  const scale = () => Math.min((width / 2 - 56) / reach[0], (height / 2 - 28) / reach[1]);
  const seen = (k) => [width / 2 + (xs[k] - cx) * scale(), height / 2 - (ys[k] - cy) * scale()];
  const byGroup = (name) => (groups.includes(name) ? ofHead(groups.indexOf(name)) : plainPoint());
  const byPlace = (k) => (inOrder ? sequential(0.25 + (0.7 * k) / Math.max(1, count - 1)) : sequential(0.6));
  const colour = (k) => (groups ? byGroup(item.groups[k]) : byPlace(k));

  function paint() {
    if (!width) return;
    const context = sharpened(canvas);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(frame);
    if (inOrder && count <= NAMED) {
      context.strokeStyle = style.borderTopColor;
      context.lineWidth = 1;
      context.beginPath();
      for (let k = 0; k < count; k++) context.lineTo(...seen(k));
      context.stroke();
    }
    const radius = count > 600 ? 2.5 : count > 150 ? 3.5 : 5;
    for (let k = item.said ? 1 : 0; k < count; k++) {
      context.globalAlpha = lit !== null && item.groups[k] !== lit ? 0.12 : 0.9;
      context.fillStyle = css(colour(k));
      context.beginPath();
      context.arc(...seen(k), radius, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
    if (count <= NAMED && !item.said) drawNames(context, style.color);
    if (item.said) drawMarked(context, style.color);
    if (at !== null) {
      context.strokeStyle = style.color;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(...seen(at), radius + 4, 0, 7);
      context.stroke();
    }
  }

  // the image that was given, among the others
  function drawMarked(context, ink) {
    const [x, y] = seen(0);
    context.fillStyle = context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(x - 7, y - 7, 14, 14);
    context.fillRect(x - 3, y - 3, 6, 6);
    context.font = tokenFont(11.5);
    context.textBaseline = "middle";
    context.textAlign = x > width - 120 ? "right" : "left";
    context.fillText(labels[0], x > width - 120 ? x - 12 : x + 12, y);
    context.textAlign = "left";
  }

  // names where there is room for them, earlier ones first
  function drawNames(context, ink) {
    context.font = tokenFont(11.5);
    context.fillStyle = ink;
    context.textBaseline = "middle";
    const taken = Array.from({ length: count }, (_, k) => seen(k)).map(([x, y]) => [x - 4, y - 4, x + 4, y + 4]);
    for (let k = 0; k < count; k++) {
      const [x, y] = seen(k);
      const text = clipped(labels[k], 18);
      const wide = context.measureText(text).width;
      const area = [x + 8, y - 7, x + 10 + wide, y + 7];
      if (area[2] > width || taken.some(([a, b, c, d]) => a < area[2] && c > area[0] && b < area[3] && d > area[1])) continue;
      taken.push(area);
      context.globalAlpha = lit !== null && item.groups[k] !== lit ? 0.15 : 1;
      context.fillText(text, x + 9, y);
    }
    context.globalAlpha = 1;
  }

  function point(k) {
    at = k;
    paint();
    thumbs?.show(k === null ? null : item.thumbs.cells[k], k === null ? null : seen(k), width, k === null ? "" : labels[k]);
    if (k === null) refill(readout, make("span", { class: "quiet" }, planeWords(item, way)));
    else refill(readout, item.said ? token(shown(item.labels[k])) : token(labels[k], item.ordered ?? true ? k : null),
      groups && !(item.said && k === 0) ? ` ${shown(item.groups[k])}` : "", item.said ? saidWords(item, k) : "",
      make("span", { class: "quiet" }, `  (${three(xs[k])}, ${three(ys[k])})`));
  }

  function under(event) {
    const box = frame.getBoundingClientRect();
    let [best, found] = [24 ** 2, null];
    for (let k = 0; k < count; k++) {
      const [x, y] = seen(k);
      const away = (x - event.clientX + box.left) ** 2 + (y - event.clientY + box.top) ** 2;
      if (away < best) [best, found] = [away, k];
    }
    return found;
  }

  frame.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(under(event)));
  frame.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(null));
  frame.addEventListener("click", (event) => point(under(event)));
  frame.addEventListener("keydown", (event) => {
    const step = steps(event);
    if (!step) return;
    event.preventDefault();
    point(Math.min(count - 1, Math.max(0, (at ?? -1) + step[0] + step[1])));
  });

  // one group alone, or all again
  function groupKey(group, k) {
    const touched = () => {
      lit = lit === group ? null : group;
      paint();
    };
    const dot = make("span", { class: "dot", style: `--colour: ${css(ofHead(k))}` });
    return make("button", { type: "button", class: "key", onclick: touched }, dot, shown(group));
  }

  here.sized(element, (next) => {
    width = Math.min(next - 2, 980);  // 2: the frame
    height = Math.min(560, Math.max(300, width * 0.62));
    sharpen(canvas, width, height);
    paint();
  });
  const bar = colourBar((t) => sequential(0.25 + 0.7 * t), [[0, "first"], [1, "last"]], "place");
  here.paint(() => {
    bar.paint();
    const itself = item.said ? make("span", { class: "key itself" }, make("span", { class: "mark" }), shown(item.labels[0])) : null;
    const keys = (groups ?? []).map((group, k) => [group, k]).filter(([group]) => present.has(group)).slice(0, GROUPS);
    refill(legend, itself, groups ? keys.map(([group, k]) => groupKey(group, k)) : inOrder ? bar.element : null);
    paint();
  });
  point(null);
  return element;
}

// of a class that nobody knows
function plainPoint() {
  return dark() ? oklch(0.62, 0.02, 260) : oklch(0.55, 0.02, 260);
}

// What an image is predicted as, if that is not its class.
function saidWords({ groups, said }, k) {
  if (k && groups[k] === said[k]) return "";
  return [k ? ", misclassified as " : ", predicted as ", make("strong", {}, shown(said[k]))];
}

// A small image beside the point that is pointed at: a cell of a sheet of them.
function thumbnail(frame, { picture: address, rows, columns }) {
  const image = make("img", { src: safeImage(address), alt: "" });
  const name = make("span");
  const box = make("div", { class: "thumb", hidden: true, "aria-hidden": "true" }, make("span", { class: "cell" }, image), name);
  frame.append(box);
  image.style.width = `${100 * columns}%`;
  image.style.height = `${100 * rows}%`;
  return {
    show(cell, place, width, words) {
      box.hidden = cell === null || cell === undefined;
      if (box.hidden) return;
      const [row, column] = [Math.floor(cell / columns), cell % columns];
      Object.assign(image.style, { left: `${-100 * column}%`, top: `${-100 * row}%` });
      name.textContent = words;
      const [x, y] = place;
      box.style.left = `${x + 16 + box.offsetWidth > width ? Math.max(0, x - 16 - box.offsetWidth) : x + 16}px`;
      box.style.top = `${Math.max(4, y - box.offsetHeight / 2)}px`;
    },
  };
}

function planeWords({ explained, said }, way) {
  const what = said ? "Each point is an image, as the last layer reads it. " : "";
  if (way === "tsne") return `${what}Near points are similar; far distances mean little.`;
  if (!explained) return what;
  const [across, up] = explained;
  return `${what}The plane shows ${percent(across + up)} of the variance: ${percent(across)} across, ${percent(up)} up.`;
}
