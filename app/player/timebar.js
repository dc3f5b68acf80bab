// The ledgers of all sides over one time axis, with a slider and a range to loop over.

import { badge } from "./badge.js";
import { fitCanvas } from "./colors.js";
import { make } from "./dom.js";
import { momentAt, ticks, timelineColumns } from "./layout.js";
import { CLASSES } from "./state.js";
import { paintTimeline } from "./timeline.js";
import { plural, timelineWords } from "./words.js";

const LEDGER_HEIGHT = 64;
const THUMB = 16; // width of the slider's thumb: the time axis is inset by half of it

export class Timebar {
  // `onScrub(moment, isFinal)` hears where people go.
  constructor(replay, letters, onScrub) {
    this.replay = replay;
    this.times = replay.clock.time;
    this.onScrub = onScrub;
    this.slider = make("input", {
      type: "range", min: this.start, max: this.times.at(-1), step: "any", "aria-label": "Time",
    });
    this.slider.addEventListener("input", () => onScrub(momentAt(this.times, Number(this.slider.value)), false));
    this.slider.addEventListener("change", () => onScrub(momentAt(this.times, Number(this.slider.value)), true));
    this.rows = replay.sides.map((log, side) => this.buildRow(log, letters[side], timelineWords(replay, side)));
    this.axis = make("div", { class: "axis", "aria-hidden": "true" });
    const [first, ...rest] = this.rows.map(({ element }) => element);
    this.element = make("section", { class: "time", "aria-label": "Ledger over time" }, first, this.slider, ...rest, this.axis);
  }

  get start() {
    return this.times[0];
  }

  get span() {
    return this.times.at(-1) - this.start || 1;
  }

  share(moment) {
    return (this.times[moment] - this.start) / this.span;
  }

  buildRow(log, letter, words) {
    const canvas = make("canvas", { role: "img", "aria-label": words });
    const [cursor, loop] = [make("div", { class: "cursor" }), make("div", { class: "loop", hidden: true })];
    const frame = make("div", { class: "frame" }, canvas, loop, cursor);
    const seek = (event, isFinal) => {
      const { left, width } = canvas.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - left) / width));
      this.onScrub(momentAt(this.times, this.start + share * this.span), isFinal);
    };
    frame.addEventListener("pointerdown", (event) => {
      frame.setPointerCapture(event.pointerId);
      seek(event, false);
    });
    frame.addEventListener("pointermove", (event) => event.buttons && seek(event, false));
    frame.addEventListener("pointerup", (event) => seek(event, true));
    const title = make("p", { class: "title" }, make("span", { class: "letter" }, letter),
      `${log.name}: all ${plural(log.pool, "slot")} over time`, badge(log.source),
      log.alarms.length ? make("small", {}, " ▾ preempted or rejected") : null);
    return { canvas, cursor, loop, element: make("div", { class: "timeline" }, title, frame) };
  }

  resize(width, style) {
    const inner = width - THUMB;
    this.replay.sides.forEach((log, side) => {
      const ctx = fitCanvas(this.rows[side].canvas, inner, LEDGER_HEIGHT, style);
      const frames = this.replay.clock.frames[side];
      const means = timelineColumns({ columns: log.columns, frames, times: this.times, names: CLASSES, width: inner });
      paintTimeline(ctx, style, { means, pool: log.pool, width: inner, height: LEDGER_HEIGHT });
      this.paintAlarms(ctx, style, new Set(log.alarms), frames, inner);
    });
    const marks = ticks(this.start, this.times.at(-1), Math.max(2, Math.floor(inner / 90)));
    this.axis.replaceChildren(...marks.map((time) => {
      const mark = make("span", {}, `${time} s`);
      if ((time - this.start) / this.span > 0.97) mark.classList.add("last");
      mark.style.left = `${THUMB / 2 + ((time - this.start) / this.span) * inner}px`;
      return mark;
    }));
  }

  paintAlarms(ctx, style, alarms, frames, width) {
    ctx.fillStyle = style.ink;
    let before = -Infinity;
    frames.forEach((frame, moment) => {
      const x = this.share(moment) * width;
      if (moment === 0 || frame === frames[moment - 1] || !alarms.has(frame) || x - before < 2) return;
      before = x;
      ctx.beginPath();
      ctx.moveTo(x - 3, 0);
      ctx.lineTo(x + 3, 0);
      ctx.lineTo(x, 6);
      ctx.fill();
    });
  }

  show(moment) {
    const place = `${this.share(moment) * 100}%`;
    for (const { cursor } of this.rows) cursor.style.left = place;
    this.slider.value = this.times[moment];
  }

  // `range` is [first, last] moment or null.
  showLoop(range) {
    for (const { loop } of this.rows) {
      loop.hidden = !range;
      if (!range) continue;
      loop.style.left = `${this.share(range[0]) * 100}%`;
      loop.style.width = `${(this.share(range[1]) - this.share(range[0])) * 100}%`;
    }
  }
}
