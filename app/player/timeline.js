// Painting the ledger over time.

import { fillOf } from "./colors.js";
import { CLASSES } from "./state.js";

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
