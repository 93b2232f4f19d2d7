// What comes next, or what belongs there, at each token. The text is shaded by how likely the model found it.

view("next", ({ what }) => (what === "next" ? "Next token" : "Filled in"), (part, place, here) => {
  const { page } = here;
  const labels = shownLabels(page.data.streams[part.stream]);
  const follows = part.what === "next";
  const before = sameLength(page.partBefore, part);
  const list = make("div", { class: "at-token", "aria-live": "polite" });
  const last = Math.min(labels.length, part.at.length) - 1;

  function show(k) {
    const at = part.at[k];
    if (!at) return;
    const then = before?.at[k];
    const known = at.actual !== null && at.actual !== undefined;
    const actual = known ? make("p", { class: "facts" }, follows ? "What really follows: " : "What is really there: ",
      token(shownToken(at.actual)), " ", make("strong", {}, percent(at.p ?? 0)), at.rank ? `, rank ${whole(at.rank)}` : null,
      then && then.p !== null ? `, before ${percent(then.p)}` : null) : null;
    refill(list, make("h2", {}, follows ? "After " : "In place of ", token(labels[k], k)), actual,
      bars(at.likely, { named: (label) => token(shownToken(label)), before: then?.likely ?? null, marked: at.actual }));
  }

  // how likely the token was where it is
  function shade(k) {
    const p = (follows ? part.at[k - 1] : part.at[k])?.p;
    return p === null || p === undefined ? null : underText(Math.sqrt(p));
  }

  const name = follows ? "tokens; choose one to see what follows it" : "tokens; choose one to see what belongs there";
  const text = shadedText(here, labels, { name, shade, told: (k) => show(k ?? last), now: last });
  const bar = colourBar(underText, ROOTS, "probability");
  here.paint(bar.paint);
  const title = make("div", { class: "title-line" }, make("h2", {}, "The text"),
    make("p", { class: "facts" }, "shaded by how likely the model found each token"));
  const controls = make("div", { class: "controls" }, page.before ? page.asked.compareButton() : null);
  const legend = make("div", { class: "legend" }, bar.element);
  refill(place, make("div", { class: "side-by-side" }, make("div", {}, title, controls, text, legend), list));
  show(last);
});

function sameLength(before, now) {
  return before && before.what === now.what && before.at.length === now.at.length ? before : null;
}
