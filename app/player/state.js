// What holds at a frame: a fold over display deltas (app/deltas.py says what is in them). Knows no policy.
//
//   cells    Map: cell -> {owner, refs, live, reserved, internal, rounding, cached}, slots in that order;
//            the owner is a request, or -1 of a cached cell; refs is in how many tables it stands
//            runs: where some of its tokens are read no more, [[class, slots], ...] as they lie in it
//   tables   Map: sequence -> [cell, ...] by logical position; HOLE where a block was given back
//   stored, emitted   Map: sequence -> tokens
//   waiting, running, swapped   [request, ...] in the scheduler's order

export const KEYFRAME_FRAMES = 64;
export const HOLE = -1;
export const QUEUES = ["waiting", "running", "swapped"];
export const HELD = ["live", "reserved", "internal", "rounding"];
export const PARTS = [...HELD, "cached"]; // of a cell, in the order in which its slots lie
export const CLASSES = [...PARTS, "external", "free"]; // of a pool

export function emptyState() {
  return {
    frame: -1,
    cells: new Map(),
    tables: new Map(),
    stored: new Map(),
    emitted: new Map(),
    waiting: [],
    running: [],
    swapped: [],
  };
}

// The state at `frame` of one side's log, the same whatever was looked at before.
export function stateAt(log, frame) {
  const keyframe = Math.floor(frame / KEYFRAME_FRAMES);
  const state = emptyState();
  applyDelta(state, log.keyframes[keyframe], log);
  for (let next = keyframe * KEYFRAME_FRAMES + 1; next <= frame; next++) {
    applyDelta(state, log.deltas[next], log);
  }
  state.frame = frame;
  return state;
}

// The state at `frame`, folded on from `state` where that is a little behind: then `isPartial`, and `onCell`
// has heard of every cell that changed. Otherwise anything may have changed.
export function advance(log, state, frame, onCell) {
  const distance = state ? frame - state.frame : -1;
  if (distance < 0 || distance > KEYFRAME_FRAMES) return { state: stateAt(log, frame), isPartial: false };
  for (let next = state.frame + 1; next <= frame; next++) {
    applyDelta(state, log.deltas[next], log, onCell);
  }
  state.frame = frame;
  return { state, isPartial: true };
}

// Changes `state` as the delta says. The log gives the size of a cell and each sequence's request. `onCell(cell, length)` hears of every cell whose picture changed.
export function applyDelta(state, delta, { cell_slots: cellSlots, owners }, onCell = () => {}) {
  const remove = (cell) => {
    const content = state.cells.get(cell);
    if (!content) return;
    onCell(cell, lengthOf(content));
    state.cells.delete(cell);
  };
  for (const sequence of delta.drop ?? []) {
    state.tables.get(sequence).forEach(remove);
    state.tables.delete(sequence);
  }
  for (const sequence of delta.unmap ?? []) state.tables.delete(sequence);
  (delta.free ?? []).forEach(remove);
  for (const sequence of delta.leave ?? []) {
    state.stored.delete(sequence);
    state.emitted.delete(sequence);
  }
  const map = delta.map ?? [];
  for (let at = 0; at < map.length; at += 2 + map[at + 1]) {
    state.tables.set(map[at], map.slice(at + 2, at + 2 + map[at + 1]));
  }
  const hold = delta.hold ?? [];
  for (let at = 0; at < hold.length; ) {
    const [sequence, live, reserved, internal, rounding, count] = hold.slice(at, at + 6);
    const owner = owners[sequence];
    if (!state.tables.has(sequence)) state.tables.set(sequence, []);
    const table = state.tables.get(sequence);
    for (const cell of hold.slice(at + 6, at + 6 + count)) {
      table.push(cell);
      state.cells.set(cell, { owner, refs: 1, live, reserved, internal, rounding, cached: 0 });
      onCell(cell, live + reserved + internal + rounding);
    }
    at += 6 + count;
  }
  const put = delta.put ?? [];
  for (let at = 0; at < put.length; at += 8) {
    const [cell, owner, refs, live, reserved, internal, rounding, cached] = put.slice(at, at + 8);
    const content = { owner, refs, live, reserved, internal, rounding, cached };
    state.cells.set(cell, content);
    onCell(cell, lengthOf(content));
  }
  const runs = delta.runs ?? [];
  for (let at = 0; at < runs.length; at += 2 + 2 * runs[at + 1]) {
    const pairs = Array.from({ length: runs[at + 1] }, (_, pair) => runs.slice(at + 2 + 2 * pair, at + 4 + 2 * pair));
    state.cells.get(runs[at]).runs = pairs.map(([name, slots]) => [HELD[name], slots]);
  }
  const progress = delta.at ?? [];
  for (let at = 0; at < progress.length; at += 3) {
    state.stored.set(progress[at], progress[at + 1]);
    state.emitted.set(progress[at], progress[at + 2]);
  }
  for (const sequence of delta.decode ?? []) {
    const position = state.stored.get(sequence);
    const table = state.tables.get(sequence);
    const cell = table[cellSlots ? Math.floor(position / cellSlots) : 0];
    const content = state.cells.get(cell);
    content.live += 1;
    content.reserved -= 1;
    state.stored.set(sequence, position + 1);
    state.emitted.set(sequence, state.emitted.get(sequence) + 1);
    onCell(cell, lengthOf(content));
  }
  for (const name of QUEUES) {
    if (delta[name]) state[name] = editQueue(state[name], delta[name]);
  }
}

function editQueue(queue, [goes, comes]) {
  const gone = new Set(goes);
  const next = queue.filter((request) => !gone.has(request));
  for (let at = 0; at < comes.length; at += 2) next.splice(comes[at], 0, comes[at + 1]);
  return next;
}

export function lengthOf(content) {
  return content.live + content.reserved + content.internal + content.rounding + content.cached;
}

// What lies in a cell, in order: [[class, slots], ...].
export function runsOf(content) {
  return content.runs ?? PARTS.map((name) => [name, content[name]]).filter(([, slots]) => slots);
}

// How many live slots a cell begins with.
export function leadOf(content) {
  const [first] = runsOf(content);
  return first?.[0] === "live" ? first[1] : 0;
}

// What the slot at `offset` of a cell is.
export function classAt(content, offset) {
  let end = 0;
  return runsOf(content).find(([, slots]) => offset < (end += slots))[0];
}

// The cell that holds `slot`, as {cell, start, content}, or null where the slot is free.
export function cellAtSlot(log, state, slot) {
  if (log.cell_slots) {
    const cell = Math.floor(slot / log.cell_slots);
    const content = state.cells.get(cell);
    return content ? { cell, start: cell * log.cell_slots, content } : null;
  }
  for (const [start, content] of state.cells) {
    if (start <= slot && slot < start + lengthOf(content)) return { cell: start, start, content };
  }
  return null;
}

// A number of the frame: 0 where the whole column is.
export function valueAt(log, name, frame) {
  return log.columns[name]?.[frame] ?? 0;
}
