"""The replay player for every host: small ES modules, joined into one text without a build step.

`player.js` exports `mount(element, replay, {onStep, moment})`; a host is a few lines around it.
"""

import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

# each needs only those before it
MODULES = ("state.js", "layout.js", "dom.js", "words.js", "paint.js", "panel.js", "player.js")
_HERE = Path(__file__).parent
_IMPORT = re.compile(r"^import\s*\{[^}]*\}\s*from\s*\"\./[\w.]+\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=function|class|const)", re.MULTILINE)


@cache
def player_js() -> str:
    """All modules as one script text that defines `mount`."""
    sources = ((_HERE / name).read_text(encoding="utf-8") for name in MODULES)
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", source)) for source in sources)


@cache
def player_css() -> str:
    """The style sheet; every rule is about `.pagelab` and below."""
    return (_HERE / "player.css").read_text(encoding="utf-8")


def embed_html(payload: dict[str, Any]) -> str:
    """A fragment for any HTML page: the player with its replay, in a shadow root of its own."""
    data = json.dumps(payload, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        '<div class="pagelab-replay"></div>\n'
        '<script type="module">\n'
        f"{player_js()}\n"
        f"const replay = {data};\n"
        f"const css = {json.dumps(player_css())};\n"
        f"{(_HERE / 'embed.js').read_text(encoding='utf-8')}"
        "</script>\n"
    )


def standalone_html(payload: dict[str, Any]) -> str:
    """One self-contained page that works offline. A `#step=N` at the end of its address opens it there."""
    title = escape(f"PageLab replay: {payload['trace']['name']}")
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n"
        '<link rel="icon" href="data:,">\n'
        "<style>:root { color-scheme: light dark }"
        " body { max-width: 1400px; margin: 24px auto; padding: 0 16px }"
        " @media (prefers-color-scheme: dark) { body { background: #0e1117 } }</style>\n"
        "</head>\n<body>\n<main>\n"
        f"{embed_html(payload)}</main>\n</body>\n</html>\n"
    )
