"""How well a calibration foretells a run that it never saw, by the commands that anybody would give.

    pagelab model get smollm2
    python -m bench.calibration                        # on a machine that has nothing else to do
    python -m bench.calibration --models tiny --repeats 2 --runs 1 --folder /tmp/tried

For each model `pagelab bench calibrate` times designed batches, and `pagelab compare` forecasts the trace
`demo` from what that wrote and executes it: bench/results/forecast_MODEL.json. Both several times, each
forecast from a calibration just made: a shared machine is faster or slower an hour later, which no timing
model could know. The last of them, a file that --timing takes: bench/results/calibration_MODEL.json.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from bench.machine import RESULTS, describe

SERVERS = {
    "tiny": ["--pool-tokens", "4096", "--max-len", "512", "--max-seqs", "32"],
    "smollm2-135m": ["--pool-tokens", "8192", "--max-len", "512", "--max-seqs", "16"],
}
PAGELAB = [sys.executable, "-m", "app"]
TARGETS = {"p50": 5.0, "p95": 10.0}  # percent


def server(model: str) -> list[str]:
    """The options that a calibration and its forecasts have in common."""
    return ["--model", model, "--kv-dtype", "fp32", "--allocator", "paged", *SERVERS[model]]


def calibrated(model: str, repeats: int, file: Path) -> dict[str, Any]:
    """What `pagelab bench calibrate` wrote, with its command and the machine's kind."""
    arguments = ["bench", "calibrate", *server(model), "--repeats", str(repeats)]
    subprocess.run([*PAGELAB, *arguments, "--out", str(file)], check=True)
    return {**json.loads(file.read_text(encoding="utf-8")), **of_command(arguments)}


def forecast(model: str, timing: Path) -> dict[str, Any]:
    """What one `pagelab compare` said of its forecast. Exit code 1 would say that the two sides differ.

    `calibration` is how far the fit was off on steps that it did not see.
    """
    arguments = [*PAGELAB, "compare", "demo", *server(model), "--timing", str(timing), "--json"]
    printed = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True).stdout
    calibration = json.loads(timing.read_text(encoding="utf-8"))["cross_validation"]
    return {"calibration": calibration, **json.loads(printed)["forecast"][0]}


def summary(forecasts: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each figure: its error in every run, their median, and in how many runs the target was met.

    Percent. The target of throughput is that of P50.
    """
    rows: dict[str, Any] = {}
    for name in forecasts[0]["figures"]:
        errors = [one["figures"][name]["error_percent"] for one in forecasts]
        target = TARGETS["p95" if name.endswith("p95") else "p50"]
        met = sum(abs(error) <= target for error in errors)
        rows[name] = {"errors": errors, "median": median(errors), "target": target, "runs_met": met}
    return rows


def of_command(arguments: list[str]) -> dict[str, Any]:
    """How a file came about."""
    return {"command": " ".join(["pagelab", *arguments]), "machine": machine()}


def machine() -> dict[str, Any]:
    return {**describe("torch", "numba", "numpy"), "load_average": list(os.getloadavg())}


def write(file: Path, document: dict[str, Any]) -> None:
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.calibration")
    parser.add_argument("--models", nargs="+", choices=list(SERVERS), default=list(SERVERS))
    parser.add_argument("--repeats", type=int, default=3, help="rounds of each calibration")
    parser.add_argument("--runs", type=int, default=3, help="forecasts, each after a calibration")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for model in options.models:
        name = model.partition("-")[0]
        timing = options.folder / f"calibration_{name}.json"
        forecasts: list[dict[str, Any]] = []
        for _ in range(options.runs):
            write(timing, calibrated(model, options.repeats, timing))
            forecasts.append(forecast(model, timing))
        command = ["compare", "demo", *server(model), "--timing", f"bench/results/{timing.name}"]
        made = {**of_command(command), "figures": summary(forecasts), "forecasts": forecasts}
        write(options.folder / f"forecast_{name}.json", made)
        for figure, row in made["figures"].items():
            errors = ", ".join(f"{error:+.1f}" for error in row["errors"])
            print(f"{model} {figure}: {errors} %; target {row['target']:.0f} met in {row['runs_met']}")


if __name__ == "__main__":
    main()
