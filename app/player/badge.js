// Badges that let a simulated and a measured run never be confused.

import { make } from "./dom.js";

const SOURCES = { measured: "measured on a real engine", simulated: "simulated" };

export const sourceWords = (source) => SOURCES[source] ?? `recorded: ${source}`;

export const badge = (source) => make("span", { class: `badge ${source}` }, sourceWords(source));
