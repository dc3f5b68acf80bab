// Runs cells in Pyodide as the page does: node pyodide.mjs SITE PYODIDE < jobs.json > outputs.json
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [site, pyodide] = process.argv.slice(2).map((folder) => `${resolve(folder)}/`);
const load = (path) => import(pathToFileURL(path).href);
const { PYODIDE, startPython } = await load(`${site}python.js`);
console.log = console.warn = console.error; // standard output is the answer's alone
const { version } = JSON.parse(await readFile(`${pyodide}package.json`, "utf-8"));
if (version !== PYODIDE) {
  console.error(`${pyodide} holds Pyodide ${version}; the page takes ${PYODIDE}: npm pack pyodide@${PYODIDE}`);
  process.exit(1);
}
const { loadPyodide } = await load(`${pyodide}pyodide.mjs`);
const archive = new Uint8Array(await readFile(`${site}pagelab.zip`)); // as the page has it, and not as a Buffer
const run = await startPython(loadPyodide, pyodide, archive, console.error);
const jobs = JSON.parse(await readFile("/dev/stdin", "utf-8"));
process.stdout.write(JSON.stringify(jobs.map(({ lesson, code, label }) => run(lesson, code, label))));
