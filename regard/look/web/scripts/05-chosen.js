// What is chosen: view, layer and head, kept in the address so that a link opens the same view. There, too, the first is 1.

const chosen = { view: null, layer: null, call: null, head: null, ...fromAddress() };

function fromAddress() {
  const found = {};
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (name === "view") found.view = value;
    else if (["layer", "call", "head"].includes(name) && /^[1-9]\d{0,5}$/.test(value)) found[name] = Number(value) - 1;
  }
  return found;
}

function choose(changes) {
  Object.assign(chosen, changes);
  const kept = Object.entries(chosen).filter(([name, value]) => value !== null && !(name === "call" && value === 0));
  try {
    history.replaceState(null, "", `#${new URLSearchParams(kept.map(([name, value]) => [name, name === "view" ? value : String(value + 1)]))}`);
  } catch {
    // a page inside another one may have no address of its own
  }
}
