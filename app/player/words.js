// What the player says in words: sentences, counts, text alternatives.

import { timelineColumns } from "./layout.js";
import { HOLE, lengthOf, valueAt } from "./state.js";

export const CLASS_WORDS = {
  live: ["live", "keys and values that a running request will read"],
  reserved: ["reserved", "held and empty; its owner will fill it"],
  internal: ["wasted inside", "held to no use: reserved too much, the tail of a last block, or tokens that no later query reads"],
  rounding: ["wasted by rounding", "held only because the placement rounds up"],
  cached: ["cached", "finished keys and values that another request may find"],
  external: ["free but too scattered", "enough in total for the first in the queue, but not in one piece"],
  free: ["free", "available to anyone"],
};

const DEEDS = {
  arrive: "arrives",
  reject: "is rejected",
  admit: "is admitted",
  prefill: "has its prompt processed",
  hit: "finds its prompt in the cache",
  alloc: "gets memory",
  fork: "is forked",
  copy: "copies a shared block",
  free: "gives memory back",
  preempt: "is preempted",
  swap_out: "is swapped out",
  swap_in: "comes back from the host",
  evict: "evicts a cached block",
  move: "is moved",
  rollback: "takes tokens back",
  finish: "finishes",
};
const BY_INTEREST = [
  "reject", "preempt", "swap_out", "swap_in", "evict", "copy", "fork", "move", "rollback", "finish", "hit", "admit",
  "arrive", "alloc", "prefill", "free",
];

export const deed = (kind) => DEEDS[kind] ?? kind;
const thousands = new Intl.NumberFormat("en-US"); // made once: making it is what takes time
export const count = (value) => thousands.format(value);
export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
export const percent = (part, whole) => `${whole ? ((100 * part) / whole).toFixed(part && part < whole / 100 ? 1 : 0) : 0} %`;
export const seconds = (time) => `${time.toFixed(3)} s`;

// A sentence as it is shown: no line ends between a number and its unit.
export const unbroken = (text) => text.replace(/(?<=\d) (?=%|s\b)/g, "\u00a0");

// The most interesting event comes first, otherwise in order.
export function byInterest(said) {
  const rank = ([kind]) => BY_INTEREST.indexOf(kind);
  return said.map((item, place) => [item, place]).sort((a, b) => rank(a[0]) - rank(b[0]) || a[1] - b[1]).map(([item]) => item);
}

// "r3 is preempted: r1 needs 1 blocks, 0 free; request r3 arrived last"
export const sentence = ([kind, request, why], labels) => `${labels[request]} ${deed(kind)}: ${why}`;

// What a side's frame did, in a few words.
export function stepWords(log, frame) {
  const step = valueAt(log, "step", frame);
  const batch = valueAt(log, "batch", frame);
  if (batch) return `step ${count(step)}: ${plural(batch, "sequence")} ran ${plural(valueAt(log, "tokens", frame), "token")}`;
  if (frame === 0) return "before the first step: all memory is free";
  return `${frame === log.deltas.length - 1 ? "all done" : "nothing to do"}: nobody holds memory`;
}

// One line for a moment: the most interesting event of each side that has just moved, for the live region.
// `told`: of each side, how many events may be told; null for all.
export function headline(replay, moment, labels, letters, told = []) {
  const parts = replay.sides.flatMap((log, side) => {
    const frame = replay.clock.frames[side][moment];
    if (moment > 0 && replay.clock.frames[side][moment - 1] === frame) return [];
    const [first] = byInterest(log.said[frame].slice(0, told[side] ?? undefined));
    const name = letters.length > 1 ? `${letters[side]}, ${log.name}: ` : "";
    return [`${name}${first ? sentence(first, labels) : stepWords(log, frame)}.`];
  });
  return parts.join(" ");
}

// What the pictures are, for who sees them for the first time.
export function leadWords({ sides }) {
  if (sides.every(({ summary }) => summary.waste_percent === null)) {
    return "This is what a server's prefix cache held, by its own events. A colour is a chain of blocks, each with all that came before it; plain grey is free.";
  }
  const who = sides.length > 1
    ? "Two servers get the same requests and the same memory for their keys and values."
    : "This is a server's memory for keys and values.";
  const wasted = sides.some(({ columns }) => columns.internal || columns.rounding);
  return `${who} A colour is a request; dots are slots that it will still fill${wasted ? ", red hatching is memory held for nothing" : ""}, plain grey is free.`;
}

// The small print below the legend.
export function legendWords({ sides }) {
  const isBlocky = sides.some((log) => log.cell_slots);
  return [
    `${sides.length > 1 ? "Both sides serve the same requests and stand on one clock: at each moment you see what each has after its last finished step. " : ""}`
      + "Memory runs by address from left to right, then row by row; equal places are equal addresses. "
      + `${isBlocky ? "A thin gap ends a block. " : ""}Colour says whose slot it is (hatching from the ninth request on), texture says what for.`,
    "The strip over the memory is what one request sees: its tokens in order, block by block. The arrows are its block table. "
      + "A thick frame is what the moment's event is about, a thin one what you point at; ×3 says that a block stands in three tables.",
  ];
}

// What a bar is, where the pool is too large for its blocks to be drawn one by one; else nothing.
export function bucketWords({ bucketSlots }, { sides }) {
  const sizes = new Set(sides.map((log) => log.cell_slots).filter(Boolean));
  if (!bucketSlots || !sizes.size) return "";
  const numBlocks = [...sizes].map((size) => count(bucketSlots / size)).join(" or ");
  return `There are more blocks than room: one bar stands for ${count(bucketSlots)} slots, ${numBlocks} blocks side by side. `
    + "What they hold together is stacked in it, live lowest and free on top; a part is as high as its share.";
}

// The text alternative of a pool's picture.
export function poolWords(log, frame, state, labels) {
  const parts = Object.keys(CLASS_WORDS)
    .map((name) => [CLASS_WORDS[name][0], valueAt(log, name, frame)])
    .filter(([, slots]) => slots)
    .map(([name, slots]) => `${count(slots)} ${name} (${percent(slots, log.pool)})`);
  const largest = [...state.tables]
    .map(([sequence, cells]) => [log.owners[sequence], heldBy(state, cells)])
    .sort((a, b) => b[1] - a[1])
    .slice(0, 3)
    .map(([request, slots]) => `${labels[request]} ${count(slots)}`);
  const holders = largest.length ? ` Most is held by ${largest.join(", ")}.` : "";
  return `Memory of ${log.name}, ${plural(log.pool, "slot")}: ${parts.join(", ")}.${holders}`;
}

// The text alternative of a side's timeline. Means are those of the clock: idle time counts.
export function timelineWords({ clock: { time, frames }, sides }, side) {
  const log = sides[side];
  const names = Object.keys(CLASS_WORDS).filter((name) => log.columns[name]);
  const means = timelineColumns({ columns: log.columns, frames: frames[side], times: time, names, width: 1 });
  const share = (slots) => `${count(Math.round(slots))} (${percent(slots, log.pool)})`;
  const parts = names.map((name) =>
    `${CLASS_WORDS[name][0]} ${share(means[name][0])} on average, ${share(log.columns[name].reduce((a, b) => Math.max(a, b)))} at most`);
  const alarms = log.alarms.length ? ` Preempted or rejected at ${plural(log.alarms.length, "moment")}.` : "";
  return `${log.name} (${log.source}) from ${seconds(time[0])} to ${seconds(time.at(-1))}, of ${plural(log.pool, "slot")}: ${parts.join("; ")}.${alarms}`;
}

const heldBy = (state, cells) => cells.reduce((sum, cell) => sum + (cell === HOLE ? 0 : lengthOf(state.cells.get(cell))), 0);

// What the strip says to who cannot see it.
export function stripWords(log, state, sequence, labels) {
  if (sequence === null) return `No block table of ${log.name}: nobody holds memory.`;
  const cells = state.tables.get(sequence);
  const name = labels[log.owners[sequence]];
  if (!log.cell_slots) return `${name} holds one range that starts at slot ${count(cells[0])}.`;
  const runs = tableRuns(cells).slice(0, 12).map(([from, to, first, last]) => {
    const logical = from === to ? from : `${from} to ${to}`;
    return first === HOLE ? `${logical} given back` : `${logical} in ${from === to ? first : `${first} to ${last}`}`;
  });
  return `Block table of ${name}, logical in physical block: ${runs.join(", ")}${cells.length > 12 ? ", and so on" : ""}.`;
}

// A block table in few characters, neighbours joined: [[first logical, last logical, first cell, last cell]]; the
// cells of neighbouring holes are HOLE.
export function tableRuns(cells) {
  const runs = [];
  cells.forEach((cell, index) => {
    const last = runs.at(-1);
    if (last && last[3] === HOLE && cell === HOLE) last[1] = index;
    else if (last && last[3] !== HOLE && cell === last[3] + 1) [last[1], last[3]] = [index, cell];
    else runs.push([index, index, cell, cell]);
  });
  return runs;
}
