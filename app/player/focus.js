// Which requests are in focus: those pointed at, else the one that is pinned. Everything that shows a request
// or cells says so in `data-request` and `data-cells`; this listens for all of them. The keyboard points at what
// it is on.

const dataOf = (node, name) => node?.closest?.(`[data-${name}]`)?.dataset[name];

export class Focus {
  // `onHover()` hears of any change, `onPin()` of a change of the pin; `onCells(element, cells)` that the pointer
  // or the keyboard is on a line about cells, with none when it leaves.
  constructor(root, { onHover, onPin, onCells }) {
    Object.assign(this, { root, onHover, onPin, onCells, hovered: [], pinned: null });
    this.listen();
  }

  get requests() {
    if (this.hovered.length) return this.hovered;
    return this.pinned === null ? [] : [this.pinned];
  }

  hover(requests) {
    this.hovered = requests;
    this.show();
    this.onHover();
  }

  // Pins a request, or drops it where it is pinned.
  pin(request) {
    this.pinned = this.pinned === request ? null : request;
    this.show();
    this.onPin();
  }

  show() {
    for (const element of this.root.querySelectorAll("[data-request]")) {
      element.classList.toggle("is-focus", this.requests.includes(Number(element.dataset.request)));
    }
  }

  listen() {
    const { root } = this;
    root.addEventListener("pointerover", ({ target }) => this.enter(target));
    root.addEventListener("pointerout", ({ target, relatedTarget }) => this.leave(target, relatedTarget));
    root.addEventListener("focusin", ({ target }) => target.matches(":focus-visible") && this.enter(target));
    root.addEventListener("focusout", ({ target }) => this.leave(target, null));
    root.addEventListener("click", ({ target }) => {
      if (target.closest(".chip, .run")) this.pin(Number(dataOf(target, "request")));
    });
  }

  enter(target) {
    const [cells, request] = [dataOf(target, "cells"), dataOf(target, "request")];
    if (cells) this.onCells(target, cells.split(" ").map(Number));
    if (request !== undefined) this.hover([Number(request)]);
  }

  leave(target, relatedTarget) {
    if (dataOf(target, "cells") && dataOf(target, "cells") !== dataOf(relatedTarget, "cells")) this.onCells(target, []);
    const next = dataOf(relatedTarget, "request");
    if (dataOf(target, "request") !== undefined) this.hover(next === undefined ? [] : [Number(next)]);
  }
}
