// With a server behind the page: other inputs, heads that are silenced, tokens that change places.

const served = /^https?:$/.test(location.protocol);  // a page that was saved is served no more

function liveInput(page) {
  const { live } = page.data;
  const text = make("textarea", { rows: 2, "aria-label": "text", spellcheck: "false", maxlength: live.longest ?? null, placeholder: "Type something to look at" });
  const target = make("textarea", { rows: 2, "aria-label": "target text", spellcheck: "false", maxlength: live.longest ?? null, placeholder: "What it is translated to" });
  const file = make("input", { type: "file", accept: "image/*", "aria-label": "picture" });
  const run = make("button", { type: "submit", class: "run" }, "Run");
  const state = make("p", { class: "state", role: "status" });
  const error = make("p", { class: "error", role: "alert", hidden: true });
  const chips = make("div", { class: "chips" });
  const hint = make("span", { class: "quiet hint" }, "Ctrl + Enter");
  const element = make("form", { class: "asked live", "aria-label": "input" },
    live.text ? text : null, live.target ? target : null, live.image ? make("label", { class: "picture-file" }, make("span", {}, "Picture "), file) : null,
    make("div", { class: "controls" }, run, hint, state), error, chips);
  let [order, silence, picture, busy] = [null, [], null, false];

  async function ask() {
    if (busy) return;
    busy = true;
    run.disabled = true;
    element.setAttribute("aria-busy", "true");
    state.textContent = "The model is running …";
    error.hidden = true;
    const question = { text: live.text ? text.value : null, target: live.target ? target.value : null, image: picture, order, silence };
    const began = performance.now();
    try {
      if (!served) throw new TypeError("a page that was saved has no server");
      const answer = await fetch("/api/look", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });
      const data = await answer.json();
      if (!answer.ok || data.error) throw new Error(data.error ?? `the server answered with ${answer.status}`);
      state.textContent = `done in ${((performance.now() - began) / 1000).toFixed(1)} s`;
      page.replace(data);
    } catch (problem) {
      state.textContent = "";
      error.textContent = problem instanceof TypeError ? "The server does not answer. Is `regard look` still running?" : problem.message;
      error.hidden = false;
      [order, silence] = [page.data.order ?? null, page.data.silenced ?? []];
      page.here.repaint();
    } finally {
      busy = false;
      run.disabled = false;
      element.removeAttribute("aria-busy");
    }
  }

  element.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    ask();
  });
  for (const box of [text, target]) {
    box.addEventListener("input", () => {
      order = null;  // it was an order of other tokens
      grow(box);
    });
  }
  file.addEventListener("change", async () => {
    picture = file.files.length ? await dataAddress(file.files[0]) : null;
    if (picture) ask();
  });

  function move(from, to) {
    const count = chips.children.length;
    if (busy || to < 0 || to >= count || from === to) return;
    const next = order ? [...order] : Array.from({ length: count }, (_, k) => k);
    next.splice(to, 0, ...next.splice(from, 1));
    order = next;
    chips.dataset.chosen = String(to);
    ask();
  }

  return {
    element,
    show(data) {
      if (live.text && document.activeElement !== text) text.value = data.input?.text ?? "";
      if (live.target && document.activeElement !== target) target.value = data.input?.target ?? "";
      for (const box of [text, target]) grow(box);
      silence = data.silenced ?? [];
      tokenChips(chips, live.move ? data.streams[0]?.labels ?? [] : [], move);
    },
    silenceButton(layer, head) {
      const same = ([a, b]) => a === layer && b === head;
      return toggle("silence this head", silence.some(same), (down) => {
        silence = down ? [...silence, [layer, head]] : silence.filter((each) => !same(each));
        ask();
      }, { title: "run again as if this head said nothing" });
    },
    compareButton() {
      return toggle("compare with before", page.comparing, (down) => {
        page.comparing = down;
        page.open(chosen.view);
      }, { title: "show what the last run has changed" });
    },
  };
}

// Tokens that can be dragged, or chosen and moved with the arrow keys.
function tokenChips(place, labels, move) {
  const chosenChip = Number(place.dataset.chosen ?? -1);
  const had = place.contains(document.activeElement);
  let dragged = null;
  const chips = labels.map((label, k) => {
    const chip = make("button", { type: "button", class: "chip", draggable: "true", "aria-pressed": String(k === chosenChip), title: "drag, or choose it and press ← or →" }, token(label));
    chip.addEventListener("click", () => {
      place.dataset.chosen = String(place.dataset.chosen === String(k) ? -1 : k);
      for (const [other, each] of chips.entries()) each.setAttribute("aria-pressed", String(String(other) === place.dataset.chosen));
    });
    chip.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      if (place.dataset.chosen === String(k)) move(k, k + step);
      else chips[k + step]?.focus();
    });
    chip.addEventListener("dragstart", (event) => {
      dragged = k;
      event.dataTransfer.effectAllowed = "move";
      event.dataTransfer.setData("text/plain", label);
    });
    chip.addEventListener("dragover", (event) => dragged !== null && event.preventDefault());
    chip.addEventListener("drop", (event) => {
      event.preventDefault();
      if (dragged !== null) move(dragged, k);
    });
    return chip;
  });
  refill(place, chips);
  if (had) chips[chosenChip]?.focus();
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
