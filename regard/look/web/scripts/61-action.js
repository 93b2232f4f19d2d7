// An element of a group, applied before the model and after it: both outputs and what is left between them.

const actionShown = { action: 0, element: 0 };

function actionFigure(actions, here) {
  const figure = make("div", { class: "action" });
  const sentence = make("p", { class: "sentence" });
  const stepper = make("div", { class: "controls" });
  if (actionShown.action >= actions.length) Object.assign(actionShown, { action: 0, element: 0 });

  function start() {
    const action = actions[actionShown.action];
    const last = action.elements.length - 1;
    const said = make("output", { class: "element-name" });
    const range = make("input", {
      type: "range", min: 0, max: last, step: 1, "aria-label": "element of the group", oninput: () => to(Number(range.value)),
    });
    const button = (text, name, by) => (
      make("button", { type: "button", class: "toggle", "aria-label": name, onclick: () => to(actionShown.element + by) }, text));
    const which = picker("action", actions.map((each, k) => [k, each.name]), actionShown.action, (k) => {
      Object.assign(actionShown, { action: Number(k), element: 0 });
      start();
    });

    function to(k) {
      actionShown.element = Math.min(last, Math.max(0, k));
      const element = action.elements[actionShown.element];
      range.value = actionShown.element;
      said.textContent = element.label;
      showElement(here.afresh(), element, action, figure);
    }

    sentence.textContent = action.sentence;
    refill(stepper, actions.length > 1 ? which : null,
      last > 0 ? [button("‹", "previous element", -1), range, button("›", "next element", 1)] : null, said);
    to(actionShown.element);
  }

  start();
  return make("section", { class: "action-section" }, make("h2", {}, "Apply an element of the group"), sentence, stepper, figure);
}

async function showElement(inner, { order, left, right, n, c, error, holds, taken }, { scale: [low, high], components }, figure) {
  const [a, b] = await Promise.all([unpackedOnce(left), unpackedOnce(right)]);
  if (inner.closed) return;
  const readout = make("output", { class: "readout short", "aria-live": "polite" });
  const rows = order?.length === n ? shownLabels({ labels: order, kind: inner.page.data.input?.kind }) : null;
  const value = (bytes, k) => low + (bytes[k] / 255) * (high - low);
  const most = reach([...a, ...b].map((_, k, all) => value(all, k)));
  const outputs = [
    ["f(g x)", `first the change, then the model${taken ? `: ${taken[0]}` : ""}`, (k) => value(a, k)],
    ["g f(x)", `first the model, then the change${taken ? `: ${taken[1]}` : ""}`, (k) => value(b, k)],
    ["difference", holds ? "nothing is left" : "what is left", (k) => value(a, k) - value(b, k)],
  ];

  function say(i, j) {
    if (i === null) {
      refill(readout, make("span", { class: `badge ${holds ? "good" : "bad"}` }, holds ? "equal" : "not equal"),
        make("span", { class: "quiet" }, ` largest relative difference ${three(error)}`));
      return;
    }
    const numbers = outputs.slice(0, 2).map(([name, , at]) => [`${name} `, make("strong", {}, three(at(i * c + j)))]);
    const what = components ? `class ${components[j]}` : `component ${nth(j)}`;
    refill(readout, n > 1 ? [rows ? token(rows[i], i) : `row ${nth(i)}`, ", "] : null, `${what}: `, numbers[0], ", ", numbers[1]);
  }

  const maps = outputs.map(([name, said, at]) => {
    const told = (i, j = null) => {
      for (const other of maps) if (other !== map) other.mark(i, j);
      say(i, j);
    };
    const highest = Math.min(420, 26 * n + (components ? 110 : 0));  // names of classes stand above
    const map = heatmap(inner, { n, m: c, rows, columns: components, name: `${name}: ${said}`, square: false, highest, told });
    const level = (_, k) => 128 + Math.round((127 * Math.max(-most, Math.min(most, at(k)))) / most);
    inner.paint(() => map.show(Uint8Array.from({ length: n * c }, level), divergingPalette()));
    return map;
  });
  const bar = changeBar(most, "output");
  inner.paint(bar.paint);
  const figures = outputs.map(([name, said], k) => (
    make("figure", { class: "plain" }, make("h3", {}, name), make("p", { class: "quiet" }, said), maps[k].element)));
  refill(figure, readout, make("div", { class: "three" }, figures), make("div", { class: "legend" }, bar.element));
  say(null);
}
