// Starts Python with what the lessons need. The page's worker does so, and the tests under node.

export const PYODIDE = "0.27.4"; // the release that the tests run

// `loadPyodide` and the folder that it came from, the bytes of pagelab.zip, and whom to tell what comes next.
// Returns run(lesson, code, label): a list of outputs, see cells.py. Throws where Python or NumPy cannot be had.
export async function startPython(loadPyodide, indexURL, archive, say) {
  say("Python is being loaded; the browser keeps it for the next time");
  const python = await loadPyodide({ indexURL });
  say("NumPy is being loaded");
  const missing = await load(python, "numpy");
  if (missing) throw new Error(`NumPy could not be loaded from ${indexURL}: ${missing}`);
  say("matplotlib is being loaded, for the pictures");
  const hasPictures = !(await load(python, "matplotlib")); // without it, the lessons run and pictures are words
  if (hasPictures) python.runPython("import matplotlib.backends.backend_agg"); // not when the first one is awaited
  python.unpackArchive(archive, "zip", { extractDir: "/pagelab" });
  python.runPython('import sys; sys.path.insert(0, "/pagelab")');
  const cells = python.pyimport("lessons.browser.cells");
  say(hasPictures ? "Python is ready." : "Python is ready. Without matplotlib, pictures are told in words.");
  return (lesson, code, label) => JSON.parse(cells.run_json(lesson, code, label));
}

// Why a package could not be loaded; an empty text if it could.
async function load(python, name) {
  const reasons = [];
  await python.loadPackage(name, { messageCallback: () => {}, errorCallback: (text) => reasons.push(text) });
  return python.loadedPackages[name] ? "" : reasons.join(" ") || "it is not part of this Pyodide";
}
