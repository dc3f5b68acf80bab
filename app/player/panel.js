// One side of the replay: its pool, its ledger in numbers, its queues and block tables.

import { arrange, make, say, Store } from "./dom.js";
import { hit } from "./layout.js";
import { fillOf, fitCanvas, PoolPainter } from "./paint.js";
import { advance, cellAtSlot, classAt, lengthOf, QUEUES, valueAt } from "./state.js";
import {
  byInterest, CLASS_WORDS, count, deed, percent, plural, poolWords, stepWords, tableRuns,
} from "./words.js";

const SAID_SHOWN = 8;
const CHIPS_SHOWN = 16;
const ROWS_SHOWN = 8;
const RUNS_SHOWN = 6;
const PARTS = ["live", "reserved", "internal", "rounding"];
const HINT = "Point at the memory to see what a slot holds; click to keep a request in focus.";
const QUEUE_WORDS = {
  waiting: "arrived, holds no memory yet",
  running: "holds memory and computes",
  swapped: "moved to host memory",
};

export class Panel {
  // `host` is the player: labels, focus, chips, and what to do when one is pointed at or pinned.
  constructor(log, letter, host) {
    this.log = log;
    this.host = host;
    this.state = null;
    this.areAllRowsShown = false;
    this.rows = new Store((sequence) => this.buildRow(sequence));
    this.plainLine = make("li", { class: "quiet" }, "Each of them stored one more token; nobody needed more memory.");
    this.nobody = make("tr", {}, make("td", { colspan: 4, class: "quiet" }, "nobody is running"));
    this.build(letter);
    this.buildQueues();
  }

  build(letter) {
    const { log } = this;
    this.step = make("p", { class: "step" });
    this.canvas = make("canvas", { role: "img" });
    this.readout = make("p", { class: "readout" }, HINT);
    this.ledger = make("ul", { class: "ledger", "aria-label": `Ledger of ${log.name} now` });
    this.canvas.addEventListener("pointermove", (event) => this.onPoint(event));
    this.canvas.addEventListener("pointerleave", () => this.onLeave());
    this.canvas.addEventListener("click", () => this.host.onPin(this.pointed));
    const badge = log.source === "measured" ? "measured on a real engine" : "simulated";
    this.picture = make(
      "section", { class: "side", "aria-label": `Side ${letter}: ${log.name}` },
      make("h3", {}, make("span", { class: "letter" }, letter), log.name,
        make("span", { class: `badge ${log.source}` }, badge)),
      make("p", { class: "about" }, `${log.about}; ${plural(log.pool, "slot")}; times ${log.clock}`),
      make("div", { class: "pool" }, this.canvas),
      this.readout, this.ledger,
    );
    this.said = make("ul", { class: "said" });
    this.queues = make("dl", { class: "queues" });
    this.tables = make("tbody", {});
    this.more = make("button", { class: "more", type: "button", onclick: () => this.toggleRows() });
    const tableName = log.cell_slots ? "logical → physical block" : "physical slots";
    this.details = make(
      "section", { class: "side", "aria-label": `What happens in ${log.name}` },
      make("h3", {}, make("span", { class: "letter" }, letter), "What happened and why"),
      this.step, this.said,
      make("h4", {}, "Queues"), this.queues,
      make("h4", {}, "Block tables of the running requests"),
      make("div", { class: "scroll" }, make("table", {},
        make("thead", {}, make("tr", {},
          ...["request", "tokens", "its memory", tableName].map((text) => make("th", { scope: "col" }, text)))),
        this.tables)),
      this.more,
    );
  }

  resize(layout, style) {
    this.style = style;
    this.buildLedger();
    this.painter = new PoolPainter(this.canvas, layout, this.log, style, this.host.labels);
    if (this.state) this.paintAll();
  }

  // Moves the picture to `frame`; words follow with `tell`.
  show(frame) {
    if (this.state?.frame === frame) return;
    const changed = new Map();
    const wasStranded = this.isStranded;
    const { state, isPartial } = advance(this.log, this.state, frame, (cell, length) => changed.set(cell, length));
    this.state = state;
    this.isStranded = valueAt(this.log, "external", frame) > 0;
    if (isPartial && this.isStranded === wasStranded) this.painter.paintCells(state, changed);
    else this.paintAll();
  }

  paintAll() {
    this.painter.paintAll(this.state, { focus: this.host.focus, isStranded: this.isStranded });
  }

  // Everything in words, for the state that is shown. `isNew`: this side moved at this moment.
  tell(isNew, isAtRest) {
    const { log, state, host } = this;
    const { frame } = state;
    say(this.step, stepWords(log, frame));
    this.details.classList.toggle("is-old", !isNew && valueAt(log, "batch", frame) > 0);
    if (isAtRest) this.canvas.setAttribute("aria-label", poolWords(log, frame, state, host.labels));
    this.tellLedger(frame);
    const said = byInterest(log.said[frame]);
    const lines = said.slice(0, SAID_SHOWN).map((item) => this.saidLine(item));
    if (said.length > SAID_SHOWN) lines.push(make("li", { class: "quiet" }, `and ${said.length - SAID_SHOWN} more`));
    if (!said.length && valueAt(log, "batch", frame)) lines.push(this.plainLine);
    arrange(this.said, lines);
    this.tellQueues();
    this.tellTables();
    if (this.pointedSlot !== undefined) this.point(this.pointedSlot);
  }

  buildLedger() {
    const { log, style } = this;
    const names = Object.keys(CLASS_WORDS).filter((name) => name === "free" || log.columns[name]);
    this.counts = names.map((name) => {
      const [share, slots] = [make("b"), make("small")];
      const [word, meaning] = CLASS_WORDS[name];
      const item = make("li", { title: meaning }, swatch(style, name), `${word} `, share, slots);
      return { name, share, slots, item };
    });
    this.ledger.replaceChildren(...this.counts.map(({ item }) => item));
  }

  tellLedger(frame) {
    for (const { name, share, slots, item } of this.counts) {
      const value = valueAt(this.log, name, frame);
      say(share, percent(value, this.log.pool));
      say(slots, count(value));
      item.classList.toggle("none", !value);
    }
  }

  saidLine([kind, request, why]) {
    return make("li", { class: kind }, this.host.chip(request), ` ${deed(kind)}: ${why}`);
  }

  buildQueues() {
    const names = QUEUES.filter((name) => name !== "swapped" || this.log.columns.swapped);
    this.queueRows = names.map((name) => {
      const row = { name, size: make("b"), list: make("dd"), rest: make("span"), nobody: make("span", {}, "nobody") };
      row.chips = new Store((request) => this.host.chip(request));
      this.queues.append(make("dt", { title: QUEUE_WORDS[name] }, `${name} `, row.size), row.list);
      return row;
    });
  }

  tellQueues() {
    for (const { name, size, list, rest, nobody, chips } of this.queueRows) {
      const queue = this.state[name];
      say(size, count(queue.length));
      const shown = queue.slice(0, CHIPS_SHOWN).map((request) => chips.take(request));
      say(rest, ` and ${count(queue.length - shown.length)} more`);
      arrange(list, queue.length > shown.length ? [...shown, rest] : queue.length ? shown : [nobody]);
    }
  }

  tellTables() {
    const { state, log } = this;
    const sequences = state.running.flatMap((request) => log.sequencesOf[request].filter((one) => state.tables.has(one)));
    const limit = this.areAllRowsShown ? sequences.length : ROWS_SHOWN;
    const rows = sequences.slice(0, limit).map((sequence) => this.tellRow(sequence));
    arrange(this.tables, rows.length ? rows : [this.nobody]);
    const rest = sequences.length - ROWS_SHOWN;
    this.more.hidden = rest <= 0;
    say(this.more, this.areAllRowsShown ? "show fewer" : `show ${rest} more`);
  }

  buildRow(sequence) {
    const request = this.log.owners[sequence];
    const siblings = this.log.sequencesOf[request];
    const which = siblings.length > 1 ? ` /${siblings.indexOf(sequence)}` : "";
    const parts = PARTS.map((name) => make("i", { class: this.host.fillClass(name, request) }));
    const [tokens, held, map] = [make("td", { title: "prompt + emitted so far" }), make("small"), make("td", { class: "map" })];
    const row = make("tr", { "data-request": request },
      make("th", { scope: "row" }, this.host.chip(request), which), tokens,
      make("td", { class: "memory" }, make("span", { class: "bar" }, ...parts), held), map);
    return { row, parts, tokens, held, map };
  }

  tellRow(sequence) {
    const { state, host, log } = this;
    const request = log.owners[sequence];
    const { row, parts, tokens, held, map } = this.rows.take(sequence);
    const cells = state.tables.get(sequence) ?? [];
    const sum = Object.fromEntries(PARTS.map((name) => [name, 0]));
    sum.cached = 0;
    let numShared = 0;
    for (const cell of cells) {
      const content = state.cells.get(cell);
      numShared += content.refs > 1;
      for (const name of PARTS) sum[name] += content[name];
    }
    PARTS.forEach((name, at) => {
      parts[at].style.flexGrow = sum[name];
      parts[at].hidden = !sum[name];
    });
    const [, prompt] = host.requests[request];
    say(tokens, `${count(prompt)} + ${count(state.emitted.get(sequence) ?? 0)}`);
    const shared = numShared ? `, ${plural(numShared, "block")} shared` : "";
    say(held, `${count(sum.live)} live of ${count(lengthOf(sum))} held${shared}`);
    say(map, this.tableWords(cells, lengthOf(sum)));
    row.classList.toggle("is-focus", host.focus === request);
    return row;
  }

  tableWords(cells, held) {
    if (!this.log.cell_slots) return cells.length ? `${count(cells[0])} – ${count(cells[0] + held - 1)}` : "none";
    const runs = tableRuns(cells).map(([from, to, first, last]) =>
      from === to ? `${from} → ${first}` : `${from}–${to} → ${first}–${last}`);
    const more = runs.length > RUNS_SHOWN ? `, … ${runs.at(-1)}` : "";
    return runs.slice(0, more ? RUNS_SHOWN - 1 : RUNS_SHOWN).join(", ") + more;
  }

  toggleRows() {
    this.areAllRowsShown = !this.areAllRowsShown;
    this.tellTables();
  }

  onPoint(event) {
    this.point(hit(this.painter.layout, event.offsetX, event.offsetY));
  }

  onLeave() {
    this.pointedSlot = undefined;
    this.pointed = null;
    say(this.readout, HINT);
    this.host.onHover(null);
  }

  point(slot) {
    const { log, state, host } = this;
    this.pointedSlot = slot;
    const found = slot === null || slot >= log.pool ? null : cellAtSlot(log, state, slot);
    const owner = found && found.content.owner >= 0 ? found.content.owner : null;
    this.pointed = owner;
    host.onHover(this.pointed);
    if (slot === null) return;
    const place = log.cell_slots
      ? `Block ${count(Math.floor(slot / log.cell_slots))}, slot ${slot % log.cell_slots} of ${log.cell_slots}`
      : `Slot ${count(slot)}`;
    if (!found) {
      say(this.readout, `${place}: ${this.isStranded ? CLASS_WORDS.external[0] : "free"}.`);
      return;
    }
    const offset = slot - found.start;
    const name = classAt(found.content, offset);
    const meaning = `${CLASS_WORDS[name][0]}: ${CLASS_WORDS[name][1]}`;
    if (owner === null) {
      say(this.readout, `${place}: ${meaning}.`);
      return;
    }
    const holder = log.sequencesOf[owner].find((one) => state.tables.get(one)?.includes(found.cell));
    const index = state.tables.get(holder)?.indexOf(found.cell) ?? 0;
    const token = `token ${count(index * log.cell_slots + offset + 1)} of ${host.labels[owner]}`;
    const shared = found.content.refs > 1 ? `, in ${found.content.refs} block tables` : "";
    say(this.readout, `${place}: ${name === "live" ? token : `held by ${host.labels[owner]}`}${shared}, ${meaning}.`);
  }
}

// A small sample of a class's look, with several requests' colours for those that have one.
export function swatch(style, name) {
  const canvas = make("canvas", { class: "swatch", "aria-hidden": "true" });
  canvas.style.width = "22px";
  const ctx = fitCanvas(canvas, 22, 12, style);
  ctx.fillStyle = fillOf(ctx, style, name, null);
  ctx.fillRect(0, 0, 22, 12);
  return canvas;
}
