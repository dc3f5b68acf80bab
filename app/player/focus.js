// Which requests are in focus: those pointed at, else the one that is pinned. Everything that shows a request
// or cells says so in `data-request` and `data-cells`; this listens for all of them.

const dataOf = (node, name) => node?.closest?.(`[data-${name}]`)?.dataset[name];

export class Focus {
  // `onHover()` hears of any change, `onPin()` of a change of the pin; `onCells(element, cells)` that the pointer
  // is on a line about cells, with none when it leaves.
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
    root.addEventListener("pointerover", ({ target }) => {
      const [cells, request] = [dataOf(target, "cells"), dataOf(target, "request")];
      if (cells) this.onCells(target, cells.split(" ").map(Number));
      if (request !== undefined) this.hover([Number(request)]);
    });
    root.addEventListener("pointerout", ({ target, relatedTarget }) => {
      if (dataOf(target, "cells") && dataOf(target, "cells") !== dataOf(relatedTarget, "cells")) this.onCells(target, []);
      const next = dataOf(relatedTarget, "request");
      if (dataOf(target, "request") !== undefined) this.hover(next === undefined ? [] : [Number(next)]);
    });
    root.addEventListener("focusin", ({ target }) => {
      const request = dataOf(target, "request");
      if (request !== undefined && target.matches(":focus-visible")) this.hover([Number(request)]);
    });
    root.addEventListener("focusout", ({ target }) => dataOf(target, "request") !== undefined && this.hover([]));
    root.addEventListener("click", ({ target }) => {
      if (target.closest(".chip")) this.pin(Number(dataOf(target, "request")));
    });
  }
}
