"""Runs the cells of a lesson as a notebook does: what is printed, shown or raised comes back in order.

An output is a dict with a `kind`:

    text       `text`
    picture    `png` (base64, or None where matplotlib is missing) and `text`, the picture in words
    page       `html`, a fragment whose scripts are to run, and `text`
    error      `name`, `text`, and `trace`, the lines of cells that led there
"""

import ast
import json
import linecache
import traceback
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

Output = dict[str, Any]
Namespace = dict[str, Any]

_lessons: dict[str, Namespace] = defaultdict(dict)  # the names that each lesson's cells have defined
_show: Callable[[Any], None] = print  # what `display` does: a cell that runs puts its own in the place


def run_json(lesson: str, code: str, label: str) -> str:
    """`run_cell` among the names of one lesson, for JavaScript: a JSON list of outputs."""
    return json.dumps(run_cell(code, label, _lessons[lesson]))


def display(value: Any) -> None:
    """Shows a value below the cell that is running; outside of cells it is printed."""
    _show(value)


def run_cell(code: str, label: str, namespace: Namespace) -> list[Output]:
    """Runs `code` and shows the value of its last expression. `label`, as "cell 3", names it in errors."""
    global _show
    outputs: list[Output] = []
    printed = StringIO()

    def add(*more: Output) -> None:
        if text := printed.getvalue():
            outputs.append({"kind": "text", "text": text})
            printed.seek(0)
            printed.truncate()
        outputs.extend(more)

    before, _show = _show, lambda value: add(_shown(value))
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            value = _execute(code, label, namespace)
            add(*([] if value is None else [_shown(value)]))
    except (Exception, SystemExit) as error:  # noqa: BLE001 a student's cell may raise anything
        add(_told(error))
    finally:
        _show = before
    return outputs


def _execute(code: str, label: str, namespace: Namespace) -> Any:
    """The value of the last expression, unless a `;` hides it; None where there is none."""
    namespace.setdefault("display", display)
    linecache.cache[label] = (len(code), None, code.splitlines(keepends=True), label)  # a trace quotes lines
    tree = ast.parse(code, label)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or code.rstrip().endswith(";"):
        exec(compile(tree, label, "exec"), namespace)
        return None
    del tree.body[-1]
    exec(compile(tree, label, "exec"), namespace)
    return eval(compile(ast.Expression(last.value), label, "eval"), namespace)


def _shown(value: Any) -> Output:
    if hasattr(value, "as_fragment"):
        return {"kind": "page", "html": value.as_fragment(), "text": repr(value)}
    if not hasattr(value, "_repr_png_"):
        return {"kind": "text", "text": f"{value!r}\n"}
    try:
        png = b64encode(value._repr_png_()).decode()
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("matplotlib"):
            raise
        png = None
    return {"kind": "picture", "png": png, "text": repr(value)}


def _told(error: BaseException) -> Output:
    """What went wrong and where; the library's own lines are left out."""
    text, trace = "\n".join([str(error), *getattr(error, "__notes__", [])]), []
    if isinstance(error, SyntaxError):
        text = error.msg
        trace = [f"{error.filename}, line {error.lineno}: {(error.text or '').strip()}"]
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith("cell "):
            trace.append(f"{frame.filename}, line {frame.lineno}: {frame.line}")
    return {"kind": "error", "name": type(error).__name__, "text": text, "trace": trace}
