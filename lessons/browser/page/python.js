// Starts Python with what the lessons need. The page's worker does so, and the tests under node.

export const PYODIDE = "0.27.4"; // the release that the tests run

// `loadPyodide` and the folder that it came from, the bytes of pagelab.zip, and whom to tell what comes next.
// Returns run(lesson, code, label): a list of outputs, see cells.py. Throws where Python or NumPy cannot be had.
export async function startPython(loadPyodide, indexURL, archive, say) {
  say("Python is being loaded: 10 MB, once");
  const python = await loadPyodide({ indexURL });
  say("NumPy is being loaded");
  await python.loadPackage("numpy", { messageCallback: () => {} });
  if (!python.loadedPackages.numpy) throw new Error(`NumPy could not be loaded from ${indexURL}`);
  say("matplotlib is being loaded, for the pictures");
  const hasPictures = await loadMatplotlib(python);
  python.FS.writeFile("/pagelab.zip", archive);
  python.runPython('import sys; sys.path.insert(0, "/pagelab.zip")');
  const cells = python.pyimport("lessons.browser.cells");
  say(hasPictures ? "Python is ready." : "Python is ready. Without matplotlib, pictures are told in words.");
  return (lesson, code, label) => JSON.parse(cells.run_json(lesson, code, label));
}

// Where matplotlib cannot be had, the lessons run without their pictures.
async function loadMatplotlib(python) {
  const quiet = () => {};
  await python.loadPackage("matplotlib", { messageCallback: quiet, errorCallback: quiet });
  if (!python.loadedPackages.matplotlib) return false;
  python.runPython("import matplotlib.backends.backend_agg"); // now, and not while the first picture is awaited
  return true;
}
