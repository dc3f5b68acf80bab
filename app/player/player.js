// The player: mount(element, replay, {onStep, moment}) draws a replay made by app/payload.py and lets people
// move through it. All state between two calls is the moment, the speed and the request in focus.

import { ICONS, icon, make, say } from "./dom.js";
import { layoutPool, momentAt, ticks, timelineColumns } from "./layout.js";
import { CLASSES, fillRules, fitCanvas, LOOKS, makeStyle, paintTimeline } from "./paint.js";
import { Panel, swatch } from "./panel.js";
import { CLASS_WORDS, count, headline, plural, seconds } from "./words.js";

const LETTERS = ["A", "B"];
const SPEEDS = [1, 2, 4, 8, 16, 32, 64, 128];
const WHOLE_RUN_S = 60; // the default speed shows the whole run in about this time
const CALM_SPEED = 2; // where people ask for reduced motion
const TELL_MS = 200; // while playing, words change this seldom
const REPORT_MS = 250;
const POOL_HEIGHT = 330;
const TIMELINE_HEIGHT = 64;
const WIDE = 760; // two columns from this width on
const COLUMN_GAP = 24;
const THUMB = 16; // width of the slider's thumb: the time axis is inset by half of it

export function mount(element, replay, options = {}) {
  const player = new Player(element, options);
  player.load(replay, options.moment);
  return player;
}

class Player {
  constructor(element, { onStep = () => {} }) {
    this.onStep = onStep;
    this.root = make("div", { class: "pagelab", tabindex: 0, role: "group", "aria-label": "Replay of KV-cache memory" });
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.root.addEventListener("transitionend", (event) => {
      if (event.target === this.root && event.propertyName === "background-color") this.resize();
    });
    this.listen();
    this.fills = make("style");
    element.append(this.root);
    this.width = 0;
    this.observer = new ResizeObserver(() => {
      if (Math.abs(this.root.clientWidth - this.width) >= 1) this.resize();
    });
    this.observer.observe(this.root);
  }

  // Shows another replay. The first opens at `moment` or where it says; a later one of the same trace keeps
  // the time that was looked at.
  load(replay, moment) {
    if (replay === this.replay || (replay.id && replay.id === this.replay?.id)) return;
    const before = this.replay;
    const time = before?.clock.time[this.moment];
    this.pause();
    this.replay = replay;
    this.times = replay.clock.time;
    this.labels = replay.requests.map(([id]) => id);
    this.requests = replay.requests;
    this.pinned = this.hovered = null;
    const letters = LETTERS.slice(0, replay.sides.length);
    this.letters = letters;
    const sequencesOf = replay.requests.map(() => []);
    replay.sequences.forEach((request, sequence) => sequencesOf[request].push(sequence));
    for (const log of replay.sides) Object.assign(log, { owners: replay.sequences, sequencesOf });
    this.panels = replay.sides.map((log, side) => new Panel(log, letters[side], this));
    this.stops = this.interestingMoments();
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.speed ??= calm ? CALM_SPEED : SPEEDS.find((speed) => speed * WHOLE_RUN_S >= this.times.length) ?? SPEEDS.at(-1);
    const isSameTrace = before?.trace.name === replay.trace.name;
    const wanted = isSameTrace ? momentAt(this.times, time) : (before ? replay.start : moment) ?? replay.start;
    this.moment = clamp(wanted, 0, this.last);
    this.build();
    this.resize();
    if (before) this.report();
  }

  get last() {
    return this.times.length - 1;
  }

  get focus() {
    return this.hovered ?? this.pinned;
  }

  stop() {
    this.pause();
    clearTimeout(this.reporting);
    this.observer.disconnect();
    this.root.remove();
  }

  // Moments at which a side comes to a frame that is worth a look.
  interestingMoments() {
    const { frames } = this.replay.clock;
    const marks = this.replay.sides.map((log) => new Set(log.marks));
    return this.times.flatMap((_, moment) => {
      const isMarked = frames.some(
        (shown, side) => marks[side].has(shown[moment]) && (moment === 0 || shown[moment - 1] !== shown[moment]),
      );
      return isMarked ? [moment] : [];
    });
  }

  // --- moving ---------------------------------------------------------------------------------------

  seek(moment, { isFinal = true } = {}) {
    this.moment = clamp(moment, 0, this.last);
    this.render();
    if (isFinal) this.report();
  }

  nextStop(direction) {
    const found = direction > 0
      ? this.stops.find((stop) => stop > this.moment)
      : this.stops.findLast((stop) => stop < this.moment);
    this.seek(found ?? (direction > 0 ? this.last : 0));
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  play() {
    if (this.moment === this.last) this.moment = 0;
    this.isPlaying = true;
    this.sinceTold = 0;
    let before = null;
    let due = 0;
    const frame = (now) => {
      if (!this.isPlaying) return;
      due += before === null ? 0 : ((now - before) / 1000) * this.speed;
      before = now;
      const whole = Math.floor(due);
      due -= whole;
      if (whole) {
        this.moment = Math.min(this.last, this.moment + whole);
        this.render(now);
      }
      if (this.moment === this.last) this.pause();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    this.tellControls();
  }

  pause() {
    if (!this.isPlaying) return;
    this.isPlaying = false;
    this.tellControls();
    this.render();
    this.report();
  }

  changeSpeed(direction) {
    this.speed = SPEEDS[clamp(SPEEDS.indexOf(this.speed) + direction, 0, SPEEDS.length - 1)];
    this.speeds.value = this.speed;
  }

  // Tells the host where we are, once people have come to rest.
  report() {
    clearTimeout(this.reporting);
    this.reporting = setTimeout(() => this.onStep(this.moment), REPORT_MS);
  }

  onKey(event) {
    const isOnControl = event.target.closest("button, select, summary") !== null;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.tagName === "SELECT" && event.key.startsWith("Arrow")) return;
    const deeds = {
      " ": isOnControl ? null : () => this.toggle(),
      ArrowLeft: () => (event.shiftKey ? this.nextStop(-1) : this.step(-1)),
      ArrowRight: () => (event.shiftKey ? this.nextStop(1) : this.step(1)),
      Home: () => this.jump(0),
      End: () => this.jump(this.last),
      "[": () => this.changeSpeed(-1),
      "]": () => this.changeSpeed(1),
      Escape: this.pinned === null ? null : () => this.onPin(this.pinned),
    };
    if (!deeds[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    deeds[event.key]();
  }

  step(direction) {
    this.pause();
    this.seek(this.moment + direction);
  }

  jump(moment) {
    this.pause();
    this.seek(moment);
  }

  // --- what panels ask of us ------------------------------------------------------------------------

  onHover(request) {
    if (request === this.hovered) return;
    this.hovered = request;
    this.showFocus();
  }

  onPin(request) {
    if (request === null || request === undefined) return;
    this.pinned = this.pinned === request ? null : request;
    this.showFocus();
  }

  showFocus() {
    for (const panel of this.panels) panel.paintAll();
    for (const element of this.root.querySelectorAll("[data-request]")) {
      element.classList.toggle("is-focus", Number(element.dataset.request) === this.focus);
    }
  }

  // A request's name in its colour and hatch. `listen` sees to pointing and clicking.
  chip(request) {
    const name = make("span", {}, this.labels[request]);
    const attributes = { type: "button", "data-request": request, title: "click to keep in focus" };
    return make("button", { ...attributes, class: `chip ${this.fillClass("live", request)}` }, name);
  }

  // The class that gives an element the look of a ledger class; `fillRules` has its rule.
  fillClass(name, request) {
    return `fill-${name}-${request % LOOKS}`;
  }

  listen() {
    const requestAt = (node) => {
      const found = node?.closest?.("[data-request]");
      return found ? Number(found.dataset.request) : null;
    };
    this.root.addEventListener("pointerover", (event) => {
      if (requestAt(event.target) !== null) this.onHover(requestAt(event.target));
    });
    this.root.addEventListener("pointerout", (event) => {
      if (requestAt(event.target) !== null) this.onHover(requestAt(event.relatedTarget));
    });
    this.root.addEventListener("click", (event) => {
      if (event.target.closest(".chip")) this.onPin(requestAt(event.target));
    });
  }

  // --- drawing --------------------------------------------------------------------------------------

  build() {
    const button = (name, keys, path, onclick) =>
      make("button", { type: "button", "aria-label": name, title: `${name} (${keys})`, onclick }, icon(path));
    this.playButton = button("Play", "Space", ICONS.play, () => this.toggle());
    this.playButton.classList.add("play");
    this.speeds = make("select", { "aria-label": "Speed", title: "Speed ([ and ])" },
      ...SPEEDS.map((speed) => make("option", { value: speed }, `${speed} moments/s`)));
    this.speeds.value = this.speed;
    this.speeds.addEventListener("change", () => (this.speed = Number(this.speeds.value)));
    this.clock = make("output", { class: "clock" });
    this.headline = make("p", { class: "headline", "aria-live": "polite" });
    this.slider = make("input", {
      type: "range", min: this.times[0], max: this.times[this.last], step: "any", "aria-label": "Time",
    });
    this.slider.addEventListener("input", () => this.scrub(Number(this.slider.value), false));
    this.slider.addEventListener("change", () => this.scrub(Number(this.slider.value), true));
    this.timelines = this.replay.sides.map((log, side) => this.buildTimeline(log, side));
    this.axis = make("div", { class: "axis", "aria-hidden": "true" });
    this.legend = make("dl", { class: "words" });
    const isBlocky = this.replay.sides.some((log) => log.cell_slots);
    this.root.replaceChildren(
      make("p", { class: "verdict" }, this.replay.verdict),
      make("div", { class: "controls", role: "toolbar", "aria-label": "Playback" },
        button("First moment", "Home", ICONS.first, () => this.jump(0)),
        button("Previous interesting event", "Shift + Left", ICONS.backToEvent, () => this.jumpStop(-1)),
        button("One moment back", "Left", ICONS.back, () => this.step(-1)),
        this.playButton,
        button("One moment on", "Right", ICONS.on, () => this.step(1)),
        button("Next interesting event", "Shift + Right", ICONS.onToEvent, () => this.jumpStop(1)),
        button("Last moment", "End", ICONS.last, () => this.jump(this.last)),
        this.speeds, this.clock),
      this.headline,
      make("div", { class: "sides pictures" }, ...this.panels.map((panel) => panel.picture)),
      make("section", { class: "time", "aria-label": "Ledger over time" },
        this.timelines[0].element, this.slider, this.timelines[1]?.element ?? null, this.axis),
      make("div", { class: "sides details" }, ...this.panels.map((panel) => panel.details)),
      make("section", { class: "legend", "aria-label": "Legend" }, make("h3", {}, "How to read this"), this.legend,
        make("p", {}, "Both sides serve the same requests and stand on one clock: at each moment you see what each has after its last finished step. ",
          "Memory runs by address from left to right, then row by row; equal places are equal addresses. ",
          isBlocky ? "A thin gap ends a block. " : "",
          "Colour says whose slot it is (hatching from the ninth request on), texture says what for.")),
      make("details", { class: "keys" }, make("summary", {}, "Keys"),
        make("p", {}, "Space plays and pauses; ← → go one moment; Shift + ← → go to an event; Home and End; [ and ] change the speed; Esc drops the focus.")),
    );
    this.tellControls();
  }

  buildTimeline(log, side) {
    const canvas = make("canvas", { "aria-hidden": "true" });
    const cursor = make("div", { class: "cursor" });
    const frame = make("div", { class: "frame" }, canvas, cursor);
    const seek = (event, isFinal) => {
      const { left, width } = canvas.getBoundingClientRect();
      const share = clamp((event.clientX - left) / width, 0, 1);
      this.scrub(this.times[0] + share * (this.times[this.last] - this.times[0]), isFinal);
    };
    frame.addEventListener("pointerdown", (event) => {
      frame.setPointerCapture(event.pointerId);
      seek(event, false);
    });
    frame.addEventListener("pointermove", (event) => event.buttons && seek(event, false));
    frame.addEventListener("pointerup", (event) => seek(event, true));
    const title = make("p", { class: "title" }, make("span", { class: "letter" }, this.letters[side]), `${log.name}: all ${plural(log.pool, "slot")} over time`,
      log.alarms.length ? make("small", {}, " ▾ preempted or rejected") : null);
    return { canvas, cursor, element: make("div", { class: "timeline" }, title, frame) };
  }

  scrub(time, isFinal) {
    if (this.isPlaying) this.pause();
    this.seek(momentAt(this.times, time), { isFinal });
  }

  jumpStop(direction) {
    this.pause();
    this.nextStop(direction);
  }

  // Measures, chooses the theme and paints everything anew.
  resize() {
    if (!this.replay) return;
    this.width = this.root.clientWidth;
    if (!this.width) return;
    this.root.dataset.theme = isDark(getComputedStyle(this.root).backgroundColor) ? "dark" : "light";
    this.style = makeStyle(this.root);
    say(this.fills, fillRules(this.style));
    this.root.append(this.fills);
    const { sides } = this.replay;
    const isWide = this.width >= WIDE && sides.length > 1;
    this.root.classList.toggle("is-wide", isWide);
    const width = Math.floor(isWide ? (this.width - COLUMN_GAP) / 2 : this.width);
    const layout = layoutPool({
      numSlots: Math.max(...sides.map((log) => log.pool)),
      cellSlots: sides.reduce((unit, log) => leastCommonMultiple(unit, log.cell_slots), 0),
      width,
      maxHeight: POOL_HEIGHT,
    });
    for (const panel of this.panels) panel.resize(layout, this.style);
    this.paintTimelines();
    this.legend.replaceChildren(...Object.keys(CLASS_WORDS)
      .filter((name) => name === "free" || sides.some((log) => log.columns[name]))
      .flatMap((name) => [
        make("dt", {}, swatch(this.style, name), ` ${CLASS_WORDS[name][0]}`), make("dd", {}, CLASS_WORDS[name][1]),
      ]));
    this.render();
  }

  paintTimelines() {
    const width = this.width - THUMB;
    const { times } = this;
    const start = times[0];
    const span = times[this.last] - start || 1;
    this.replay.sides.forEach((log, side) => {
      const ctx = fitCanvas(this.timelines[side].canvas, width, TIMELINE_HEIGHT, this.style);
      const frames = this.replay.clock.frames[side];
      const means = timelineColumns({ columns: log.columns, frames, times, names: CLASSES, width });
      paintTimeline(ctx, this.style, { means, pool: log.pool, width, height: TIMELINE_HEIGHT });
      const alarms = new Set(log.alarms);
      ctx.fillStyle = this.style.ink;
      times.forEach((time, moment) => {
        if (moment === 0 || frames[moment] === frames[moment - 1] || !alarms.has(frames[moment])) return;
        const x = ((time - start) / span) * width;
        ctx.beginPath();
        ctx.moveTo(x - 3, 0);
        ctx.lineTo(x + 3, 0);
        ctx.lineTo(x, 6);
        ctx.fill();
      });
    });
    const marks = ticks(start, times[this.last], Math.max(2, Math.floor(width / 90)));
    this.axis.replaceChildren(...marks.map((time) => {
      const mark = make("span", {}, `${time} s`);
      mark.style.left = `${THUMB / 2 + ((time - start) / span) * width}px`;
      return mark;
    }));
  }

  // Paints the moment. `now` is given while playing: words then follow less often.
  render(now = null) {
    if (!this.width) return;
    const { frames } = this.replay.clock;
    const { moment } = this;
    this.panels.forEach((panel, side) => panel.show(frames[side][moment]));
    const span = this.times[this.last] - this.times[0] || 1;
    const share = (this.times[moment] - this.times[0]) / span;
    for (const { cursor } of this.timelines) cursor.style.left = `${share * 100}%`;
    this.slider.value = this.times[moment];
    say(this.clock, `${seconds(this.times[moment])}, moment ${count(moment)} of ${count(this.last)}`);
    if (now !== null && now - this.sinceTold < TELL_MS) return;
    this.sinceTold = now ?? 0;
    this.panels.forEach((panel, side) => {
      panel.tell(moment === 0 || frames[side][moment - 1] !== frames[side][moment], now === null);
    });
    if (now !== null) return;
    this.slider.setAttribute("aria-valuetext", this.clock.textContent);
    say(this.headline, headline(this.replay, moment, this.labels, this.letters));
  }

  tellControls() {
    const name = this.isPlaying ? "Pause" : "Play";
    this.playButton.replaceChildren(icon(this.isPlaying ? ICONS.pause : ICONS.play));
    this.playButton.setAttribute("aria-label", name);
    this.playButton.title = `${name} (Space)`;
  }
}

function clamp(value, least, most) {
  return Math.min(most, Math.max(least, value));
}

function leastCommonMultiple(a, b) {
  if (!a || !b) return a || b;
  const divisor = (x, y) => (y ? divisor(y, x % y) : x);
  return (a * b) / divisor(a, b);
}

function isDark(color) {
  const [r, g, b] = color.match(/[\d.]+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b < 128;
}
