// Colours and textures. What a slot is, is told twice: by colour and by texture (for the colour-blind, and in
// print). A request keeps its colour and hatch on all sides.

// Okabe & Ito, "Color Universal Design"; the last one is the ink, dark on light and light on dark.
export const OKABE_ITO = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"];
const HATCHES = ["none", "up", "down", "cross", "across", "dots"];
const TILE = 6;
const CALM = 0.84; // a request's colour is so much of its own and the rest paper: pictures are full of it

// All that painting needs to know of the theme: colours as CSS text, and caches of canvas patterns.
export function makeStyle(element) {
  const css = getComputedStyle(element);
  const value = (name) => css.getPropertyValue(name).trim();
  const given = value("--st-chart-categorical-colors").split(",").filter((text) => text.trim());
  const [ink, paper] = [value("--ink"), value("--paper")];
  return {
    ink,
    paper,
    free: value("--free"),
    line: value("--line"),
    muted: value("--muted"),
    live: value("--live"),
    waste: value("--waste"),
    wastePaper: value("--waste-paper"),
    wasteInk: value("--waste-ink"),
    cached: value("--cached"),
    mark: value("--focus"),
    colors: (given.length >= 8 ? given.slice(0, 8) : [...OKABE_ITO, ink]).map((text) => mix(text.trim(), paper, CALM)),
    font: css.fontFamily,
    pixelRatio: window.devicePixelRatio || 1,
    patterns: new Map(),
    fills: new Map(),
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
    brush.lineWidth = 1.1;
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
  const key = request === null || request < 0 ? name : `${name} ${request % LOOKS}`;
  if (!style.fills.has(key)) style.fills.set(key, makeFill(ctx, style, name, request));
  return style.fills.get(key);
}

function makeFill(ctx, style, name, request) {
  const color = request === null || request < 0 ? style.live : colorOf(style, request);
  switch (name) {
    case "live": {
      const hatch = request === null ? "none" : hatchOf(style, request);
      return hatch === "none" ? color : pattern(ctx, style, hatch, color, textOn(color) + "55");
    }
    case "reserved":
      return pattern(ctx, style, "dots", mix(color, style.paper, 0.22), color);
    case "internal":
      return pattern(ctx, style, "up", style.wastePaper, style.wasteInk);
    case "rounding":
      return pattern(ctx, style, "across", style.wastePaper, style.wasteInk);
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

// `share` of `color` on `ground`, all as #rrggbb.
function mix(color, ground, share) {
  const part = (text, at) => parseInt(text.slice(at, at + 2), 16);
  const channel = (at) => Math.round(share * part(color, at) + (1 - share) * part(ground, at));
  return `#${[1, 3, 5].map((at) => channel(at).toString(16).padStart(2, "0")).join("")}`;
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
