// Python lives here, so that the page answers while a cell runs, and can end one that does not stop.
import { PYODIDE, startPython } from "./python.js";

const CDN = `https://cdn.jsdelivr.net/pyodide/v${PYODIDE}/full/`;

// The folder `pyodide` beside the page, if there is one, and the public copy otherwise.
async function home() {
  const near = new URL("pyodide/", import.meta.url).href;
  const answer = await fetch(`${near}pyodide.mjs`, { method: "HEAD" });
  return answer.ok ? near : CDN;
}

async function start() {
  const [folder, archive] = await Promise.all([home(), fetch(new URL("pagelab.zip", import.meta.url))]);
  if (!archive.ok) throw new Error("pagelab.zip is not beside the page: build the folder again");
  const { loadPyodide } = await import(`${folder}pyodide.mjs`).catch(() => {
    throw new Error(`${folder} does not answer: a network is needed, or a folder pyodide beside this page`);
  });
  const bytes = new Uint8Array(await archive.arrayBuffer());
  return startPython(loadPyodide, folder, bytes, (text) => postMessage({ say: text }));
}

const starting = start();
starting.catch((error) => postMessage({ failed: error.message }));

self.onmessage = async ({ data: { id, lesson, code, label } }) => {
  const run = await starting;
  postMessage({ id, begins: true });
  postMessage({ id, outputs: run(lesson, code, label) });
};
