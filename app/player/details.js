// What happened on one side and why, and the block tables of who runs, in words.

import { badge } from "./badge.js";
import { arrange, make, say, Store } from "./dom.js";
import { HELD, HOLE, lengthOf, valueAt } from "./state.js";
import { byInterest, count, deed, plural, stepWords, tableRuns } from "./words.js";

const SAID_SHOWN = 8;
const ROWS_SHOWN = 8;
const RUNS_SHOWN = 6;

export class Details {
  // `host` is the player: labels, focus, chips.
  constructor(log, letter, host) {
    this.log = log;
    this.host = host;
    this.areAllRowsShown = false;
    this.rows = new Store((sequence) => this.buildRow(sequence));
    this.plainLine = make("li", { class: "quiet" }, "Each of them stored one more token; nobody needed more memory.");
    this.nobody = make("tr", {}, make("td", { colspan: 4, class: "quiet" }, "nobody is running"));
    this.step = make("p", { class: "step" });
    this.said = make("ul", { class: "said", tabindex: 0, "aria-label": `Events of ${log.name}` });
    this.tables = make("tbody", {});
    this.more = make("button", { class: "more", type: "button", onclick: () => this.toggleRows() });
    const tableName = log.cell_slots ? "logical → physical block" : "physical slots";
    this.element = make(
      "section", { class: "side", "aria-label": `What happens in ${log.name}` },
      make("h2", {}, make("span", { class: "letter" }, letter), "What happened and why", badge(log.source)),
      this.step, this.said,
      make("h3", {}, "Block tables of the running requests"),
      make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `Block tables of ${log.name}` },
        make("table", {},
          make("thead", {}, make("tr", {},
            ...["request", "tokens", "its memory", tableName].map((text) => make("th", { scope: "col" }, text)))),
          this.tables)),
      this.more,
    );
  }

  // `isNew`: this side moved at this moment. `numTold`: how many of the events may be told, all if null.
  tell(state, isNew, numTold) {
    const { log } = this;
    const { frame } = state;
    this.state = state;
    say(this.step, stepWords(log, frame));
    this.element.classList.toggle("is-old", !isNew && valueAt(log, "batch", frame) > 0);
    const said = byInterest(log.said[frame].slice(0, numTold ?? undefined));
    const lines = said.slice(0, SAID_SHOWN).map((item) => this.saidLine(item));
    if (said.length > SAID_SHOWN) lines.push(make("li", { class: "quiet" }, `and ${said.length - SAID_SHOWN} more`));
    if (!said.length && valueAt(log, "batch", frame)) lines.push(this.plainLine);
    arrange(this.said, lines);
    this.tellTables();
  }

  saidLine([kind, request, why, cells = []]) {
    const attributes = { class: kind, "data-request": request, "data-cells": cells.length ? cells.join(" ") : null };
    return make("li", attributes, this.host.chip(request), ` ${deed(kind)}: ${why}`);
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
    const parts = HELD.map((name) => make("i", { class: this.host.fillClass(name, request) }));
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
    const sum = Object.fromEntries(HELD.map((name) => [name, 0]));
    sum.cached = 0;
    let numShared = 0;
    for (const cell of cells) {
      if (cell === HOLE) continue;
      const content = state.cells.get(cell);
      numShared += content.refs > 1;
      for (const name of HELD) sum[name] += content[name];
    }
    HELD.forEach((name, at) => {
      parts[at].style.flexGrow = sum[name];
      parts[at].hidden = !sum[name];
    });
    const [, prompt] = host.replay.requests[request];
    say(tokens, `${count(prompt)} + ${count(state.emitted.get(sequence) ?? 0)}`);
    const shared = numShared ? `, ${plural(numShared, "block")} shared` : "";
    say(held, `${count(sum.live)} live of ${count(lengthOf(sum))} held${shared}`);
    this.tellMap(map, cells, lengthOf(sum));
    row.classList.toggle("is-focus", host.focus.requests.includes(request));
    return row;
  }

  // The table in runs; each points at its blocks.
  tellMap(map, cells, held) {
    if (!this.log.cell_slots) {
      say(map, cells.length ? `${count(cells[0])} – ${count(cells[0] + held - 1)}` : "none");
      return;
    }
    const key = cells.join();
    if (map.key === key) return;
    map.key = key;
    const all = tableRuns(cells);
    const shown = all.length > RUNS_SHOWN ? [...all.slice(0, RUNS_SHOWN - 2), null, all.at(-1)] : all;
    arrange(map, shown.flatMap((run, at) => {
      if (run === null) return [" … "];
      const [from, to, first, last] = run;
      const comma = at && shown[at - 1] ? ", " : "";
      if (first === HOLE) return [`${comma}${from === to ? from : `${from}–${to}`} given back`];
      const text = from === to ? `${from} → ${first}` : `${from}–${to} → ${first}–${last}`;
      const blocks = Array.from({ length: last - first + 1 }, (_, step) => first + step).join(" ");
      return [comma, make("button", { class: "run", type: "button", "data-cells": blocks, title: "click to keep in focus" }, text)];
    }));
  }

  // Stresses the lines and runs that are about any of `cells`.
  point(cells) {
    for (const element of this.element.querySelectorAll("[data-cells]")) {
      const own = cells.length ? element.dataset.cells.split(" ").map(Number) : [];
      element.classList.toggle("is-here", own.some((cell) => cells.includes(cell)));
    }
  }

  toggleRows() {
    this.areAllRowsShown = !this.areAllRowsShown;
    this.tellTables();
  }
}
