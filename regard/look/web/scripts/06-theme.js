// Light or dark: as the system says, until somebody chooses.

const THEME = "regard-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function storedTheme() {
  try {
    const stored = localStorage.getItem(THEME);
    return stored === "light" || stored === "dark" ? stored : null;
  } catch {
    return null;  // a page may be denied any memory
  }
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
}

function themeButton(changed) {
  const button = make("button", { type: "button", class: "theme" });
  const show = () => {
    const other = dark() ? "light" : "dark";
    button.setAttribute("aria-label", `show the page ${other}`);
    button.title = `show the page ${other}`;
    refill(button, makeSvg("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" },
      makeSvg("circle", { cx: 10, cy: 10, r: 7.2, fill: "none", stroke: "currentColor", "stroke-width": 1.4 }),
      makeSvg("path", { d: "M10 2.8a7.2 7.2 0 0 1 0 14.4z", fill: "currentColor" })));
  };
  const turn = (name) => {
    setTheme(name);
    show();
    changed();
  };
  button.addEventListener("click", () => {
    const name = dark() ? "light" : "dark";
    try {
      localStorage.setItem(THEME, name);
    } catch {
      // it is then forgotten when the page is closed
    }
    turn(name);
  });
  system.addEventListener("change", () => storedTheme() === null && turn(system.matches ? "dark" : "light"));
  show();
  return button;
}

setTheme(storedTheme() ?? (system.matches ? "dark" : "light"));
