"""Compiles every Triton kernel that ships, for GPUs that are not here, and writes down what they became.

    python -m bench.compile                     all variants, all targets -> bench/results/compile.json
    python -m bench.compile --only 'decode, bf16, 128' --targets sm_90 --out -

`loads` counts load instructions from global memory by the bytes that a thread gets. `sources` is of the files
that these facts came from: where it is no longer theirs, this has to be run again.
"""

import argparse
import hashlib
import json
import os
import sys
import tokenize
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.machine import RESULTS
from bench.machine import describe as describe_machine

ROOT = Path(__file__).parents[1]
SOURCES = (*(ROOT / "engine" / "attention").glob("triton_*.py"), ROOT / "bench" / "variants.py")
BLANK = (tokenize.COMMENT, tokenize.NL)
LAYOUT = (*BLANK, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="variants whose name contains this; several: a|b")
    parser.add_argument("--targets", default="", help="sm_80,sm_90,... ; all without it")
    parser.add_argument("--exact", action="store_true", help="--only gives whole names")
    parser.add_argument("--out", default=str(RESULTS / "compile.json"), help="- for standard output")
    parser.add_argument("--names", action="store_true", help="only list the variants, as JSON")
    options = parser.parse_args(arguments)
    os.environ.pop("TRITON_INTERPRET", None)

    from bench.pretend import TARGETS
    from bench.variants import variants

    if options.names:
        print(json.dumps([variant.name for variant in variants()]))
        return
    targets = options.targets.split(",") if options.targets else list(TARGETS)
    wanted = options.only.split("|")
    chosen = [
        variant
        for variant in variants()
        if not options.only or any(_matches(variant.name, name, options.exact) for name in wanted)
    ]
    facts = {target: compile_for(target, chosen) for target in targets}
    machine = describe_machine("torch", "triton")
    document = json.dumps({"machine": machine, "sources": fingerprint(SOURCES), "targets": facts}, indent=1)
    if options.out == "-":
        print(document)
    else:
        Path(options.out).write_text(document + "\n", encoding="utf-8")


def fingerprint(files: Iterable[Path]) -> str:
    """A hash of what these files do: comments, docstrings and layout are no part of it."""
    digest = hashlib.sha256()
    for file in sorted(files):
        with tokenize.open(file) as lines:
            is_first = True  # of its statement
            for token in tokenize.generate_tokens(lines.readline):
                if token.type not in LAYOUT and not (is_first and token.type == tokenize.STRING):
                    digest.update(token.string.encode())
                if token.type not in BLANK:
                    is_first = token.type in LAYOUT
    return digest.hexdigest()


def _matches(name: str, wanted: str, is_exact: bool) -> bool:
    return name == wanted if is_exact else wanted in name


def compile_for(target: str, chosen: list[Any]) -> dict[str, Any]:
    """Variant -> kernel -> facts. What does not compile says why."""
    from bench.machine_code import describe
    from bench.pretend import TARGETS, pretend

    facts: dict[str, Any] = {}
    for variant in chosen:
        with pretend(target) as compiled:
            try:
                variant.call()
            except Exception as error:  # noqa: BLE001  (whatever a compiler throws is the finding)
                facts[variant.name] = {"error": f"{type(error).__name__}: {error}"[-2000:]}
                continue
            backend = TARGETS[target].backend
            facts[variant.name] = {name: describe(built, backend) for name, built in compiled}
        print(f"{target}  {variant.name}", file=sys.stderr)
    return facts


if __name__ == "__main__":
    main()
