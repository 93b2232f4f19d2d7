// The page: title, tabs, one open view, notes. With a server behind it, its data can be replaced.

class Page {
  constructor(data, place) {
    this.data = data;
    this.place = place;
    this.before = null;       // the data before the last run
    this.comparing = false;   // whether it is shown beside what is now
    this.here = null;
    this.tabs = make("div", { role: "tablist", class: "tabs", "aria-label": "views" });
    this.panel = make("section", { role: "tabpanel", class: "panel", id: "panel", tabindex: "-1" });
    this.notes = make("footer", { class: "notes" });
    this.title = make("h1");
    this.subtitle = make("p", { class: "subtitle" });
    this.answer = make("p", { class: "answer" });
    this.asked = data.live ? liveInput(this) : stillInput(data);
    const head = make("header", { class: "masthead" },
      make("div", {}, make("p", { class: "maker" }, "regard"), this.title, this.subtitle, this.answer),
      themeButton(() => this.here?.repaint()));
    place.append(head, this.asked.element, this.tabs, make("main", {}, this.panel), this.notes);
    this.tabs.addEventListener("keydown", (event) => this.stepped(event));
    addEventListener("hashchange", () => this.followed());
    onPaper.addEventListener("change", () => this.here.repaint());
    this.show();
  }

  get parts() {
    return this.data.views.filter(drawerOf);
  }

  get part() {
    const called = (name) => this.parts.find((part) => part.view === name);
    return called(chosen.view) ?? called(this.data.opens) ?? this.parts[0];
  }

  // the part of the same view before the last run, if it is to be compared
  get partBefore() {
    return this.comparing && this.before ? this.before.views.find((part) => part.view === this.part.view) ?? null : null;
  }

  replace(data) {
    this.before = this.data;
    this.data = data;
    unpacking.clear();
    this.show();
  }

  show() {
    this.title.textContent = this.data.title;
    this.subtitle.textContent = this.data.subtitle ?? "";
    refill(this.answer, answerWords(this.data));
    const notes = this.data.notes ?? [];
    const list = make("ul", {}, notes.map((note) => make("li", {}, note)));
    refill(this.notes, notes.length ? [make("h2", {}, "Notes"), list] : null);
    refill(this.tabs, this.parts.map((part) => make("button", {
      type: "button", role: "tab", id: `tab-${part.view}`, "aria-controls": "panel", onclick: () => this.open(part.view),
    }, titleOf(part))));
    this.asked.show(this.data);
    this.open(this.part?.view ?? null);
  }

  open(name) {
    this.here?.close();
    this.here = new Here(this);
    if (!this.part) {
      refill(this.panel, make("p", { class: "empty" }, "There is nothing to see here."));
      return;
    }
    choose({ view: name });
    for (const tab of this.tabs.children) {
      const open = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(open));
      tab.tabIndex = open ? 0 : -1;
      if (open) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    this.panel.setAttribute("aria-labelledby", `tab-${name}`);
    this.panel.className = `panel view-${name}`;
    this.place.dataset.view = name;
    refill(this.panel);
    drawerOf(this.part).draw(this.part, this.panel, this.here);
  }

  stepped(event) {
    const all = [...this.tabs.children];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const next = all[(to + all.length) % all.length];
    next.click();
    next.focus();
  }

  followed() {
    Object.assign(chosen, fromAddress());
    this.open(this.part?.view ?? null);
  }
}

// What was given and what the model predicts, above all tabs.
function answerWords({ input, views: parts }) {
  const [label, p] = parts.find((part) => part.view === "classes")?.likely[0] ?? [null, null];
  const named = (text, tag = "bdi") => make(tag, {}, clipped(shown(text), 60));
  const said = label === null ? null : ["predicted as ", make("strong", {}, named(label)), `, ${percent(p)}`,
    input?.views ? `, of ${input.views} together` : null];
  const truth = !input?.truth ? null : make("span", { class: label === null || input.truth === label ? "badge plain" : "badge bad" },
    "labelled ", named(input.truth));
  return [input?.name ? [named(input.name), said ? ": " : null] : null, said, truth ? [" ", truth] : null];
}

function titleOf(part) {
  const { title } = drawerOf(part);
  return typeof title === "function" ? title(part) : title;
}

// What was looked at, when it cannot be changed.
function stillInput({ input }) {
  const lines = [["", input?.text], ["→", input?.target]].filter(([, text]) => text);
  const element = make("section", { class: "asked still", "aria-label": "input" }, lines.map(([arrow, text]) => make("p", {},
    arrow ? make("span", { class: "arrow" }, `${arrow} `) : null, make("bdi", {}, text))));
  element.hidden = lines.length === 0;
  return { element, show() {} };
}
