// Elements of the page. What is given as text stays text: nothing in these scripts is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

// make("p", {class: "note", onclick: f}, "text", another); null and false, as attribute or child, are left out
function make(tag, attributes = {}, ...children) {
  return furnished(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return furnished(document.createElementNS(SVG, tag), attributes, children);
}

function furnished(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") node.style.cssText = value;  // an attribute of this name is what the page's policy forbids
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...present(children));
  return node;
}

function refill(node, ...children) {
  node.replaceChildren(...present(children));
  return node;
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

let counted = 0;
function freshName(word) {
  counted += 1;
  return `${word}-${counted}`;
}

// One of a few: radio buttons in a row, so that keyboard and screen readers know what to do. options: [[value, words], …]
function choice(words, options, now, changed) {
  const name = freshName("choice");
  const buttons = options.map(([value, text]) => {
    const input = make("input", { type: "radio", name, value, checked: value === now, onchange: () => changed(value) });
    return make("label", {}, input, make("span", {}, text));
  });
  return make("fieldset", { class: "choice" }, make("legend", { class: "hidden" }, words), buttons);
}

// A button that is down or up.
function toggle(words, down, changed, extra = {}) {
  const button = make("button", { type: "button", class: "toggle", "aria-pressed": String(down), ...extra }, words);
  button.addEventListener("click", () => {
    const now = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(now));
    changed(now);
  });
  return button;
}

// What is chosen from many. options: [[value, words], …]
function picker(words, options, now, changed) {
  const select = make("select", { onchange: () => changed(select.value) },
    options.map(([value, text]) => make("option", { value, selected: String(value) === String(now) }, text)));
  return make("label", { class: "picker" }, make("span", {}, words), select);
}

// What may be wider than the page: a shadow at a side says that there is more beyond it.
function scrolled(element) {
  const box = make("div", { class: "scroll", tabindex: "0" }, element);
  const tell = () => {
    box.classList.toggle("more-left", box.scrollLeft > 1);
    box.classList.toggle("more-right", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  };
  box.addEventListener("scroll", tell);
  new ResizeObserver(tell).observe(box);
  return box;
}

function slider(words, { low, high, step, now }, changed) {
  const heard = () => changed(Number(input.value));
  const input = make("input", { type: "range", min: low, max: high, step, value: now, oninput: heard });
  return make("label", { class: "slider" }, make("span", {}, words), input);
}

// only what lies in the page itself is shown
function safeImage(address) {
  return /^data:image\/(png|jpeg|gif|webp);base64,/.test(address) ? address : "data:,";
}
