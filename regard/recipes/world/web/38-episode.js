// A real episode beside what the model imagines of it from a step on: drawn, as curves, with rewards and values.

const FRAME = 60;  // milliseconds of a step that is played

const KINDS = {
  taken: "the actions that were taken",
  policy: "the policy's actions",
  changed: "your actions",
};

view("episode", "Episode", async (part, place, here) => {
  const data = await unpackedEpisode(part);
  if (here.closed) return;
  const figure = make("div", {});
  if (!data.futures.has(worldShown.kind)) worldShown.kind = "taken";
  if (worldShown.start === null || worldShown.start >= part.starts.length) worldShown.start = Math.floor(part.starts.length / 5);

  function show() {
    const inner = here.afresh();
    refill(figure, ...episodeFigure(inner, part, data, (changes) => {
      Object.assign(worldShown, changes);
      show();
    }));
    figure.querySelector(`[data-focus="${worldShown.focus}"]`)?.focus();
    worldShown.focus = null;
  }

  refill(place, make("h2", {}, "Imagined beside real"), make("p", { class: "sentence" }, episodeWords(part)),
    make("div", { class: "controls" }, episodePicker(part, here)), figure);
  show();
  performance.mark("regard:interactive");
});

function episodeWords({ of, numbers, ensemble, covered, count, end }) {
  const some = numbers.length < of ? ` Of ${whole(of)} numbers of an observation, ${numbers.length} are shown, those that vary most.` : "";
  const heads = ensemble > 1 ? ` The band reaches from the lowest to the highest of its ${ensemble} heads, each imagining on its own: where they differ, the model is unsure. Of what was imagined with the actions that were taken, ${percent(covered)} of the real numbers lie inside the band.` : "";
  const over = { ended: "then it ended", "cut off": "then it was cut off", "goes on": "and it went on" }[end];
  return `From the chosen step on the model sees only what it predicts itself.${heads} The episode has ${whole(count)} step${count === 1 ? "" : "s"}, ${over}.${some}`;
}

function episodePicker(part, { page }) {
  if (!page.data.live || !offers(page.data.live, "episode") || part.episodes.length < 2) return null;
  return picker("episode", part.episodes.map((name, k) => [k, name]), part.number, (k) => {
    Object.assign(worldShown, { kind: "taken", start: null, time: null });
    page.asked.change({ episode: Number(k), actions: null });
  });
}

// Everything that depends on who acts and from which step it is imagined. put(changes) shows it anew.
function episodeFigure(here, part, data, put) {
  const { kind, start: i } = worldShown;
  const future = data.futures.get(kind);
  const [s, long] = [part.starts[i], future.steps(i)];
  const last = Math.max(part.count, s + long);  // the last observation that there is, real or imagined
  const clamp = (t) => Math.min(last, Math.max(0, t));
  let time = clamp(worldShown.time ?? s);
  let timer = null;

  const imaginedAt = (t) => (t >= s && t <= s + long ? future.observation(i, t - s) : null);
  const realAt = (t) => (t <= part.count ? data.observation(t) : null);
  const drawings = [worldDrawing(part.drawing, "the real episode"), worldDrawing(part.drawing, "what is imagined")];
  const captions = [make("figcaption"), make("figcaption")];
  const plots = episodePlots(here, part, data, { future, i, s, long, last, pointed: (step) => go(step - 1) });
  const slider = stepSlider("step", { low: 0, high: last, now: time, shown: nth }, (t) => go(t, false));
  const editor = actionEditor(here, part, () => time);
  const play = make("button", { type: "button", class: "toggle play", "data-focus": "play" });

  function go(t, slide = true) {
    time = worldShown.time = clamp(t);
    if (slide) slider.set(time);
    const [real, imagined] = [realAt(time), imaginedAt(time)];
    drawings[0]?.show(real);
    drawings[1]?.show(imagined ?? (time < s ? real : null), imagined ? real : null);
    captions[0].textContent = real ? "real" : "real: it was over before";
    captions[1].textContent = imaginedWords(time - s, long);
    for (const plot of plots) plot.mark(time + 1);
    editor?.show(time);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ play";
  }
  play.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (time >= last) go(s);
    play.textContent = "❚❚ pause";
    timer = setInterval(() => (time >= last ? stop() : go(time + 1)), FRAME);
  });
  here.over.signal.addEventListener("abort", () => clearInterval(timer));
  stop();

  const kinds = [...data.futures.keys()].map((each) => [each, KINDS[each]]);
  const controls = make("div", { class: "controls" },
    kinds.length > 1 ? choice("who acts in imagination", kinds, kind, (each) => put({ kind: each })) : null,
    stepSlider("imagined from step", { low: 0, high: part.starts.length - 1, now: i, shown: (k) => nth(part.starts[k]) },
      (k) => put({ start: k, time: part.starts[k], focus: "start" })).element);
  controls.querySelector(".world-slider input").dataset.focus = "start";
  const pictures = drawings[0] ? make("div", { class: "world-drawings" }, drawings.map((drawing, k) => (
    make("figure", { class: k ? "imagined" : "real" }, drawing.element, captions[k])))) : make("p", { class: "facts" }, captions[1]);
  go(time);
  here.paint(() => {
    for (const [drawing, ink] of [[drawings[0], inkReal], [drawings[1], inkImagined]]) drawing?.element.style.setProperty("--rod", ink());
    drawings[1]?.element.style.setProperty("--ghost", inkReal());
  });
  return [controls, pictures, make("div", { class: "controls" }, play, slider.element), editor?.element,
    make("div", { class: "world-curves" }, plots.map(({ element }) => element))];
}

function imaginedWords(after, long) {
  if (after < 0) return "still real";
  if (after > long) return "imagined: it is over";
  return after === 0 ? "imagined from here on" : `imagined, ${whole(after)} step${after === 1 ? "" : "s"} ahead`;
}

function episodePlots(here, part, data, { future, i, s, long, last, pointed }) {
  const range = (from, to, point) => Array.from({ length: Math.max(0, to - from) }, (_, k) => point(from + k));
  const changed = future.kind === "changed" ? part.changes.map(([step]) => step + 1) : [];
  const how = { reach: [1, last + 1], marks: [s + 1, ...changed], pointed };
  const before = future.kind === "changed" ? data.futures.get("taken") : null;  // what was imagined with the actions that were taken
  const lines = (real, one) => [
    ...(real ? [{ name: "real", points: real, colour: inkReal, under: true }] : []),
    ...(before ? [{ name: "as taken", points: one(before, before.steps(i)), colour: inkImagined, dashed: true }] : []),
    { name: "imagined", points: one(future, long), colour: inkImagined },
  ];
  const curves = part.numbers.map((name, d) => curvePlot(here, {
    ...how, name: shown(name),
    lines: lines(range(0, part.count + 1, (t) => [t + 1, data.observation(t)[d]]), (f, steps_) => range(0, steps_ + 1, (k) => [s + k + 1, f.at(i, k, d)])),
    bands: part.ensemble > 1 ? [{ points: range(0, long + 1, (k) => [s + k + 1, future.at(i, k, d, 1), future.at(i, k, d, 2)]), colour: inkImagined }] : [],
  }));
  const values = future.value ? [curvePlot(here, {
    ...how, name: "value",
    lines: lines(part.starts.map((each, k) => [each + 1, future.value(k, 0)]), (f, steps_) => range(0, steps_ + 1, (k) => [s + k + 1, f.value(i, k)])),
  })] : [];
  const rewards = curvePlot(here, {
    ...how, name: "reward",
    lines: lines(part.rewards.map((reward, t) => [t + 1, reward]), (f, steps_) => range(0, steps_, (k) => [s + k + 1, f.reward(i, k)])),
  });
  const goesOn = curvePlot(here, {
    ...how, name: "goes on", said: percent, least: [-0.04, 1.04],
    lines: lines(null, (f, steps_) => range(0, steps_, (k) => [s + k + 1, f.goesOn(i, k)])),
  });
  return [...curves, ...values, rewards, goesOn, ...actionPlots(here, part, { future, i, s, long, how })];
}

// What was done at each step, and what is done in imagination if that differs.
function actionPlots(here, part, { future, i, s, long, how }) {
  const { discrete, names, taken } = part.actions;
  const changed = new Map(part.changes.map(([step, ...action]) => [step, actionOf(part, action)]));
  const then = (k) => (future.action ? future.action(i, k) : changed.get(s + k) ?? taken[s + k]);
  const differs = future.kind !== "taken";
  const one = (name, number) => curvePlot(here, {
    ...how, name,
    said: (value) => (discrete ? clipped(shown(names[value] ?? "–"), 24) : three(value)),
    levels: discrete && names.length <= 6 ? names.map((each, kind) => [kind, clipped(shown(each), 24)]) : null,
    least: discrete ? [-0.3, names.length - 0.5] : [part.actions.low[number] * 1.05, part.actions.high[number] * 1.05],
    lines: [
      { name: "real", points: taken.map((action, t) => [t + 1, discrete ? action : action[number]]), colour: inkReal, dots: true, under: differs },
      ...(differs ? [{ name: "imagined", points: Array.from({ length: long }, (_, k) => [s + k + 1, discrete ? then(k) : then(k)[number]]), colour: inkImagined, dots: true }] : []),
    ],
  });
  return discrete ? [one("action", 0)] : names.map((name, number) => one(shown(name), number));
}

// An action as it is asked for -> as it is shown
function actionOf({ actions: { discrete, low, high, finest } }, asked) {
  if (discrete) return asked[0];
  return asked.map((each, k) => low[k] + ((each / finest + 1) / 2) * (high[k] - low[k]));
}

// On a served page: another action at the step that is looked at. now() is that step.
function actionEditor(here, part, now) {
  const { page } = here;
  if (!page.data.live || !offers(page.data.live, "actions")) return null;
  const { discrete, names, taken, low, high, finest } = part.actions;
  const words = make("span", {});
  const buttons = discrete ? names.map((name, kind) => make("button", {
    type: "button", class: "toggle", "data-focus": `action-${kind}`, onclick: () => change([kind], `action-${kind}`),
  }, clipped(shown(name), 40))) : [];
  const inputs = discrete ? [] : names.map((name, k) => make("input", {
    type: "range", min: -finest, max: finest, step: finest / 20, "aria-label": shown(name), "data-focus": `action-${k}`,
    onchange: () => change(inputs.map(({ value }) => Number(value)), `action-${k}`),
  }));
  const back = part.changes.length ? make("button", {
    type: "button", class: "toggle", onclick: () => ask([], "play"),
  }, `take back ${part.changes.length === 1 ? "the change" : `all ${part.changes.length} changes`}`) : null;
  const element = make("div", { class: "world-editor controls", role: "group", "aria-label": "change the action" }, words, buttons, inputs, back);

  // a change can be seen from the steps before it that are not too far away
  function seenFrom(step) {
    const fits = (i) => part.starts[i] <= step && step < part.starts[i] + part.horizon;
    if (fits(worldShown.start)) return worldShown.start;
    return Math.max(0, placeOf(part.starts, step) - (part.starts[placeOf(part.starts, step)] > step ? 1 : 0));
  }

  function change(action, focus) {
    const others = part.changes.filter(([step]) => step !== now());
    const same = discrete ? action[0] === taken[now()] : false;
    ask(same ? others : [...others, [now(), ...action]], focus);
  }

  function ask(changes, focus) {
    Object.assign(worldShown, { kind: changes.length ? "changed" : "taken", start: seenFrom(now()), focus });
    page.asked.change({ actions: changes.length ? changes.flat() : null });
  }

  return {
    element,
    show(t) {
      element.hidden = t >= part.count;
      if (element.hidden) return;
      const mine = part.changes.find(([step]) => step === t)?.slice(1);
      const action = mine ? actionOf(part, mine) : taken[t];
      words.textContent = mine ? `At step ${nth(t)}, instead of ${actionWords(part.actions, taken[t])}:` : `At step ${nth(t)} the action was ${actionWords(part.actions, taken[t])}. Try another:`;
      buttons.forEach((button, kind) => button.setAttribute("aria-pressed", String(kind === action)));
      inputs.forEach((input, k) => {
        input.value = Math.round((((action[k] - low[k]) / (high[k] - low[k])) * 2 - 1) * finest);
      });
    },
  };
}
