// Replays and the truth about them: from the file named by PAGELAB_GOLDEN, or made by Python on the spot.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const local = `${root}.venv/bin/python`;
const python = process.env.PYTHON ?? (existsSync(local) ? local : "python3");

function makeGolden() {
  return execFileSync(python, ["-m", "tests.app.player.golden"], { cwd: root, maxBuffer: 2 ** 27, encoding: "utf-8" });
}

const file = process.env.PAGELAB_GOLDEN;
export const CASES = JSON.parse(file ? readFileSync(file, "utf-8") : makeGolden());

for (const { replay } of CASES) for (const log of replay.sides) log.owners = replay.sequences; // as the player does

// [log, truth by step, a name] of every side of every case.
export const SIDES = CASES.flatMap(({ replay, truth }, number) =>
  replay.sides.map((log, side) => [log, truth[side], `case ${number}, ${log.name}`]),
);
