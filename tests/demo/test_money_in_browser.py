"""The page of the story of money in a real browser: positions, the red way, what flashes, phones, dark and light."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.demo.browser import NEEDS_CHROMIUM, watch
from tests.demo.conftest import Renderer

pytestmark = NEEDS_CHROMIUM

WALK = """
const slider = document.getElementById("time"), seen = [];
const names = selector => [...document.querySelectorAll(selector)].map(e => e.dataset.account).sort();
function note() {
  seen.push({
    at: Number(slider.value), words: document.getElementById("words").textContent,
    flagged: names("#graph .account.flagged:not(.gone)"), sanctioned: names("#graph .account.sanctioned:not(.gone)"),
    fresh: names("#graph .account.new"), gone: names("#graph .account.gone"),
    way: [...document.querySelectorAll("#way button")].map(b => b.firstChild.textContent),
    red: document.querySelectorAll("#graph .edge.way").length,
    times: document.getElementById("times").firstChild.textContent,
    bars: [...document.querySelectorAll("#bars .bar div")].map(d => d.getBoundingClientRect().width),
  });
}
function move(target) { slider.value = target; slider.dispatchEvent(new Event("input")); note(); }
const last = Number(slider.max);
note();
for (let target = 0; target <= last; target++) move(target);
for (const target of [last - 1, 3, 0]) move(target);
document.getElementById("on").click(); note();
document.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"})); note();
document.querySelector('#graph .account.flagged[data-account="Victor"]').dispatchEvent(new Event("click"));
note();
report({seen, hash: location.hash});
"""

LOOK = """
const inside = e => {
  const b = e.getBoundingClientRect(), box = document.getElementById("graph").getBoundingClientRect(), slack = 1;
  const across = b.left > box.left - slack && b.right < box.right + slack;
  return across && b.top > box.top - slack && b.bottom < box.bottom + slack;
};
const overlaps = new Set(), outside = new Set(), names = new Set();
function look() {
  for (const text of document.querySelectorAll("#graph .account.minor text.name, #graph .device text")) {
    if (!inside(text)) outside.add(text.textContent);
  }
  const texts = [...document.querySelectorAll("#graph .account:not(.minor) text.name")];
  const boxes = texts.map(text => text.getBoundingClientRect());
  texts.forEach((text, i) => {
    names.add(text.textContent);
    if (!inside(text)) outside.add(text.textContent);
    for (let j = 0; j < i; j++) {
      const [x, y] = [boxes[i], boxes[j]];
      const w = Math.min(x.right, y.right) - Math.max(x.left, y.left);
      const h = Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top);
      if (w > 4 && h > 4) overlaps.add(`${text.textContent}/${texts[j].textContent}`);
    }
  });
}
const slider = document.getElementById("time");
for (slider.value = 0; ; slider.value++) {
  slider.dispatchEvent(new Event("input"));
  look();
  if (slider.value === slider.max) break;
}
report({
  wide: document.scrollingElement.scrollWidth - innerWidth, width: innerWidth,
  outside: [...outside], names: names.size, overlaps: [...overlaps],
  paper: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(document.body).color,
  clock: document.getElementById("clock").getBoundingClientRect().bottom <= innerHeight,
  buttons: [...document.querySelectorAll("#controls button")].map(b => b.getBoundingClientRect().height),
});
"""


def hops_at(data: dict[str, Any]) -> list[dict[str, int]]:
    """Who is how far from a sanctioned account, at every position."""
    total, found = Counter[tuple[str, int]](), []
    for position in data["positions"]:
        for account, hops, diff in position["reaches"]:
            total[account, hops] += diff
        found.append({account: hops for (account, hops), n in total.items() if n})
    return found


def test_the_slider_walks_through_all_positions_and_back(telling: Renderer) -> None:
    found = watch(telling.page, WALK)
    assert found["errors"] == []
    data, expected = telling.data, hops_at(telling.data)
    last = len(expected) - 1
    first_told = next(i for i, p in enumerate(data["positions"]) if p["told"])
    walked = [first_told, *range(last + 1), last - 1, 3, 0, 1, 2, 2]
    assert [seen["at"] for seen in found["seen"]] == walked
    for seen in found["seen"]:
        here = expected[seen["at"]]
        assert seen["flagged"] == sorted(name for name, hops in here.items() if hops)
        assert seen["sanctioned"] == sorted(name for name, hops in here.items() if not hops)
        for sentence, _ in data["positions"][seen["at"]]["words"]:
            assert sentence in seen["words"]
        if seen["way"]:
            assert [here[name] for name in seen["way"]] == list(range(len(seen["way"]) - 1, -1, -1))
            assert seen["red"] == len(seen["way"]) - 1
    assert found["hash"] == "#2"
    assert found["seen"][-1]["way"][0] == "Victor", "an account that is clicked is explained"


def test_what_changed_flashes_and_figures_are_to_scale(telling: Renderer) -> None:
    seen = {s["at"]: s for s in watch(telling.page, WALK)["seen"]}
    positions = telling.data["positions"]
    told = {text: i for i, p in enumerate(positions) for text, _ in p["words"]}
    merged = seen[told["Bob's card links two rings: +4 accounts."]]
    assert merged["fresh"] == ["Erin", "Frank", "Grace", "Heidi"]
    lost = seen[told["Orlov Trading is taken off the list."]]
    assert "Peggy" in lost["gone"] and "Peggy" not in lost["flagged"]
    for number, position in enumerate(positions[1:], 1):
        if position["check"]:
            took, again = position["ms"], position["check"]["ms"]
            change, scratch = seen[number]["bars"]
            whole = max(change, scratch)
            assert whole > 100
            assert change == pytest.approx(max(whole * took / max(took, again), 1.5), rel=0.05)
            assert scratch == pytest.approx(max(whole * again / max(took, again), 1.5), rel=0.05)
            if again < took:  # on a busy machine, with the little data of this telling
                assert seen[number]["times"] == "–"
            else:
                times = float(seen[number]["times"].rstrip("×").replace(",", ""))
                assert times == pytest.approx(again / took, rel=0.06)


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_it_fits_phones_and_desks(telling: Renderer, width: int) -> None:
    seen = watch(telling.page, LOOK, width=width, height=900)
    assert seen["errors"] == []
    assert abs(seen["width"] - width) < 20
    assert seen["wide"] <= 0, "nothing to scroll sideways"
    assert seen["names"] >= 20 and seen["outside"] == [] and seen["overlaps"] == []
    assert min(seen["buttons"]) >= 32, "for fingers"
    assert seen["clock"], "the slider is in sight without scrolling"


def test_it_is_dark_where_that_is_asked_for(telling: Renderer) -> None:
    def brightness(colour: str) -> int:
        return sum(int(part) for part in colour[4:-1].split(","))

    light, dark = (watch(telling.page, LOOK, dark=wanted) for wanted in (False, True))
    assert brightness(light["paper"]) > 600 > brightness(light["ink"])
    assert brightness(dark["paper"]) < 200 < 600 < brightness(dark["ink"])
