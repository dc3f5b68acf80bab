// Pools too large for their blocks to be drawn one by one: a bar stands for several neighbours.

import { PARTS } from "./state.js";

// What the blocks of slots [start, end) hold together: [{name, owner, slots}, ...], classes in the order of
// `PARTS`, in each the owner of most slots first. What is left of `end - start` is free.
export function bucketParts(log, state, start, end) {
  const sums = new Map(PARTS.map((name) => [name, new Map()])); // class -> owner -> slots
  for (let cell = start / log.cell_slots; cell * log.cell_slots < end; cell++) {
    const content = state.cells.get(cell);
    if (!content) continue;
    for (const [name, own] of sums) {
      if (content[name]) own.set(content.owner, (own.get(content.owner) ?? 0) + content[name]);
    }
  }
  return [...sums].flatMap(([name, own]) =>
    [...own].sort((a, b) => b[1] - a[1]).map(([owner, slots]) => ({ name, owner, slots })));
}
