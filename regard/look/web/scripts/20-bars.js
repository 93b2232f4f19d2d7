// Probabilities as bars, with those before the last run beneath them when the two are compared.

// likely: [[label, p], …]; named(label) makes the element of a label; marked: the label that is stressed
function bars(likely, { named, before = null, marked = null }) {
  const runs = [["now", new Map(likely)], ...(before ? [["then", new Map(before)]] : [])];
  const [, now] = runs[0];
  const labels = [...new Set(runs.flatMap(([, run]) => [...run.keys()]))].sort((a, b) => (now.get(b) ?? -1) - (now.get(a) ?? -1));
  const most = Math.max(1e-9, ...runs.flatMap(([, run]) => [...run.values()]));
  const fill = (p) => make("span", { class: "fill", style: `width: ${(100 * p) / most}%` });
  const track = (p, kind) => make("span", { class: `track ${kind}` }, fill(p));
  // what is not among the likely is less likely than all of them
  const figure = (run, label) => (run.has(label) ? percent(run.get(label)) : `< ${percent(Math.min(...run.values()))}`);
  const rows = labels.map((label) => make("div", { class: label === marked ? "bar-row marked" : "bar-row", role: "listitem" },
    make("span", { class: "bar-label" }, named(label)),
    make("span", { class: "tracks" }, runs.map(([kind, run]) => track(run.get(label) ?? 0, kind))),
    make("span", { class: "bar-figure" }, figure(now, label),
      runs.slice(1).map(([, then]) => make("span", { class: "quiet" }, `before ${figure(then, label)}`)))));
  return make("div", { class: before ? "bars compared" : "bars", role: "list" }, rows);
}
