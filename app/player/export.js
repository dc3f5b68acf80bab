// What is shown, as files: numbers, events, a Chrome trace, a picture, a page. The first four only compute.

import { make } from "./dom.js";
import { applyDelta, CLASSES, emptyState, QUEUES, valueAt } from "./state.js";

const CSV = ["step", "pool", ...CLASSES, ...["running", "waiting", "swapped"]];
const MICROSECONDS = 1e6;

// The first moment of every frame of one side: [[frame, time in seconds], ...].
export function framesOf(replay, side) {
  const shown = replay.clock.frames[side];
  const first = (moment) => moment === 0 || shown[moment] !== shown[moment - 1];
  return shown.flatMap((frame, moment) => (first(moment) ? [[frame, replay.clock.time[moment]]] : []));
}

// One row for each step of each side, as `pagelab simulate --series` has them; before it, which side that is
// and whether it was simulated or measured.
export function csvOf(replay) {
  const rows = [["side", "source", "step", "time", ...CSV.slice(1)].join(",")];
  replay.sides.forEach((log, side) => {
    for (const [frame, time] of framesOf(replay, side)) {
      if (!valueAt(log, "batch", frame)) continue;
      const values = CSV.map((name) => (name === "pool" ? log.pool : valueAt(log, name, frame)));
      rows.push([JSON.stringify(log.name), log.source, values[0], time, ...values.slice(1)].join(","));
    }
  });
  return rows.join("\n") + "\n";
}

// One line for each event that is told and each step: what, when, to whom, and why.
export function linesOf(replay) {
  const lines = [];
  replay.sides.forEach((log, side) => {
    const which = { side: log.name, source: log.source };
    for (const [frame, time] of framesOf(replay, side)) {
      const step = valueAt(log, "step", frame);
      for (const [kind, request, why, cells] of log.said[frame]) {
        lines.push({ ...which, kind, step, time, request: replay.requests[request][0], cells, why });
      }
      if (!valueAt(log, "batch", frame)) continue;
      const ledger = Object.fromEntries(CLASSES.map((name) => [name, valueAt(log, name, frame)]));
      lines.push({ ...which, kind: "step", step, time, ledger: { pool: log.pool, ...ledger } });
    }
  });
  return lines.map((line) => JSON.stringify(line)).join("\n") + "\n";
}

// For Perfetto: a process a side, a thread a request with the spans of its queues, events as instants, and the
// ledger as counters. Times are those of the pictures: the ends of steps.
export function chromeTraceOf(replay) {
  const events = [];
  replay.sides.forEach((log, side) => {
    const pid = side + 1;
    const name = (what, tid, text) => events.push({ name: what, ph: "M", ts: 0, pid, tid, args: { name: text } });
    name("process_name", 0, `${log.name} (${log.source})`);
    replay.requests.forEach(([id], request) => name("thread_name", request + 1, id));
    const open = new Map(); // request -> [queue, since]
    const state = emptyState();
    for (const [frame, time] of framesOf(replay, side)) {
      const ts = time * MICROSECONDS;
      applyDelta(state, log.deltas[frame], { ...log, owners: replay.sequences });
      const now = new Map(QUEUES.flatMap((queue) => state[queue].map((request) => [request, queue])));
      for (const [request, [queue, since]] of open) {
        if (now.get(request) === queue) continue;
        events.push({ name: queue, cat: "request", ph: "X", ts: since, dur: ts - since, pid, tid: request + 1 });
        open.delete(request);
      }
      for (const [request, queue] of now) if (!open.has(request)) open.set(request, [queue, ts]);
      for (const [kind, request, why] of log.said[frame]) {
        events.push({ name: kind, ph: "i", s: "t", ts, pid, tid: request + 1, args: { why } });
      }
      const ledger = Object.fromEntries(CLASSES.map((part) => [part, valueAt(log, part, frame)]));
      events.push({ name: "ledger", ph: "C", ts, pid, tid: 0, args: ledger });
    }
  });
  return JSON.stringify({ displayTimeUnit: "ms", traceEvents: events });
}

// The page that Python writes (app/player/__init__.py), for this replay: PAGE has holes for itself and for it.
export function pageOf(replay, page) {
  const json = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");
  const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;" };
  const title = replay.trace.name.replace(/[&<>"']/g, (sign) => escapes[sign]);
  return page.replaceAll(/@@(TITLE|PAGE|REPLAY)@@/g, (_, hole) =>
    hole === "TITLE" ? title : json(hole === "PAGE" ? page : replay));
}

// The memory of all sides at this moment as one picture, with the verdict above.
export function pictureOf(player) {
  const { replay, panels, screen: { style, width, isWide } } = player;
  const ratio = style.pixelRatio;
  const stages = panels.map(({ stage }) => stage);
  const [gap, top] = [24, 96];
  const stageHeight = Math.max(...stages.map(({ links }) => links.height / ratio));
  const canvas = make("canvas");
  const columns = isWide ? 2 : 1;
  canvas.width = (width + 2 * gap) * ratio;
  canvas.height = (top + Math.ceil(stages.length / columns) * (stageHeight + 56) + gap) * ratio;
  const ctx = canvas.getContext("2d");
  ctx.scale(ratio, ratio);
  ctx.fillStyle = style.paper;
  ctx.fillRect(0, 0, width + 2 * gap, canvas.height / ratio);
  ctx.fillStyle = style.ink;
  ctx.font = `600 18px ${style.font}`;
  ctx.fillText(replay.verdict, gap, 36, width);
  ctx.font = `14px ${style.font}`;
  ctx.fillText(`${replay.trace.name}, ${player.controls.clock.textContent}`, gap, 62, width);
  stages.forEach(({ links, strip, pool }, side) => {
    const x = gap + (side % columns) * (width - links.width / ratio);
    const y = top + Math.floor(side / columns) * (stageHeight + 56);
    ctx.font = `600 15px ${style.font}`;
    ctx.fillStyle = style.ink;
    ctx.fillText(`${replay.sides[side].name} (${replay.sides[side].source})`, x, y + 12);
    const draw = (source, offset) => ctx.drawImage(source, x, y + 24 + offset, source.width / ratio, source.height / ratio);
    draw(strip, 0);
    draw(pool, (links.height - pool.height) / ratio);
    draw(links, 0);
  });
  return canvas;
}

// Hands a file to the reader.
export function save(name, type, content) {
  const link = make("a", { download: name, href: URL.createObjectURL(new Blob([content], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
