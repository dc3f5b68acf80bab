// Painting on canvases. What a slot is, is told twice: by colour and by texture (for the colour-blind, and in
// print). A request keeps its colour and hatch on all sides.

import { bucketAround, rangeRects } from "./layout.js";
import { cellAtSlot, lengthOf } from "./state.js";

// Okabe & Ito, "Color Universal Design"; the last one is the ink, dark on light and light on dark.
export const OKABE_ITO = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"];
export const CLASSES = ["live", "reserved", "internal", "rounding", "cached", "external", "free"];
const HATCHES = ["none", "up", "down", "cross", "across", "dots"];
const TILE = 6;
const LABEL_WIDTH = 80; // pixels; a longer label is not drawn
const FAINT = 0.25; // how strong the others are while one request is in focus

// All that painting needs to know of the theme: colours as CSS text, and a cache of canvas patterns.
export function makeStyle(element) {
  const css = getComputedStyle(element);
  const value = (name) => css.getPropertyValue(name).trim();
  const given = value("--st-chart-categorical-colors").split(",").filter((text) => text.trim());
  const ink = value("--ink");
  return {
    ink,
    paper: value("--paper"),
    free: value("--free"),
    line: value("--line"),
    muted: value("--muted"),
    live: value("--live"),
    waste: value("--waste"),
    wastePaper: value("--waste-paper"),
    cached: value("--cached"),
    colors: given.length >= 8 ? given.slice(0, 8).map((text) => text.trim()) : [...OKABE_ITO, ink],
    font: css.fontFamily,
    pixelRatio: window.devicePixelRatio || 1,
    patterns: new Map(),
  };
}

export const colorOf = (style, request) => style.colors[request % style.colors.length];
export const hatchOf = (style, request) => HATCHES[Math.floor(request / style.colors.length) % HATCHES.length];

// Black or white, whichever reads better on a colour given as #rrggbb.
export function textOn(color) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const channel = parseInt(color.slice(at, at + 2), 16) / 255;
    return channel <= 0.03928 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

// A repeating texture: `ground` with strokes of `ink`.
function pattern(ctx, style, kind, ground, ink) {
  const key = `${kind} ${ground} ${ink}`;
  if (!style.patterns.has(key)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = TILE * style.pixelRatio;
    const brush = tile.getContext("2d");
    brush.scale(style.pixelRatio, style.pixelRatio);
    brush.fillStyle = ground;
    brush.fillRect(0, 0, TILE, TILE);
    brush.strokeStyle = brush.fillStyle = ink;
    brush.lineWidth = 1.3;
    brush.beginPath();
    strokes(brush, kind);
    brush.stroke();
    const made = ctx.createPattern(tile, "repeat");
    made.setTransform(new DOMMatrix().scale(1 / style.pixelRatio));
    style.patterns.set(key, made);
  }
  return style.patterns.get(key);
}

function strokes(brush, kind) {
  const line = (x0, y0, x1, y1) => {
    brush.moveTo(x0, y0);
    brush.lineTo(x1, y1);
  };
  if (kind === "up" || kind === "cross") {
    line(-1, TILE + 1, TILE + 1, -1);
    line(-1, 1, 1, -1);
    line(TILE - 1, TILE + 1, TILE + 1, TILE - 1);
  }
  if (kind === "down" || kind === "cross") {
    line(-1, -1, TILE + 1, TILE + 1);
    line(TILE - 1, -1, TILE + 1, 1);
    line(-1, TILE - 1, 1, TILE + 1);
  }
  if (kind === "across") line(0, TILE / 2, TILE, TILE / 2);
  if (kind === "dots") brush.fillRect(TILE / 2 - 1, TILE / 2 - 1, 2, 2);
}

// How a ledger class looks. `request` is null where all of them are meant (timeline, legend).
export function fillOf(ctx, style, name, request) {
  const color = request === null ? style.live : colorOf(style, request);
  switch (name) {
    case "live": {
      const hatch = request === null ? "none" : hatchOf(style, request);
      return hatch === "none" ? color : pattern(ctx, style, hatch, color, textOn(color) + "90");
    }
    case "reserved":
      return pattern(ctx, style, "dots", mix(color, style.paper, 0.22), color);
    case "internal":
      return pattern(ctx, style, "up", style.wastePaper, style.waste);
    case "rounding":
      return pattern(ctx, style, "across", style.wastePaper, style.waste);
    case "external":
      return pattern(ctx, style, "dots", style.free, style.waste);
    case "cached":
      return pattern(ctx, style, "down", style.free, style.cached);
    default:
      return style.free;
  }
}

export const LOOKS = 8 * HATCHES.length; // request n looks like request n + LOOKS

// CSS rules `.fill-CLASS-N` that give elements the textures of the canvas.
export function fillRules(style) {
  const rules = [];
  for (const name of ["live", "reserved", "internal", "rounding"]) {
    for (let request = 0; request < LOOKS; request++) {
      const tile = document.createElement("canvas");
      const ctx = fitCanvas(tile, 2 * TILE, 2 * TILE, style);
      ctx.fillStyle = fillOf(ctx, style, name, request);
      ctx.fillRect(0, 0, 2 * TILE, 2 * TILE);
      const color = colorOf(style, request);
      const selector = `.pagelab .fill-${name}-${request}`;
      rules.push(`${selector} { background: url(${tile.toDataURL()}) 0 0 / ${2 * TILE}px; color: ${textOn(color)} }`);
      if (name === "live") rules.push(`${selector} > span { background: ${color} }`);
    }
  }
  return rules.join("\n");
}

function mix(color, ground, share) {
  const part = (text, at) => parseInt(text.slice(at, at + 2), 16);
  const channel = (at) => Math.round(share * part(color, at) + (1 - share) * part(ground, at));
  return `rgb(${channel(1)} ${channel(3)} ${channel(5)})`;
}

// Makes a canvas as sharp as the screen; returns its context, to be used in CSS pixels.
export function fitCanvas(canvas, width, height, style) {
  canvas.width = Math.round(width * style.pixelRatio);
  canvas.height = Math.round(height * style.pixelRatio);
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d");
  ctx.scale(style.pixelRatio, style.pixelRatio);
  return ctx;
}

// The physical pool of one side. `focus` is the request to stress, or null. `isStranded`: free memory that
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
    for (const [cell, length] of cells) {
      const start = cell * (this.log.cell_slots || 1);
      if (this.isBucketed) {
        this.paintBucket(state, start);
      } else if (!state.cells.has(cell)) {
        this.fillRange(start, length, this.freeFill, this.hasGrid);
        this.painted.delete(cell);
      }
    }
    if (this.isBucketed) return;
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
      grown >= 0 && before.reserved - grown === content.reserved && before.internal === content.internal &&
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
    for (const name of ["live", "reserved", "internal", "rounding", "cached"]) {
      const length = content[name];
      if (!length) continue;
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
    if (layout.rowHeight < 9 || !content.live) return;
    const [room] = rangeRects(layout, start, end - start);
    const [written] = rangeRects(layout, start, content.live);
    const size = Math.min(12, layout.rowHeight - 1);
    ctx.font = `600 ${size}px ${style.font}`;
    const name = this.labels[content.owner] ?? "";
    // A shared block says in how many tables it stands, if need be in place of whose it is.
    const texts = content.refs > 1 ? [`${name} ×${content.refs}`, `×${content.refs}`] : [name];
    const text = texts.find((one) => ctx.measureText(one).width + 5 <= room.w) ?? texts.at(-1);
    const width = ctx.measureText(text).width;
    const color = colorOf(style, content.owner);
    const fits = width + 4 <= written.w;
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

  // Many blocks in a few pixels: the colour of who holds most of them, as high as the live share.
  paintBucket(state, slot) {
    const { ctx, layout, log } = this;
    const { start, end } = bucketAround(layout, slot);
    const [{ x, y, w, h }] = rangeRects(layout, start, end - start);
    const held = new Map();
    let live = 0;
    let idle = 0;
    for (let at = start; at < end; ) {
      const found = cellAtSlot(log, state, at);
      if (found) {
        live += found.content.live;
        idle += log.cell_slots - found.content.live;
        held.set(found.content.owner, (held.get(found.content.owner) ?? 0) + log.cell_slots);
      }
      at += log.cell_slots;
    }
    const [owner] = [...held].sort((a, b) => b[1] - a[1])[0] ?? [null];
    const left = Math.round(x);
    const width = Math.round(x + w) - left;
    ctx.globalAlpha = 1;
    ctx.fillStyle = this.freeFill;
    ctx.fillRect(left, y, width, h);
    if (owner === null) return;
    if (this.focus !== null && !held.has(this.focus)) ctx.globalAlpha = FAINT;
    const wasted = (idle / (end - start)) * h;
    const written = (live / (end - start)) * h;
    ctx.fillStyle = this.style.waste;
    ctx.fillRect(left, y + h - written - wasted, width, wasted);
    ctx.fillStyle = colorOf(this.style, this.focus !== null && held.has(this.focus) ? this.focus : owner);
    ctx.fillRect(left, y + h - written, width, written);
    ctx.globalAlpha = 1;
  }
}

// The ledger of one side over the whole clock, classes stacked in the order of `CLASSES` from below.
export function paintTimeline(ctx, style, { means, pool, width, height }) {
  ctx.fillStyle = style.free;
  ctx.fillRect(0, 0, width, height);
  const floor = new Float64Array(width);
  for (const name of CLASSES) {
    if (name === "free" || !means[name]) continue;
    ctx.beginPath();
    ctx.moveTo(0, height);
    const top = floor.map((value, column) => value + means[name][column]);
    top.forEach((value, column) => {
      ctx.lineTo(column, height * (1 - value / pool));
      ctx.lineTo(column + 1, height * (1 - value / pool));
    });
    for (let column = width - 1; column >= 0; column--) {
      ctx.lineTo(column + 1, height * (1 - floor[column] / pool));
      ctx.lineTo(column, height * (1 - floor[column] / pool));
    }
    ctx.fillStyle = fillOf(ctx, style, name, null);
    ctx.fill();
    floor.set(top);
  }
}
