// The latent space: a map, what is decoded at the mark on it, and a slider for each number of a code. Served, everything is
// decoded at once; a file has what was decoded for it.

const STRIPS_AFTER = 250;  // milliseconds without a change after which strips are asked for

view("latent", "Latent space", (part, place, here) => {
  const live = Boolean(here.page.data.live) && served;
  const { record } = here.page.data;
  const preview = new DecodedPreview(part);
  const error = make("p", { class: "error", role: "alert", hidden: true });
  const originals = new Map();  // row -> its place among the thumbnails
  let [waiting, newest] = [null, part.here.code];

  const asker = new LatestQuestion((question) => answered({ record, view: "latent", ...question }, "/api/ask"), (found, problem) => {
    if (here.closed) return null;
    error.hidden = !problem;
    error.textContent = problem?.message ?? "";
    return problem ? null : heard(found);
  });

  async function heard({ code, place: where, decoded, row }) {
    newest = code;
    map.show(where, row);
    dimensions.follow(code);
    await preview.show(await new Exhibit(part.inputs, decoded).load(), 0, code, original(row));
    renewStrips();
  }

  // what an input was itself, beside what is decoded from its code
  function original(row) {
    if (row === "here") return [preview.here, 0, part.here.name];
    const k = originals.get(row);
    return k === undefined ? null : [map.shown, k, map.nameOf(row)];
  }

  function renewStrips() {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      if (here.closed) return;
      const strips = dimensions.visible.map(({ number: dimension }) => dimension);
      try {
        const found = await answered({ record, view: "latent", code: newest, strips }, "/api/ask");
        if (!here.closed) await dimensions.renew(found.strips);
      } catch (problem) {
        error.textContent = problem.message;
        error.hidden = false;
      }
    }, STRIPS_AFTER);
  }

  const map = new LatentMap(part, here, {
    placed(where) {
      if (live) asker.ask({ place: where });
      else if (map.grid) showField(where);
    },
    picked(row) {
      if (row === "here") {
        if (live) asker.ask({ code: part.here.code }, { row });
        else preview.begin();
      } else if (live) asker.ask({ row }, { row });
      else showInput(row);
    },
  });

  // ---- a page without a server: the nearest of what was decoded for it

  function fieldOf([across, up]) {
    const { rows, columns } = part.grid;
    const at = (value, i, count) => Math.min(count - 1, Math.max(0, Math.floor(((value - part.low[i]) / (part.high[i] - part.low[i])) * count)));
    const row = rows === 1 ? 0 : rows - 1 - at(up, 1, rows);
    return row * columns + at(across, 0, columns);
  }

  function showField(where, beside = null) {
    preview.show(map.grid, fieldOf(where), part.explained.length ? null : where, beside, "the nearest of what was decoded for this page");
  }

  function showInput(row) {
    const beside = original(row);
    if (map.grid && !part.explained.length) showField(map.placeOf(row), beside);
    else if (beside) preview.show(beside[0], beside[1], null, null, beside[2]);
  }

  const dimensions = new Dimensions(part, here, {
    live,
    moved: (code) => asker.ask({ code }),
    stepped: (exhibit, k, dimension, value) => {
      preview.show(exhibit, k, null, null, `z${dimension + 1} = ${three(value)}, all else as in the code of ${clipped(shown(part.here.name), 40)}`);
    },
    turned: () => live && renewStrips(),
  });

  const ways = [["points", "points"], ...(part.held ? [["inputs", "inputs"]] : []), ...(part.grid ? [["decoded", "what is decoded everywhere"]] : [])];
  const drawn = () => choice("what the map shows", ways, map.drawn, (way) => {
    map.drawn = way;
    map.paint();
  });
  const controls = make("div", { class: "controls" });
  refill(place, make("div", { class: "title-line" }, make("h2", {}, "Latent space"), make("p", { class: "facts" }, withinWords(part))),
    controls, make("div", { class: "latent-figure" }, map.element, preview.element), error, dimensions.element);
  Promise.all([map.load(), preview.load(), dimensions.load()]).then(() => {
    if (here.closed) return;
    (part.held?.thumbs ?? []).forEach((row, k) => originals.set(row, k));
    refill(controls, part.axes.length < 3 && part.inputs.form === "images" ? drawn() : null,
      make("span", { class: "hint" }, latentHint(part, live)));
    performance.mark("regard:interactive");
  });
});

function latentHint(part, live) {
  const how = part.axes.length > 2 ? "Click a point; drag to turn." : "Click or drag on the map.";
  const plane = part.explained.length ? " A place between the points is decoded in the plane of the two components, through the mean of the codes." : "";
  if (live) return `${how} What is decoded there is shown beside it.${plane}`;
  return `${part.grid || part.held ? how : ""} This page is a file, so it shows the nearest of what was decoded for it; regard look decodes every place.`;
}

function withinWords({ within, variational, held, latent }) {
  if (!within) return "";
  const where = latent > 1 ? "within 3 σ in every dimension" : "within 3 σ";
  const whose = variational ? `; of samples of the prior ${percent(within.expected)} are` : " (σ of the codes themselves: there is no prior)";
  return `${percent(within.share)} of ${whole(within.count)} codes (${held.split} split) are ${where}${whose}.`;
}

// Only the newest question counts: while one is answered, those that come in between replace each other.
class LatestQuestion {
  // asked(question) -> promise of the answer; heard(answer, null) or heard(null, error)
  constructor(asked, heard) {
    Object.assign(this, { asked, heard, next: null, busy: false });
  }

  // more: what is handed on with the answer
  async ask(question, more = {}) {
    this.next = [question, more];
    if (this.busy) return;
    this.busy = true;
    while (this.next) {
      const [now, beside] = this.next;
      this.next = null;
      try {
        const found = await this.asked(now);
        await this.heard({ row: null, ...found, ...beside }, null);
      } catch (problem) {
        await this.heard(null, problem);
      }
    }
    this.busy = false;
  }
}

// What is decoded, large, with its code in numbers, and beside it the input that the code is of.
class DecodedPreview {
  constructor(part) {
    this.part = part;
    this.figures = make("div", { class: `decoded-figures of-${part.inputs.form}` });
    this.words = make("output", { class: "readout", "aria-live": "polite" });
    this.element = make("div", { class: "decoded" }, this.figures, this.words);
  }

  async load() {
    const { inputs, here } = this.part;
    [this.here, this.decoded] = await Promise.all([here.original, here.decoded].map((data) => new Exhibit(inputs, data).load()));
    this.begin();
  }

  begin() {
    this.show(this.decoded, 0, this.part.here.code, [this.here, 0, this.part.here.name]);
  }

  // beside: [exhibit, number, name] of an input, or null
  show(exhibit, k, code, beside, words = null) {
    const { inputs } = this.part;
    const figure = (title, element) => make("figure", {}, element, make("figcaption", {}, title));
    const name = beside && clipped(shown(beside[2]), 40);
    if (inputs.form === "rows") {
      const rows = [...(beside ? [["input", beside[0].of(beside[1])]] : []), ["decoded", exhibit.of(k)]];
      refill(this.figures, beside ? make("p", { class: "quiet" }, make("bdi", {}, name)) : null, rowTable(inputs, rows));
    } else {
      refill(this.figures, figure("decoded", exhibit.large(k)), beside ? figure(make("bdi", {}, name), beside[0].large(beside[1])) : null);
    }
    refill(this.words, code ? codeWords(code) : null, words ? make("span", { class: "quiet" }, words) : null);
  }
}

const NUMBERS_SAID = 8;  // of a code

function codeWords(code) {
  const said = code.slice(0, NUMBERS_SAID).map(three).join(", ");
  return make("span", {}, `z = (${said}${code.length > NUMBERS_SAID ? ", …" : ""}) `);
}
