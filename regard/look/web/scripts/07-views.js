// Views register themselves by name; each becomes a tab if the page has data for it.

const views = new Map();

// title: words, or a function of the part. draw(part, place, here) fills `place` with what `part` says. `here` lasts as long as the view is open.
function view(name, title, draw) {
  views.set(name, { title, draw });
}

// What draws a part: the script of its view; a figure, which says what its tab is called, needs none of its own.
function drawerOf(part) {
  return views.get(part.view) ?? (part.tab ? views.get("figure") : null) ?? null;
}

// What an open view needs to know about the page around it: when to paint again, and when it is over.
class Here {
  constructor(page) {
    this.page = page;
    this.painters = [];
    this.over = new AbortController();
  }

  // now, when the theme changes and when the page is printed
  paint(painter) {
    this.painters.push(painter);
    painter();
  }

  repaint() {
    for (const painter of this.painters) painter();
    this.inner?.repaint();
  }

  // for what is drawn anew while the view stays open; what was there before is over
  afresh() {
    this.inner?.close();
    this.inner = new Here(this.page);
    return this.inner;
  }

  // whenever the width of an element changes, and once at the beginning
  sized(element, changed) {
    let last = -1;
    const observer = new ResizeObserver(([{ contentRect }]) => {
      if (Math.abs(contentRect.width - last) < 1) return;
      last = contentRect.width;
      changed(last);
    });
    observer.observe(element);
    this.over.signal.addEventListener("abort", () => observer.disconnect());
  }

  get closed() {
    return this.over.signal.aborted;
  }

  close() {
    this.inner?.close();
    this.over.abort();
    this.painters = [];
  }
}
