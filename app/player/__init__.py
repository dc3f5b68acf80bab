"""The replay player for every host: small ES modules, joined into one text without a build step.

`player.js` exports `mount(element, replay, options)`; a host is a few lines around it: `embed.js` for web
pages, `streamlit.js`, and `widget.js` for notebooks. Each is also given `PAGE`, the text of a page with holes
for a replay, so that the player can save one by itself.
"""

import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

# each needs only those before it
MODULES = (
    "state.js", "layout.js", "bucket.js", "dom.js", "words.js", "badge.js", "colors.js", "paint.js",
    "timeline.js", "strip.js", "stage.js", "details.js", "side.js", "timebar.js", "playhead.js", "focus.js",
    "quiz.js", "export.js", "controls.js", "screen.js", "player.js",
)  # fmt: skip
_HERE = Path(__file__).parent
_IMPORT = re.compile(r"^import\s*\{[^}]*\}\s*from\s*\"\./[\w.]+\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=function|class|const)", re.MULTILINE)
_HOLE = re.compile("@@(TITLE|PAGE|REPLAY)@@")


@cache
def player_js() -> str:
    """All modules as one script text that defines `mount` and `PAGE`."""
    return f"const PAGE = {_json(_page())};\n{_modules()}"


@cache
def player_css() -> str:
    """The style sheet; every rule is about `.pagelab` and below."""
    return _read("player.css")


def embed_html(payload: dict[str, Any]) -> str:
    """A fragment for any HTML page: the player with its replay, in a shadow root of its own."""
    return _filled(_fragment(), payload)


def standalone_html(payload: dict[str, Any]) -> str:
    """One self-contained page that works offline. Its address takes `#step=N&pin=ID`, and `#predict`."""
    return _filled(_page(), payload)


@cache
def _modules() -> str:
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", _read(name))) for name in MODULES)


@cache
def _fragment() -> str:
    """The fragment with holes for the replay and for the page's own text."""
    return (
        '<div class="pagelab-replay"></div>\n'
        '<script type="module">\n'
        "const PAGE = @@PAGE@@;\n"
        f"{_modules()}\n"
        "const replay = @@REPLAY@@;\n"
        f"const css = {_json(player_css())};\n"
        f"{_read('embed.js')}"
        "</script>\n"
    )


@cache
def _page() -> str:
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>PageLab replay: @@TITLE@@</title>\n"
        '<link rel="icon" href="data:,">\n'
        "<style>:root { color-scheme: light dark }"
        " body { max-width: 1400px; margin: 24px auto; padding: 0 16px }"
        " h1 { margin: 0 0 6px; font: 600 14px/1.4 system-ui, sans-serif; color: #56606e }"
        " h1 { overflow-wrap: anywhere }"
        " @media (prefers-color-scheme: dark) { body { background: #0e1117 } h1 { color: #aab3c0 } }"
        "</style>\n</head>\n<body>\n<main>\n<h1>PageLab replay: @@TITLE@@</h1>\n"
        f"{_fragment()}</main>\n</body>\n</html>\n"
    )


def _filled(text: str, payload: dict[str, Any]) -> str:
    holes = {"TITLE": lambda: escape(payload["trace"]["name"]), "PAGE": lambda: _json(_page())}
    holes["REPLAY"] = lambda: _json(payload)
    return _HOLE.sub(lambda hole: holes[hole[1]](), text)


def _json(value: Any) -> str:
    """As a literal in a script: nothing in it ends the script."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c")


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
