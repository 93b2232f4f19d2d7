// With a server behind the page: other inputs, heads that are silenced, tokens that change places.

const served = /^https?:$/.test(location.protocol);  // a page that was saved is served no more
const TOKEN = new URLSearchParams(location.search).get("token") ?? "";
const NO_ANSWER = "The server does not answer. Is `regard look` still running?";

// An address of the server, with the secret word that this page was opened with: nobody else may ask.
function withToken(path) {
  return `${path}?${new URLSearchParams({ token: TOKEN })}`;
}

// Can a field of a request be changed? What a page offers, its model's reader says.
function offers(live, name) {
  return (live?.controls ?? []).some((control) => control.name === name);
}

function liveInput(page) {
  const { live } = page.data;
  const typed = live.controls.filter(({ type }) => type === "string").map((control) => [control.name, textBox(control, live.longest)]);
  const chosenFiles = live.controls.filter(({ type }) => type === "file").map((control) => [control, filePicker(control)]);
  const run = make("button", { type: "submit", class: "run" }, "Run");
  const state = make("p", { class: "state", role: "status" });
  const error = make("p", { class: "error", role: "alert", hidden: true });
  const chips = make("div", { class: "chips" });
  const element = make("form", { class: "asked live", "aria-label": "input" },
    typed.map(([, box]) => box),
    chosenFiles.map(([{ label }, input]) => make("label", { class: "picture-file" }, `${label} `, input)),
    make("div", { class: "controls" }, run, make("span", { class: "hint" }, "Ctrl + Enter"), state), error, chips);
  // what is shown was asked so; the next question differs from it in what was changed
  const written = (value) => Object.fromEntries(typed.map(([name, box]) => [name, value(name, box)]));
  let fileName = null;  // of the file that was chosen last
  // what was changed of an input is not changed of another one
  const untouched = Object.fromEntries(live.controls.filter(({ type }) => /^number/.test(type)).map(({ name }) => [name, null]));
  let last = { ...written((name) => page.data.input?.[name] ?? ""), silence: [] };

  async function ask(changes = {}) {
    if (run.disabled) return;
    const texts = written((name, box) => box.value);
    const other = Object.entries(texts).some(([name, text]) => text !== last[name]);
    const question = { ...last, ...changes, ...texts, ...(other ? { order: null } : {}) };  // an order is one of the same tokens
    const began = performance.now();
    run.disabled = true;
    element.setAttribute("aria-busy", "true");
    state.textContent = "The model is running …";
    error.hidden = true;
    try {
      const data = await answered(question);
      if (fileName !== null) data.input.name ??= fileName;
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
  for (const [, box] of typed) box.addEventListener("input", () => grow(box));
  // another tab may have hidden it
  new IntersectionObserver(() => typed.forEach(([, box]) => grow(box))).observe(element);
  for (const [{ name, most }, input] of chosenFiles) {
    input.addEventListener("change", async () => {
      if (!input.files.length) return;
      const [file] = input.files;
      if (most && file.size > most) {
        error.textContent = `${file.name} has ${whole(file.size)} bytes; at most ${whole(most)} are read`;
        error.hidden = false;
        return;
      }
      fileName = file.name;
      ask({ ...untouched, [name]: await dataAddress(file) });
    });
  }

  return {
    element,
    // other values of some controls, by their names; null: as it was
    change(values) {
      ask(values);
    },
    // what lies around another node of a large graph
    around(node) {
      ask({ node });
    },
    show({ input, streams }) {
      for (const [name, box] of typed) if (document.activeElement !== box) box.value = input?.[name] ?? "";
      requestAnimationFrame(() => typed.forEach(([, box]) => grow(box)));  // when it is known how wide they are
      tokenChips(chips, offers(live, "order") && streams.length ? shownLabels(streams[0]) : [], move);
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
async function answered(question, path = "/api/look") {
  if (!served) throw new Error(NO_ANSWER);
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(withToken(path), { method: "POST", headers, body: JSON.stringify(question) }).catch(() => {
    throw new Error(NO_ANSWER);
  });
  const data = await answer.json().catch(() => ({ error: `The server answered with ${answer.status} and no data.` }));
  if (!answer.ok || data.error) throw new Error(data.error ?? `The server answered with ${answer.status}.`);
  return data;
}

function textBox({ label, placeholder }, longest) {
  return make("textarea", { rows: 2, "aria-label": label, placeholder, spellcheck: "false", maxlength: longest ?? null });
}

function filePicker({ label, accept }) {
  return make("input", { type: "file", accept, "aria-label": label });
}

function grow(box) {
  if (!box.offsetParent) return;  // it is hidden, and has no height
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
