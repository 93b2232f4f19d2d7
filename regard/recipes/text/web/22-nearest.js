// The texts nearest to one that is chosen, by the cosine of the vectors that the page carries; served, also to any text that is typed.

const nearestChosen = { place: 0 };

view("nearest", "Nearest texts", (part, place, here) => {
  const { live, record } = here.page.data;
  const labels = part.texts.map(shown);
  if (nearestChosen.place >= labels.length) nearestChosen.place = 0;
  const rows = labels.map((label, k) => (
    make("div", { class: "text-row", role: "option", id: freshName("text"), "data-place": k }, make("bdi", {}, label))));
  const list = make("div", {
    class: "text-list", role: "listbox", tabindex: "0", "aria-label": "texts; choose one to see the nearest to it",
  }, rows);
  const nearest = make("div", { class: "nearest", "aria-live": "polite" });
  let vectors = null;

  // of all other texts with text k
  function cosines(k) {
    const width = vectors.shape[1];
    const product = (other) => {
      let sum = 0;
      for (let c = 0; c < width; c++) sum += vectors.at(k * width + c) * vectors.at(other * width + c);
      return sum;
    };
    return labels.map((_, other) => [other, product(other)]).filter(([other]) => other !== k);
  }

  function mark(k) {
    for (const [other, row] of rows.entries()) row.setAttribute("aria-selected", String(other === k));
    if (k === null) list.removeAttribute("aria-activedescendant");
    else list.setAttribute("aria-activedescendant", rows[k].id);
  }

  function choose(k) {
    nearestChosen.place = k;
    mark(k);
    const { offsetTop, offsetHeight } = rows[k];  // the list moves, and the page does not
    list.scrollTop = Math.min(offsetTop, Math.max(list.scrollTop, offsetTop + offsetHeight - list.clientHeight));
    const found = cosines(k).sort(([, a], [, b]) => b - a).slice(0, part.count);
    show(labels[k], found);
  }

  // the button that was pressed is gone then
  function goTo(k) {
    choose(k);
    list.focus({ preventScroll: true });
  }

  function show(label, found) {
    const items = found.map(([k, cosine]) => make("li", {},
      make("button", { type: "button", class: "neighbour", onclick: () => goTo(k) },
        make("bdi", { class: "neighbour-text" }, labels[k]), make("span", { class: "neighbour-figure" }, cosineText(cosine)),
        make("span", { class: "track" }, make("span", { class: "fill", style: `width: ${100 * Math.max(0, cosine)}%` })))));
    refill(nearest, make("h2", {}, "Nearest to “", make("bdi", {}, clipped(label, 80)), "”"),
      make("p", { class: "facts" }, "by the cosine of their vectors: 1 is the same direction"), make("ol", {}, items));
  }

  list.addEventListener("click", (event) => {
    const row = event.target.closest(".text-row");
    if (row && vectors) choose(Number(row.dataset.place));
  });
  list.addEventListener("keydown", (event) => {
    const step = steps(event);
    if (!step || !vectors) return;
    event.preventDefault();
    choose(Math.min(labels.length - 1, Math.max(0, nearestChosen.place + step[0] + step[1])));
  });

  const search = live && served ? textSearch(here, live, (query) => answered({ record, view: "nearest", query }, "/api/ask"), (query, found) => {
    mark(null);
    show(shown(query), found.nearest);
    nearest.scrollIntoView({ block: "nearest" });  // on a phone the list is above it
  }) : null;
  const title = make("div", { class: "title-line" }, make("h2", {}, "The texts"),
    make("p", { class: "facts" }, `${whole(labels.length)}; choose one to see the nearest to it`));
  refill(place, search, make("div", { class: "side-by-side" }, make("div", {}, title, list), nearest));
  unpackedFloats(part.vectors).then((found) => {
    if (here.closed) return;
    vectors = found;
    choose(nearestChosen.place);
    performance.mark("regard:interactive");
  });
});

// A field for any text. asked(query) -> promise of the answer; heard(query, answer)
function textSearch(here, { longest }, asked, heard) {
  const field = make("input", { type: "search", "aria-label": "search the texts", placeholder: "Type what to search for", maxlength: longest ?? null });
  const button = make("button", { type: "submit", class: "run" }, "Search");
  const error = make("p", { class: "error", role: "alert", hidden: true });
  const element = make("form", { class: "text-search", role: "search" }, field, button, error);
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.disabled || !field.value.trim()) return;
    const query = field.value;
    button.disabled = true;
    error.hidden = true;
    try {
      const found = await asked(query);
      if (!here.closed) heard(query, found);
    } catch (problem) {
      error.textContent = problem.message;
      error.hidden = false;
    } finally {
      button.disabled = false;
    }
  });
  return element;
}

// three decimals; what is rounded to 0 has no sign
function cosineText(cosine) {
  return cosine.toFixed(3).replace(/^-(?=0\.000$)/, "").replace("-", "−");
}
