// One side of the replay: its queues, its memory with the block table over it, its ledger in numbers.

import { badge } from "./badge.js";
import { fillOf, fitCanvas } from "./colors.js";
import { Details } from "./details.js";
import { arrange, make, say, Store } from "./dom.js";
import { Stage } from "./stage.js";
import { advance, classAt, HOLE, lengthOf, QUEUES, valueAt } from "./state.js";
import { byInterest, CLASS_WORDS, count, percent, plural, poolWords, stripWords } from "./words.js";

const CHIPS_SHOWN = 24; // more do not fit on a line
const HINT = "Point at a block or a table to follow it, or walk there with Tab and the arrow keys; click or Enter keeps a request in focus.";
const QUEUE_WORDS = {
  waiting: "arrived, holds no memory yet",
  running: "holds memory and computes",
  swapped: "moved to host memory",
};

export class Side {
  // `host` is the player: labels, focus, chips, and what to do when one is pointed at or pinned.
  constructor(log, letter, host) {
    this.log = log;
    this.host = host;
    this.state = null;
    this.pointed = null; // {cell, sequence, index, slot}: what the pointer is on
    this.marked = []; // cells that a line of text is about
    this.details = new Details(log, letter, host);
    this.stage = new Stage(log, host.labels, {
      onPoint: (place) => this.onPoint(place),
      onPin: () => this.pointed && host.focus.pin(this.pointed.request),
    });
    this.readout = make("p", { class: "readout", "aria-live": "polite" }, HINT);
    this.ledger = make("ul", { class: "ledger", "aria-label": `Ledger of ${log.name} now` });
    this.queues = make("dl", { class: "queues" });
    this.tableName = make("p", { class: "table-name" });
    const { waste_percent: waste } = log.summary;
    this.picture = make(
      "section", { class: "side", "aria-label": `Side ${letter}: ${log.name}` },
      make("h2", {}, make("span", { class: "letter" }, letter), log.name,
        badge(log.source),
        waste === null ? null : make("span", { class: "figure", title: "of the memory it takes, over the whole run" }, make("b", {}, `${waste.toFixed(1)} %`), " wasted overall")),
      make("p", { class: "about" }, `${log.about}; ${plural(log.pool, "slot")}; ${log.times}`),
      this.queues, this.tableName, this.stage.element, this.readout, this.ledger,
    );
    this.buildQueues();
  }

  resize(layout, style) {
    this.style = style;
    this.buildLedger();
    this.stage.resize(layout, style);
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
    if (isPartial && this.isStranded === wasStranded) this.stage.painter.paintCells(state, changed);
    else this.paintAll();
  }

  paintAll() {
    this.stage.painter.paintAll(this.state, { focus: this.host.focus.pinned, isStranded: this.isStranded });
  }

  // The table in the spotlight, its arrows, and outlines. At rest the moment's own event chooses, so that the
  // same moment always gives the same picture.
  paintLinks() {
    const { log, state, host, stage } = this;
    const said = host.head.isPlaying ? [] : byInterest(this.saidNow());
    const sequence = this.spotlight(said);
    const fresh = this.marked.length ? this.marked : said.flatMap(([, , , cells = []]) => cells);
    const marked = new Set();
    for (const request of host.focus.requests) {
      for (const one of log.sequencesOf[request]) for (const cell of state.tables.get(one) ?? []) marked.add(cell);
    }
    if (this.pointed && !marked.size) marked.add(this.pointed.cell);
    const pointed = this.pointed?.sequence === sequence ? this.pointed?.index ?? null : null;
    stage.paintLinks(state, { sequence, marked, fresh, pointed });
    say(this.tableName, this.tableTitle(sequence));
    if (!host.head.isPlaying) stage.describe(poolWords(log, state.frame, state, host.labels), stripWords(log, state, sequence, host.labels));
  }

  saidNow() {
    return this.log.said[this.state.frame].slice(0, this.host.numTold(this.log) ?? undefined);
  }

  spotlight(said) {
    const { log, state, host } = this;
    const holds = (one) => (state.tables.get(one)?.length ?? 0) > 0;
    if (this.pointed && holds(this.pointed.sequence)) return this.pointed.sequence;
    const candidates = [...host.focus.requests, ...said.map(([, request]) => request), ...state.running];
    for (const request of candidates) {
      const found = log.sequencesOf[request].find(holds);
      if (found !== undefined) return found;
    }
    return null;
  }

  tableTitle(sequence) {
    if (sequence === null) return "No block table: nobody holds memory.";
    const { log, state, host } = this;
    const cells = state.tables.get(sequence);
    const name = host.nameOf(sequence);
    const stored = count(state.stored.get(sequence) ?? 0);
    if (!log.cell_slots) return `What ${name} sees: tokens 0 to ${stored} and its reservation, in one piece`;
    return `What ${name} sees: ${stored} tokens in ${plural(cells.length, "logical block")}; arrows show where they lie`;
  }

  // Everything in words, for the state that is shown. `isNew`: this side moved at this moment.
  tell(isNew) {
    const { log, state, host } = this;
    for (const { name, share, slots, item } of this.counts) {
      const value = valueAt(log, name, state.frame);
      say(share, percent(value, log.pool));
      say(slots, count(value));
      item.classList.toggle("none", !value);
    }
    this.tellQueues();
    this.details.tell(state, isNew, host.numTold(log));
    this.readout.setAttribute("aria-live", host.head.isPlaying ? "off" : "polite");
    if (this.place) this.onPoint(this.place);
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

  buildQueues() {
    const names = QUEUES.filter((name) => name !== "swapped" || this.log.columns.swapped);
    this.queueRows = names.map((name) => {
      const row = { name, size: make("b"), list: make("dd"), rest: make("span"), nobody: make("span", { class: "quiet" }, "nobody") };
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

  // The pointer is at `place`: {slot} of the pool, {index, offset} of the strip, or null.
  onPoint(place) {
    this.place = place;
    const found = place && ("slot" in place ? this.atSlot(place.slot) : this.atBox(place));
    this.pointed = found?.sequence === undefined ? null : found;
    say(this.readout, found ? found.text : HINT);
    this.details.point(found?.cell === undefined ? [] : [found.cell]);
    this.host.focus.hover(found?.holders ?? []);
  }

  atBox({ index, offset }) {
    const box = this.stage.boxes[index];
    if (box?.cell === HOLE) return { text: `Logical block ${index}: given back, no later query reads its tokens.` };
    return box && this.atSlot(box.cell * (this.log.cell_slots || 1) + offset);
  }

  // What the slot holds: {text}, and where somebody holds it {cell, sequence, index, request, holders}.
  atSlot(slot) {
    const { log, state, host } = this;
    if (slot === null) return null;
    const place = log.cell_slots
      ? `Block ${count(Math.floor(slot / log.cell_slots))}, slot ${slot % log.cell_slots} of ${log.cell_slots}`
      : `Slot ${count(slot)}`;
    const found = this.stage.found(state, slot);
    if (!found) return { text: `${place}: ${this.isStranded ? CLASS_WORDS.external[0] : "free"}.` };
    const offset = slot - found.start;
    const name = classAt(found.content, offset);
    const meaning = `${CLASS_WORDS[name][0]}: ${CLASS_WORDS[name][1]}`;
    const sequences = this.holdersOf(found);
    if (!sequences.length) return { text: `${place}: ${meaning}.` };
    const sequence = sequences.includes(this.pointed?.sequence) ? this.pointed.sequence : sequences[0];
    const index = state.tables.get(sequence).indexOf(found.cell);
    const token = index * log.cell_slots + offset;
    const holder = host.nameOf(sequence);
    const whose = name === "live" ? `token ${count(token + 1)} of ${holder}` : `held by ${holder}`;
    const logical = log.cell_slots ? `, its logical block ${index}` : "";
    const shared = found.content.refs > 1 ? `, shared by ${found.content.refs} block tables` : "";
    const holders = [...new Set(sequences.map((one) => log.owners[one]))];
    const text = `${place}: ${whose}${logical}${shared}; ${meaning}.`;
    return { text, cell: found.cell, sequence, index, request: log.owners[sequence], holders };
  }

  // The sequences in whose tables a cell stands.
  holdersOf({ cell, content }) {
    const { log, state } = this;
    if (content.owner < 0) return [];
    const candidates = content.refs > 1 ? [...state.tables.keys()] : log.sequencesOf[content.owner];
    return candidates.filter((one) => state.tables.get(one)?.includes(cell));
  }

  // Outlines the cells that a line of text is about, and shows where they stand in the table.
  mark(cells) {
    this.marked = cells;
    const [cell] = cells;
    const content = cell === undefined ? null : this.state.cells.get(cell);
    const [sequence] = content ? this.holdersOf({ cell, content }) : [];
    if (sequence === undefined) {
      if (!this.place) this.pointed = null;
    } else {
      const index = this.state.tables.get(sequence).indexOf(cell);
      this.pointed = { cell, sequence, index, request: this.log.owners[sequence] };
    }
    this.paintLinks();
  }
}

// A small sample of a class's look.
export function swatch(style, name) {
  const canvas = make("canvas", { class: "swatch", "aria-hidden": "true" });
  canvas.style.width = "22px";
  const ctx = fitCanvas(canvas, 22, 12, style);
  ctx.fillStyle = fillOf(ctx, style, name, null);
  ctx.fillRect(0, 0, 22, 12);
  return canvas;
}
