"""A page in a real browser: Chromium without a window runs it, and a script of ours that looks at it.

The script calls `report` with what it saw, which is written into the document; Chromium prints that at the end.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (apt-get install chromium)")

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-quic", "--allow-file-access-from-files"),
    *("--virtual-time-budget=5000", "--dump-dom"),
]

CATCH = "<script>window.problems = []; window.onerror = what => { window.problems.push(String(what)); };</script>"

REPORT = """
function report(seen) {
  const note = document.createElement("pre");
  note.id = "seen";
  note.textContent = JSON.stringify({...seen, errors: window.problems});
  document.body.append(note);
}
"""


def watch(page: Path, script: str, *, width: int = 1200, height: int = 900, dark: bool = False) -> dict[str, Any]:
    """What a script behind the page's own reports, and the errors of both. A window of Chromium's is 500 pixels wide at
    least, so a narrower page is looked at in a frame.
    """
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(prefix="everview-browser-") as folder:
        copy = Path(folder) / "page.html"
        text = page.read_text(encoding="utf-8").replace("<style>", CATCH + "<style>", 1)
        copy.write_text(text.replace("</html>", f"<script>{REPORT}{script}</script></html>"), encoding="utf-8")
        shown = copy if width >= 500 else _framed(copy, width, height)
        scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        more = [scheme, f"--window-size={width},{height}", f"--user-data-dir={folder}/profile", shown.as_uri()]
        done = subprocess.run([CHROMIUM, *FLAGS, *more], capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    return seen


def _framed(page: Path, width: int, height: int) -> Path:
    """A page around it that passes on what it reports."""
    frame = page.with_name("frame.html")
    pass_on = """
    setInterval(() => {
      const seen = frames[0].document.getElementById("seen");
      if (seen && !document.getElementById("seen")) document.body.append(seen.cloneNode(true));
    }, 50);"""
    style = f"border:0;width:{width}px;height:{height}px"
    frame.write_text(f'<body><iframe src="{page.name}" style="{style}"></iframe><script>{pass_on}</script>')
    return frame
