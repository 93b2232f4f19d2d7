// What comes next, or what belongs there, at each token. The text is shaded by how likely the model found it.

view("next", "Next token", (part, place, here) => {
  const labels = here.page.data.streams[part.stream].labels;
  const follows = part.what === "next";
  const before = sameLength(here.page.partBefore, part);
  const given = (k) => (follows ? part.at[k - 1] : part.at[k]);  // what was expected where token k is
  const list = make("div", { class: "at-token", "aria-live": "polite" });
  const last = Math.min(labels.length, part.at.length) - 1;

  function show(k) {
    const at = part.at[k];
    if (!at) return;
    const then = before?.at[k];
    const actual = at.actual === null || at.actual === undefined ? null : make("p", { class: "facts" },
      follows ? "What really follows: " : "What is really there: ", token(at.actual), " ", make("strong", {}, percent(at.p)), at.rank ? `, rank ${whole(at.rank)}` : null,
      then && then.p !== null ? make("span", { class: "quiet" }, `, before ${percent(then.p)}`) : null);
    refill(list, make("h2", {}, follows ? "After " : "In place of ", token(labels[k], k)), actual,
      bars(at.likely, { named: (label) => token(label), before: then?.likely ?? null, marked: at.actual }));
  }

  const text = shadedText(here, labels, {
    name: follows ? "tokens; choose one to see what follows it" : "tokens; choose one to see what belongs there",
    shade: (k) => {
      const p = given(k)?.p;
      return p === null || p === undefined ? null : sequential(0.62 * Math.sqrt(p));
    },
    told: (k) => show(k ?? last), now: last,
  });
  const bar = colourBar((t) => sequential(0.62 * t), [0, 0.01, 0.1, 0.25, 0.5, 1].map((p) => [Math.sqrt(p), String(p).replace(/^0\./, ".")]), "probability");
  here.paint(bar.paint);
  refill(place, make("div", { class: "side-by-side" },
    make("div", {}, make("div", { class: "title-line" }, make("h2", {}, "The text"), make("p", { class: "facts" }, "shaded by how likely the model found each token")),
      make("div", { class: "controls" }, here.page.before ? here.page.asked.compareButton() : null), text.element, make("div", { class: "legend" }, bar.element)),
    list));
  show(last);
});

function sameLength(before, now) {
  return before && before.what === now.what && before.at.length === now.at.length ? before : null;
}
