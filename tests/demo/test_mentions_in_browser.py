"""The page in a real browser: its script runs, the slider adds and subtracts differences, something is drawn.

A script is put behind the page's own that moves the slider and writes down what it sees; Chromium runs both without a
window and prints the document.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from everview.demo.mentions import page
from everview.demo.mentions.data import Mentions
from everview.demo.mentions.record import SHOWN, Act, Frame, Slide
from everview.demo.mentions.window import Window
from tests.demo.browser import NEEDS_CHROMIUM, watch

pytestmark = NEEDS_CHROMIUM

MEMBERS = [{1: 1, 2: 1}, {1: 1, 2: 1, 5: 5, 6: 5, 7: 5}, {5: 5, 6: 5}]
"""node -> component, in each frame"""

WATCH = """
const seen = [], slider = document.getElementById("time");
const texts = line => [...line.cells].map(cell => cell.textContent.trim());
const cells = id => [...document.querySelectorAll(`#${id} tr`)].map(texts);
function painted() {
  draw();
  const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.some((value, i) => i % 4 === 3 && value > 0);
}
function apart() {
  const places = nodes.map(node => place.get(node)).filter(p => Number.isFinite(p.x) && Number.isFinite(p.y));
  return nodes.length === new Set(places.map(p => `${p.x} ${p.y}`)).size;
}
function note() {
  seen.push({at: Number(slider.value), now: cells("now"), parts: cells("parts"), painted: painted(), apart: apart()});
}
note();
for (const target of [2, 1, 0, 1]) { slider.value = target; slider.dispatchEvent(new Event("input")); note(); }
document.getElementById("play").click();
setTimeout(() => {
  document.getElementById("play").click();
  report({seen, played: Number(slider.value), acts: document.getElementById("acts").textContent});
}, 1000);
"""


def frames() -> list[Frame]:
    found, before = [], set[tuple[str, tuple[Any, ...]]]()
    for number, member in enumerate(MEMBERS):
        after = {("member", row) for row in member.items()}
        for component in set(member.values()):
            part = [n for n, c in member.items() if c == component]
            after |= {("size", (component, len(part))), ("favourite", (component, "logic", len(part)))}  # type: ignore[arg-type]
            after |= {("link", (a, b)) for a in part for b in part if a != b}
        changed = [(what, 1) for what in after - before] + [(what, -1) for what in before - after]
        rows = {name: [(row, n) for (kind, row), n in changed if kind == name] for name in SHOWN}
        window = Window(24 * number, 24 * number + 168)
        found.append(Frame(Slide(window, 0.001, 3, len(changed)), rows, 1))
        before = after
    return found


def watched(folder: Path) -> dict[str, Any]:
    """Write the page, run it with the watching script, and give what that saw."""
    nobody = np.zeros(0, dtype=np.int64)
    mentions = Mentions("made up <here>", 1_700_000_000, 3600, nobody, nobody, nobody, nobody)
    act = Act("1. An act", [frame.slide for frame in frames()])
    path = page.write(folder / "page.html", mentions, "a test", [act], frames())
    return watch(path, WATCH)


def test_the_slider_goes_forwards_and_backwards(tmp_path: Path) -> None:
    found = watched(tmp_path)
    assert found["errors"] == []
    assert [seen["at"] for seen in found["seen"]] == [0, 2, 1, 0, 1]
    for seen in found["seen"]:
        member = MEMBERS[seen["at"]]
        now = dict(seen["now"])
        sizes = sorted((list(member.values()).count(c) for c in set(member.values())), reverse=True)
        assert now["people in components"] == str(len(member))
        assert now["links inside"] == str(sum(n * (n - 1) for n in sizes))
        assert seen["parts"][1:] == [[str(n), "logic", str(n)] for n in sizes]
        assert seen["painted"] and seen["apart"]
    assert found["played"] == 2  # one tick of the player
    assert "slides" in found["acts"]
