// One side's memory: a block table as a strip, the pool below it, and arrows from one to the other.

import { colorOf, fillOf, fitCanvas, hatchOf, textOn } from "./colors.js";
import { make } from "./dom.js";
import { hit, rangeRects, slotAfter } from "./layout.js";
import { PoolPainter } from "./paint.js";
import { cellAtSlot, HOLE, leadOf, lengthOf, runsOf } from "./state.js";
import { arrowsOf, hitStrip, layoutStrip, STRIP_GAP, STRIP_HEIGHT } from "./strip.js";

const POOL_TOP = STRIP_HEIGHT + STRIP_GAP;
const MOST_MARKS = 400; // outlines; more say nothing
const MOST_FRESH = 40; // the same for a moment's own event
const CURSOR = 7; // pixels: the slot cursor is at least that wide
const SMALLEST_FRAME = 8; // pixels; lower rows are filled where higher ones get a frame

export class Stage {
  // `onPoint({slot} or {index, offset} or null)` hears where the pointer or the cursor of the keyboard is, `onPin()`
  // of a click or of Enter.
  constructor(log, labels, { onPoint, onPin }) {
    this.log = log;
    this.labels = labels;
    this.boxes = [];
    this.strip = make("canvas", { class: "strip", role: "img" });
    this.pool = make("canvas", { class: "memory", role: "application", "aria-roledescription": "picture", tabindex: 0 });
    this.cursor = null; // the slot where the keyboard is, while it is in the pool
    this.links = make("canvas", { class: "links", "aria-hidden": "true" });
    this.element = make("div", { class: "stage" },
      make("div", { class: "pool" }, this.strip, make("div", { class: "gap" }), this.pool), this.links);
    this.pool.addEventListener("pointermove", ({ offsetX, offsetY }) =>
      onPoint({ slot: hit(this.painter.layout, offsetX, offsetY) }));
    this.strip.addEventListener("pointermove", ({ offsetX }) => onPoint(hitStrip(this.boxes, offsetX)));
    for (const canvas of [this.pool, this.strip]) {
      canvas.addEventListener("pointerleave", () => onPoint(null));
      canvas.addEventListener("click", onPin);
    }
    this.listen(onPoint, onPin);
  }

  // The keyboard in the pool: a cursor that says what the pointer would.
  listen(onPoint, onPin) {
    const move = (slot) => {
      this.cursor = slot;
      onPoint(slot === null ? null : { slot });
    };
    const leave = () => this.pool.closest(".pagelab").focus({ preventScroll: true });
    // A pointer leaves the keys to the player, as beside the pool.
    this.pool.addEventListener("mousedown", (event) => {
      event.preventDefault();
      leave();
    });
    this.pool.addEventListener("focus", () => move(Math.min(this.lastCursor ?? 0, this.log.pool - 1)));
    this.pool.addEventListener("blur", () => {
      this.lastCursor = this.cursor;
      move(null);
    });
    this.pool.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key.startsWith("Arrow")) {
        const next = slotAfter(this.layout, this.cursor, event.key, event.shiftKey);
        move(next < this.log.pool ? next : this.cursor);
      } else if (event.key === "Enter") onPin();
      else if (event.key === "Escape") leave();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  resize(layout, style) {
    this.layout = layout;
    this.style = style;
    this.painter = new PoolPainter(this.pool, layout, this.log, style, this.labels);
    this.brush = fitCanvas(this.strip, layout.width, STRIP_HEIGHT, style);
    this.pen = fitCanvas(this.links, layout.width, POOL_TOP + layout.height, style);
    this.links.style.width = `${layout.width}px`;
    this.drawn = this.strung = null; // what the canvases show
  }

  // The strip and everything that lies over the pool. `sequence` is the table to show, or null; `marked` are
  // cells to outline, `fresh` those that an event of this moment is about; `pointed` a logical block.
  paintLinks(state, { sequence, marked, fresh, pointed }) {
    const cells = sequence === null ? [] : state.tables.get(sequence) ?? [];
    const links = [sequence, cells, [...marked], fresh, pointed, this.cursor].join("|");
    const strip = `${links} ${state.stored.get(sequence)}`;
    if (strip === this.strung) return;
    this.strung = strip;
    this.boxes = layoutStrip(this.layout, state, cells, this.log.cell_slots);
    this.paintStrip(state, sequence, pointed);
    if (links === this.drawn) return; // a token more changes the strip alone
    this.drawn = links;
    this.pen.clearRect(0, 0, this.layout.width, POOL_TOP + this.layout.height);
    for (const cell of [...marked].slice(0, MOST_MARKS)) this.outline(state, cell, 1);
    for (const cell of fresh.length > MOST_FRESH ? [] : fresh) this.outline(state, cell, 2);
    if (sequence !== null) {
      const color = colorOf(this.style, this.log.owners[sequence]);
      for (const arrow of arrowsOf(this.layout, this.boxes, this.log.cell_slots, pointed)) {
        this.drawArrow(arrow, color, pointed !== null && arrow.index !== pointed);
      }
    }
    if (this.cursor !== null) this.drawCursor();
  }

  // Where the keyboard is: a frame around its slot, or around the few pixels in which that lies.
  drawCursor() {
    const { pen, layout, style } = this;
    const [{ x, y, w, h }] = rangeRects(layout, this.cursor, 1);
    const [width, height] = [Math.max(w, CURSOR), Math.max(h, CURSOR)];
    const [left, top] = [x + (w - width) / 2, POOL_TOP + y + (h - height) / 2];
    for (const [color, line] of [[style.paper, 6], [style.mark, 3]]) {
      pen.strokeStyle = color;
      pen.lineWidth = line;
      pen.strokeRect(left, top, width, height);
    }
  }

  paintStrip(state, sequence, pointed) {
    const { brush, style, layout } = this;
    brush.clearRect(0, 0, layout.width, STRIP_HEIGHT);
    for (const { index, cell, x, w, slots } of this.boxes) {
      const content = state.cells.get(cell);
      const edge = w >= 6 ? 1.5 : 0;
      let at = x;
      if (cell === HOLE) { // nothing is there: a line where its slots were
        brush.fillStyle = style.line;
        brush.fillRect(x, STRIP_HEIGHT / 2 - 1, w - edge, 2);
        continue;
      }
      for (const [name, length] of runsOf(content)) {
        const width = (length / slots) * w;
        brush.fillStyle = fillOf(brush, style, name, this.log.owners[sequence]);
        brush.fillRect(at, 0, Math.min(width, x + w - edge - at), STRIP_HEIGHT);
        at += width;
      }
      if (index === pointed) {
        brush.strokeStyle = style.mark;
        brush.lineWidth = 3;
        brush.strokeRect(x + 1.5, 1.5, w - edge - 3, STRIP_HEIGHT - 3);
      }
      if (w >= 18 && this.log.cell_slots) this.number(index, content, sequence, x, w - edge, slots);
    }
  }

  // A logical block's number, on a plate of its ground.
  number(index, content, sequence, x, w, slots) {
    const { brush, style } = this;
    const text = String(index);
    const color = colorOf(style, this.log.owners[sequence]);
    brush.font = `600 12px ${style.font}`;
    const width = brush.measureText(text).width + 6;
    const isOnLive = (leadOf(content) / slots) * w >= width;
    if (!isOnLive || hatchOf(style, this.log.owners[sequence]) !== "none") {
      brush.fillStyle = isOnLive ? color : style.paper;
      brush.fillRect(x + 2, 8, width, 14);
    }
    brush.fillStyle = isOnLive ? textOn(color) : style.ink;
    brush.textBaseline = "middle";
    brush.fillText(text, x + 5, STRIP_HEIGHT / 2 + 0.5);
  }

  // A frame that stands out on any colour: ink, with paper inside.
  outline(state, cell, width) {
    const { pen, layout, log, style } = this;
    const content = state.cells.get(cell);
    if (!content) return;
    const rects = rangeRects(layout, cell * (log.cell_slots || 1), lengthOf(content));
    if (layout.rowHeight < SMALLEST_FRAME) {
      pen.fillStyle = style.ink;
      for (const { x, y, w, h } of rects) pen.fillRect(x, POOL_TOP + y, Math.max(w, 1), h);
      return;
    }
    for (const { x, y, w, h } of rects) {
      for (const [color, inset, line] of [[style.paper, 1.5, width + 1], [style.ink, 0, width]]) {
        pen.strokeStyle = color;
        pen.lineWidth = line;
        pen.strokeRect(x + inset, POOL_TOP + y + inset, Math.max(w - 1 - 2 * inset, 1), Math.max(h - 2 * inset, 1));
      }
    }
  }

  drawArrow({ from, to }, color, isFaint) {
    const { pen, style } = this;
    const middle = from.y + Math.max(STRIP_GAP * 0.8, (to.y - from.y) * 0.5);
    pen.globalAlpha = isFaint ? 0.25 : 1;
    for (const [ink, width] of [[style.paper, 4.5], [style.ink, 2.6], [color, 1.4]]) {
      pen.strokeStyle = pen.fillStyle = ink;
      pen.lineWidth = width;
      pen.beginPath();
      pen.moveTo(from.x, from.y);
      pen.bezierCurveTo(from.x, middle, to.x, Math.min(middle, to.y - 8), to.x, to.y);
      pen.stroke();
      pen.beginPath();
      pen.arc(to.x, to.y + 3, 1.2 + width, 0, 2 * Math.PI);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  // What is under the pointer: {cell, start, content, slot} or null where it is free or beside the pool.
  found(state, slot) {
    return slot === null || slot >= this.log.pool ? null : cellAtSlot(this.log, state, slot);
  }

  describe(pool, strip) {
    if (this.pool.getAttribute("aria-label") !== pool) this.pool.setAttribute("aria-label", pool);
    if (this.strip.getAttribute("aria-label") !== strip) this.strip.setAttribute("aria-label", strip);
  }
}
