// Inputs beside their reconstructions, and samples of the prior.

const reconstructionsShown = { group: "worst" };

view("reconstructions", "Reconstructions", (part, place, here) => {
  const figures = make("div");
  const { inputs, groups } = part;
  const names = Object.keys(groups).filter((name) => groups[name]);
  if (!names.includes(reconstructionsShown.group)) [reconstructionsShown.group] = names;
  let exhibits = null;

  function show() {
    let first = 0;
    for (const name of names) {
      if (name === reconstructionsShown.group) break;
      first += groups[name];
    }
    const numbers = Array.from({ length: groups[reconstructionsShown.group] }, (_, k) => first + k);
    const drawn = numbers.map((k) => reconstruction(part, exhibits, k));
    refill(figures, make("ol", { class: inputs.form === "rows" ? "pairs of-rows" : "pairs" }, drawn));
  }

  const which = choice("which reconstructions", names.map((name) => [name, name === "typical" ? "in the middle" : `${name} first`]), reconstructionsShown.group, (name) => {
    reconstructionsShown.group = name;
    show();
  });
  const denoised = part.given ? "Each was corrupted as in training, and is compared with the clean input." : "";
  refill(place, make("div", { class: "title-line" }, make("h2", {}, "Reconstructions"),
    make("p", { class: "facts" }, `RMSE ${three(part.rmse)}${inputs.form === "rows" ? " deviations of a column" : ""}, ${whole(part.of)} inputs of the ${part.split} split`)),
  denoised ? make("p", { class: "sentence" }, denoised) : null, part.columns ? columnErrors(part.columns) : null,
  names.length > 1 ? make("div", { class: "controls" }, which) : null, figures);
  const load = (data) => (data ? new Exhibit(inputs, data).load() : null);
  Promise.all([part.original, part.given, part.back].map(load)).then((found) => {
    if (here.closed) return;
    exhibits = found;
    show();
    performance.mark("regard:interactive");
  });
});

function reconstruction({ inputs, items }, [original, given, back], k) {
  const { name, label, error } = items[k];
  const words = make("p", { class: "pair-words" }, make("bdi", {}, clipped(shown(name), 40)),
    label === null ? null : make("span", { class: "quiet" }, `, ${clipped(shown(label), 30)}`), make("span", { class: "quiet" }, ` RMSE ${three(error)}`));
  if (inputs.form === "rows") {
    const rows = [["input", original.of(k)], ...(given ? [["corrupted", given.of(k)]] : []), ["reconstructed", back.of(k)]];
    return make("li", {}, words, rowTable(inputs, rows));
  }
  const figure = (exhibit, title) => make("figure", {}, exhibit.small(k), make("figcaption", {}, title));
  return make("li", {}, make("div", { class: "pair" }, figure(original, "input"), given ? figure(given, "corrupted") : null, figure(back, "reconstructed")), words);
}

// The error in each column of a table, the largest first where there are many.
function columnErrors(columns) {
  const many = columns.length > MOST_COLUMNS;
  const order = many ? [...columns].sort((a, b) => (b.share ?? 0) - (a.share ?? 0)).slice(0, MOST_COLUMNS) : columns;
  const rows = order.map(({ name, rmse, share }) => make("tr", {}, columnName(name), make("td", { class: "figure" }, three(rmse)),
    make("td", { class: "figure apart", style: `--far: ${Math.min(100, 100 * (share ?? 0)).toFixed(0)}%` }, share === null ? "–" : percent(share))));
  const rest = many ? ` These are the ${MOST_COLUMNS} of ${whole(columns.length)} columns with the largest part.` : "";
  return make("section", { class: "latent-section" }, make("h3", {}, "By column"),
    make("p", { class: "sentence" }, `RMSE in the units of the column, and as a part of its deviation: at 100% the mean of the column would do as well.${rest}`),
    scrolled(make("table", { class: "exhibit-table" }, tableHead(["column", "RMSE", "of the deviation"]), make("tbody", {}, rows))));
}

view("prior", (part) => (part.variational ? "Samples of the prior" : "Samples"), (part, place, here) => {
  const figures = make("div");
  refill(place, make("h2", {}, "Samples"), make("p", { class: "sentence" }, part.sentence), figures);
  new Exhibit(part.inputs, part.shown).load().then((exhibit) => {
    if (here.closed) return;
    const numbers = Array.from({ length: part.shown.count }, (_, k) => k);
    if (part.inputs.form === "rows") refill(figures, sampleTable(part.inputs, exhibit, numbers));
    else refill(figures, make("div", { class: `sample-sheet of-${part.inputs.form}` }, numbers.map((k) => exhibit.small(k))));
    performance.mark("regard:interactive");
  });
});

// Samples of a table are rows of it.
function sampleTable(inputs, exhibit, numbers) {
  const columns = inputs.columns.slice(0, MOST_COLUMNS);
  const rows = numbers.map((k) => {
    const values = exhibit.of(k);
    return make("tr", {}, columns.map((_, i) => make("td", { class: "figure" }, number(inUnits(inputs, i, values[i]), 4))));
  });
  const rest = inputs.columns.length - columns.length;
  return make("div", {}, scrolled(make("table", { class: "exhibit-table samples-table" }, tableHead(columns.map((name) => clipped(shown(name), 24))), make("tbody", {}, rows))),
    rest > 0 ? make("p", { class: "quiet small" }, `and ${whole(rest)} more columns`) : null);
}
