// Probabilities as bars, with those before the last run beneath them when the two are compared.

// likely: [[label, p], …]; named(label) makes the element of a label; marked: the label that is stressed
function bars(likely, { named, before = null, marked = null }) {
  const now = new Map(likely);
  const then = before && new Map(before);
  const labels = [...new Set([...now.keys(), ...(then ? then.keys() : [])])];
  labels.sort((a, b) => (now.get(b) ?? -1) - (now.get(a) ?? -1));
  const most = Math.max(1e-9, ...now.values(), ...(then ? then.values() : []));
  const bar = (p, kind) => make("span", { class: `track ${kind}` }, make("span", { class: "fill", style: `width: ${(100 * (p ?? 0)) / most}%` }));
  const figure = (p, last) => (p === undefined ? `< ${percent(last)}` : percent(p));
  const smallest = (map) => Math.min(...map.values());
  return make("div", { class: then ? "bars compared" : "bars", role: "list" }, labels.map((label) => make("div", { class: label === marked ? "bar-row marked" : "bar-row", role: "listitem" },
    make("span", { class: "bar-label" }, named(label)),
    make("span", { class: "tracks" }, bar(now.get(label), "now"), then ? bar(then.get(label), "then") : null),
    make("span", { class: "bar-figure" }, figure(now.get(label), smallest(now)), then ? make("span", { class: "quiet" }, `before ${figure(then.get(label), smallest(then))}`) : null))));
}

// A text whose tokens can be pointed at. shade(k) -> colour or null; told(k) hears which one, null when the pointer leaves
function shadedText(here, labels, { shade, told, name, now = null }) {
  let pinned = now;
  const pieces = labels.map((label, k) => make("span", { class: "piece", role: "option", id: freshName("piece"), "data-place": k }, shown(label)));
  const element = make("div", { class: "shaded-text", role: "listbox", tabindex: "0", "aria-label": name });
  for (const [k, piece] of pieces.entries()) {
    element.append(piece);
    if (labels[k].includes("\n")) element.append(make("br"));
  }
  const mark = (k) => {
    for (const [other, piece] of pieces.entries()) piece.setAttribute("aria-selected", String(other === k));
    if (k === null) element.removeAttribute("aria-activedescendant");
    else element.setAttribute("aria-activedescendant", pieces[k].id);
  };
  const point = (k) => {
    mark(k);
    told(k);
  };
  const under = (event) => {
    const piece = event.target.closest(".piece");
    return piece ? Number(piece.dataset.place) : null;
  };
  element.addEventListener("pointerover", (event) => event.pointerType === "mouse" && under(event) !== null && point(under(event)));
  element.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(pinned));
  element.addEventListener("click", (event) => {
    if (under(event) === null) return;
    pinned = under(event);
    point(pinned);
  });
  element.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    pinned = Math.min(labels.length - 1, Math.max(0, (pinned ?? -1) + step));
    pieces[pinned].scrollIntoView({ block: "nearest" });
    point(pinned);
  });
  here.paint(() => {
    for (const [k, piece] of pieces.entries()) {
      const colour = shade(k);
      piece.style.background = colour ? css(colour) : "none";
      piece.style.color = colour ? legible(colour) : "inherit";
    }
  });
  mark(pinned);
  return { element };
}
