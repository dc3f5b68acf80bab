// Painting the physical pool on its canvas.

import { bucketParts } from "./bucket.js";
import { colorOf, fillOf, fitCanvas, hatchOf, textOn } from "./colors.js";
import { bucketAround, rangeRects } from "./layout.js";
import { leadOf, lengthOf, runsOf } from "./state.js";

const LABEL_WIDTH = 80; // pixels; a longer label is not drawn
const FAINT = 0.22; // how strong the others are while one request is pinned

// One side's pool. `focus` is the request to stress, or null. `isStranded`: free memory that
// the head of the queue cannot use.
export class PoolPainter {
  constructor(canvas, layout, log, style, labels) {
    this.layout = layout;
    this.log = log;
    this.style = style;
    this.labels = labels; // of requests, by number
    this.painted = new Map(); // cell -> its content as last painted
    this.isBucketed = layout.bucketSlots > 0 && log.cell_slots > 0; // ranges are long enough as they are
    this.ctx = fitCanvas(canvas, layout.width, layout.height, style);
    this.hasGrid = log.cell_slots > 0 && layout.slotWidth * log.cell_slots >= 4;
  }

  paintAll(state, { focus = null, isStranded = false } = {}) {
    this.focus = focus;
    this.freeFill = fillOf(this.ctx, this.style, isStranded ? "external" : "free", null);
    this.ctx.clearRect(0, 0, this.layout.width, this.layout.height);
    if (this.isBucketed) {
      for (let slot = 0; slot < this.log.pool; ) {
        const { end } = bucketAround(this.layout, slot);
        this.paintBucket(state, slot);
        slot = end;
      }
      return;
    }
    this.painted.clear();
    this.fillRange(0, this.log.pool, this.freeFill, false);
    if (this.hasGrid) this.paintGrid();
    for (const cell of state.cells.keys()) this.paintCell(state, cell);
  }

  // Repaints `cells`, a Map of cell -> length: all whose content has changed since the last picture.
  paintCells(state, cells) {
    if (this.isBucketed) {
      const starts = [...cells.keys()].map((cell) => bucketAround(this.layout, cell * this.log.cell_slots).start);
      for (const start of new Set(starts)) this.paintBucket(state, start);
      return;
    }
    for (const [cell, length] of cells) {
      if (state.cells.has(cell)) continue;
      this.fillRange(cell * (this.log.cell_slots || 1), length, this.freeFill, this.hasGrid);
      this.painted.delete(cell);
    }
    // Held cells come last: one may lie where another has just been freed.
    for (const cell of cells.keys()) if (state.cells.has(cell)) this.paintCell(state, cell);
  }

  paintCell(state, cell) {
    const content = state.cells.get(cell);
    const first = cell * (this.log.cell_slots || 1);
    const before = this.painted.get(cell);
    this.painted.set(cell, { ...content });
    const isFaint = this.focus !== null && this.focus !== content.owner;
    const grown = before && before.owner === content.owner ? content.live - before.live : -1;
    const isOnlyGrown =
      grown >= 0 && !content.runs && !before.runs && before.reserved - grown === content.reserved && before.internal === content.internal &&
      before.rounding === content.rounding && before.refs === content.refs && before.cached === content.cached;
    // The label stands in the first row; past it, more live slots change nothing else.
    const isPastLabel = before && before.live * this.layout.slotWidth > LABEL_WIDTH;
    if (isOnlyGrown && isPastLabel && !isFaint && lengthOf(content) > content.live) {
      const from = Math.max(0, before.live - 1);
      const fill = fillOf(this.ctx, this.style, "live", content.owner);
      this.fillRange(first + from, content.live - from, fill, false);
      return;
    }
    const end = first + lengthOf(content);
    if (isFaint) {
      this.fillRange(first, lengthOf(content), this.style.paper, true);
      this.ctx.globalAlpha = FAINT;
    }
    let slot = first;
    for (const [name, length] of runsOf(content)) {
      this.fillRange(slot, length, fillOf(this.ctx, this.style, name, content.owner), slot + length === end);
      slot += length;
    }
    this.ctx.globalAlpha = 1;
    if (!isFaint) this.paintLabel(content, first, end);
  }

  // Slots [start, start + length) in one fill; the last pixel stays free as a border where `hasEdge`.
  fillRange(start, length, fill, hasEdge) {
    const { ctx, layout } = this;
    const edge = hasEdge && layout.slotWidth * (this.log.cell_slots || 64) >= 4 ? 1 : 0;
    ctx.fillStyle = fill;
    const rects = rangeRects(layout, start, length);
    rects.forEach(({ x, y, w, h }, index) => {
      const left = Math.round(x);
      const right = Math.round(x + w) - (index === rects.length - 1 ? edge : 0);
      if (right > left) ctx.fillRect(left, y, right - left, h);
    });
  }

  paintGrid() {
    const { ctx, layout, log } = this;
    ctx.fillStyle = this.style.paper;
    for (let slot = log.cell_slots; slot <= layout.perRow; slot += log.cell_slots) {
      ctx.fillRect(Math.round(slot * layout.slotWidth) - 1, 0, 1, layout.height);
    }
  }

  paintLabel(content, start, end) {
    const { ctx, layout, style } = this;
    const lead = leadOf(content);
    if (layout.rowHeight < 9 || !lead) return;
    const [room] = rangeRects(layout, start, end - start);
    const [written] = rangeRects(layout, start, lead);
    const size = Math.min(12, layout.rowHeight - 1);
    ctx.font = `600 ${size}px ${style.font}`;
    const name = this.labels[content.owner] ?? "";
    // A shared block says in how many tables it stands, if need be in place of whose it is.
    const texts = content.refs > 1 ? [`${name} ×${content.refs}`, `×${content.refs}`] : [name];
    const text = texts.find((one) => ctx.measureText(one).width + 5 <= room.w) ?? texts.at(-1);
    const width = ctx.measureText(text).width;
    const color = colorOf(style, content.owner);
    const fits = width + 4 <= written.w;
    if (content.runs && !fits) return; // the plate would hide which slots are read no more
    if (width + 5 > LABEL_WIDTH || width + 5 + (fits ? 0 : written.w) > room.w) return;
    if (fits && hatchOf(style, content.owner) !== "none") {
      ctx.fillStyle = color; // a plain plate under the text
      ctx.fillRect(Math.round(room.x), room.y, width + 5, room.h);
    } else if (!fits) {
      ctx.fillStyle = style.paper;
      ctx.fillRect(room.x + written.w, room.y, width + 4, room.h);
    }
    ctx.fillStyle = fits ? textOn(color) : style.ink;
    ctx.textBaseline = "middle";
    ctx.fillText(text, room.x + (fits ? 2.5 : written.w + 2), room.y + room.h / 2 + 0.5);
  }

  // Several blocks in a few pixels: a bar in which what they hold is stacked, each part as high as its share.
  paintBucket(state, slot) {
    const { ctx, layout, log, style } = this;
    const bucket = bucketAround(layout, slot);
    const [start, end] = [bucket.start, Math.min(bucket.end, log.pool)];
    const [{ x, y, w, h }] = rangeRects(layout, start, end - start);
    const left = Math.round(x);
    const width = Math.round(x + w) - left;
    ctx.fillStyle = this.freeFill;
    ctx.fillRect(left, y, width, h);
    let bottom = y + h;
    for (const { name, owner, slots } of bucketParts(log, state, start, end)) {
      const height = (slots / (end - start)) * h;
      bottom -= height;
      const isFaint = this.focus !== null && this.focus !== owner;
      if (isFaint) {
        ctx.fillStyle = style.paper;
        ctx.fillRect(left, bottom, width, height);
        ctx.globalAlpha = FAINT;
      }
      ctx.fillStyle = fillOf(ctx, style, name, owner);
      ctx.fillRect(left, bottom, width, height);
      ctx.globalAlpha = 1;
    }
  }
}
