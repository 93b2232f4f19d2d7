// With a server behind the page: other inputs, heads that are silenced, tokens that change places.

const served = /^https?:$/.test(location.protocol);  // a page that was saved is served no more
const NO_ANSWER = "The server does not answer. Is `regard look` still running?";

function liveInput(page) {
  const { live } = page.data;
  const box = (name, placeholder) => (
    make("textarea", { rows: 2, "aria-label": name, placeholder, spellcheck: "false", maxlength: live.longest ?? null }));
  const text = box("text", "Type something to look at");
  const target = box("target text", "What it becomes");
  const file = make("input", { type: "file", accept: "image/*", "aria-label": "picture" });
  const numbers = make("input", { type: "file", accept: ".npy,.npz,.csv,.ply,.off", "aria-label": "file" });
  const run = make("button", { type: "submit", class: "run" }, "Run");
  const state = make("p", { class: "state", role: "status" });
  const error = make("p", { class: "error", role: "alert", hidden: true });
  const chips = make("div", { class: "chips" });
  const element = make("form", { class: "asked live", "aria-label": "input" },
    live.text ? text : null, live.target ? target : null,
    live.image ? make("label", { class: "picture-file" }, "Picture ", file) : null,
    live.file ? make("label", { class: "picture-file" }, "Another one, from a file (.npy, .npz, .csv, .ply, .off) ", numbers) : null,
    make("div", { class: "controls" }, run, make("span", { class: "hint" }, "Ctrl + Enter"), state), error, chips);
  // what is shown was asked so; the next question differs from it in what was changed
  const written = ({ text: a, target: b }) => ({ text: live.text ? a ?? "" : null, target: live.target ? b ?? "" : null });
  let pictureName = null;  // of the file that was chosen last
  let last = { ...written(page.data.input ?? {}), image: null, file: null, node: null, order: null, silence: [] };

  async function ask(changes = {}) {
    if (run.disabled) return;
    const typed = written({ text: text.value, target: target.value });
    const other = typed.text !== last.text || typed.target !== last.target;
    const question = { ...last, ...changes, ...typed, ...(other ? { order: null } : {}) };  // an order is one of the same tokens
    const began = performance.now();
    run.disabled = true;
    element.setAttribute("aria-busy", "true");
    state.textContent = "The model is running …";
    error.hidden = true;
    try {
      const data = await answered(question);
      if (question.image) data.input.name = pictureName;
      last = question;
      state.textContent = `done in ${((performance.now() - began) / 1000).toFixed(2)} s`;
      page.replace(data);
    } catch (problem) {
      state.textContent = "";
      error.textContent = problem.message;
      error.hidden = false;
      if ("silence" in changes) page.open(chosen.view);  // its button is as before
    } finally {
      run.disabled = false;
      element.removeAttribute("aria-busy");
    }
  }

  function move(from, to) {
    const count = chips.children.length;
    if (to < 0 || to >= count || from === to) return;
    const order = last.order ? [...last.order] : Array.from({ length: count }, (_, k) => k);
    order.splice(to, 0, ...order.splice(from, 1));
    chips.dataset.chosen = String(to);
    ask({ order });
  }

  element.addEventListener("submit", (event) => {
    event.preventDefault();
    ask({ order: null });
  });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    ask({ order: null });
  });
  for (const each of [text, target]) each.addEventListener("input", () => grow(each));
  file.addEventListener("change", async () => {
    if (!file.files.length) return;
    pictureName = file.files[0].name;
    ask({ image: await dataAddress(file.files[0]), order: null });
  });

  numbers.addEventListener("change", async () => {
    if (numbers.files.length) ask({ file: await dataAddress(numbers.files[0]), node: null });
  });

  return {
    element,
    // what lies around another node of a large graph
    around(node) {
      ask({ node });
    },
    show({ input, streams }) {
      if (document.activeElement !== text) text.value = input?.text ?? "";
      if (document.activeElement !== target) target.value = input?.target ?? "";
      requestAnimationFrame(() => [text, target].forEach(grow));  // when it is known how wide they are
      tokenChips(chips, live.move && streams.length ? shownLabels(streams[0]) : [], move);
    },
    silenceButton(layer, head) {
      const same = ([a, b]) => a === layer && b === head;
      const silenced = page.data.silenced ?? [];
      return toggle("silence this head", silenced.some(same), (down) => {
        ask({ silence: down ? [...silenced, [layer, head]] : silenced.filter((each) => !same(each)) });
      }, { title: "run again as if this head said nothing" });
    },
    // heads that were silenced may be on other rows of the sheet
    hearAllButton() {
      const { length } = page.data.silenced;
      const words = `hear all heads again (${length} silenced)`;
      return make("button", { type: "button", class: "toggle", onclick: () => ask({ silence: [] }) }, words);
    },
    compareButton() {
      return toggle("compare with before", page.comparing, (down) => {
        page.comparing = down;
        page.open(chosen.view);
      }, { title: "show what the last run has changed" });
    },
  };
}

// New data, or an error that is one line.
async function answered(question) {
  if (!served) throw new Error(NO_ANSWER);
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch("/api/look", { method: "POST", headers, body: JSON.stringify(question) }).catch(() => {
    throw new Error(NO_ANSWER);
  });
  const data = await answer.json().catch(() => ({ error: `The server answered with ${answer.status} and no data.` }));
  if (!answer.ok || data.error) throw new Error(data.error ?? `The server answered with ${answer.status}.`);
  return data;
}

function grow(box) {
  box.style.height = "auto";
  box.style.height = `${Math.min(220, box.scrollHeight + 2)}px`;
}

function dataAddress(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}
