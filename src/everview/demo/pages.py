"""Pages that stay: one HTML file with its data inside, nothing from the network; opened by itself where one can look.

A story's page is a template with a place for JSON, and one for `differences.js`: that adds differences up when the
slider goes forward and subtracts them when it goes back, as the views did.
"""

from __future__ import annotations

import json
import os
import sys
import webbrowser
from importlib.resources import files
from pathlib import Path
from typing import Any

PLACE, SCRIPT = "/*DATA*/null", "/*DIFFERENCES*/"


def write(path: Path, package: str, contents: dict[str, Any]) -> Path:
    """Write the page of a story, `page.html` of its package with the data in it; returns its path."""
    template = files(package).joinpath("page.html").read_text(encoding="utf-8")
    script = files(__package__).joinpath("differences.js").read_text(encoding="utf-8")
    text = json.dumps(contents, separators=(",", ":")).replace("</", "<\\/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(template.replace(SCRIPT, script).replace(PLACE, text), encoding="utf-8")
    return path


def open_page(path: Path) -> bool:
    """Show a page in a browser, if there is a display and somebody at a terminal; whether that was tried with success.

    A browser in the terminal (lynx, w3m) would take the screen away from the story, and is none.
    """
    if not sys.stdout.isatty() or not has_display(dict(os.environ), sys.platform):
        return False
    try:
        return webbrowser.open(path.resolve().as_uri())
    except webbrowser.Error:
        return False


def has_display(environment: dict[str, str], platform: str) -> bool:
    """Whether windows can be opened here.

    >>> has_display({"DISPLAY": ":0"}, "linux"), has_display({}, "linux"), has_display({}, "darwin")
    (True, False, True)
    >>> has_display({"SSH_CONNECTION": "..."}, "darwin")
    False
    """
    if platform in ("darwin", "win32"):
        return "SSH_CONNECTION" not in environment
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))
