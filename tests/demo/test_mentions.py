"""The story of mentions as it is run: it ends, says what it did, and its page holds what recomputation says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from everview.demo.mentions import recompute, story
from everview.demo.mentions.data import TAGS, Mentions, load
from everview.demo.mentions.story import DAY, FAST
from everview.demo.spark import place
from everview.errors import InputError

SRC = Path(__file__).resolve().parents[2] / "src"


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "everview.cli", "demo", "--story", "mentions", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONPATH": str(SRC), "COLUMNS": "200"},
    )


class Page(HTMLParser):
    """Takes the data out of the page, and notes what it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: Counter[str] = Counter()
        self.text = ""
        self._in_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._in_data = ("id", "data") in attrs
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.text += data


def made_up_file(folder: Path) -> Path:
    """Little circles in which everybody answers, so that components come and go; times out of order."""
    dice = np.random.default_rng(3)
    count, hours = 6000, FAST.slots + 30
    src = dice.integers(0, 400, count)
    dst = src // 8 * 8 + dice.integers(0, 8, count)
    lines = zip(src, dst, 1_700_000_000 + dice.integers(0, hours * 3600, count), strict=True)
    path = folder / "mentions.txt"
    path.write_text("".join(f"{a} {b} {at}\n" for a, b, at in lines))
    return path


def expected(mentions: Mentions) -> tuple[dict[int, int], set[tuple[int, int]], dict[int, tuple[str, int]]]:
    """Members, links and favourites by networkx."""
    graph = nx.DiGraph(zip(mentions.src.tolist(), mentions.dst.tolist(), strict=True))
    member = {n: min(part) for part in nx.strongly_connected_components(graph) if len(part) > 1 for n in part}
    links, uses = set(), Counter[tuple[int, str]]()
    for a, b, tag in zip(mentions.src.tolist(), mentions.dst.tolist(), mentions.tag.tolist(), strict=True):
        if a in member and member[a] == member.get(b):
            links.add((a, b))
            uses[member[a], TAGS[tag]] += 1
    favourite: dict[int, tuple[str, int]] = {}
    for (component, tag), n in sorted(uses.items(), key=lambda use: (-use[1], use[0][1])):
        favourite.setdefault(component, (tag, n))
    return member, links, favourite


def test_the_page_holds_what_recomputation_says(tmp_path: Path) -> None:
    path = made_up_file(tmp_path)
    done = demo("--fast", "--no-spark", "--data", str(path), "--keep", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    assert "tags are made up" in done.stdout
    assert "Everview's own reader" in done.stdout
    named = re.search(r"The page: (\S+)", done.stdout)
    assert named and Path(named[1]) == tmp_path / "kept" / "everview-demo.html"

    text = Path(named[1]).read_text()
    page = Page()
    page.feed(text)
    assert page.loads == [] and "http" not in text and page.tags["canvas"] == 1 and 'type="range"' in text
    data = json.loads(page.text)
    assert [act["title"][0] for act in data["acts"]] == ["1", "2", "3"] and all(act["facts"] for act in data["acts"])
    check_frames(data, load(path, FAST.slots))


def check_frames(data: dict[str, Any], mentions: Mentions) -> None:
    """Add up the differences, as the page's script does, and compare at every frame."""
    assert (data["start"], data["slotSeconds"]) == (mentions.start, 3600)
    assert len(data["frames"]) == FAST.files * FAST.per_file + 1
    contents = {name: Counter[tuple[Any, ...]]() for name in ("member", "size", "favourite", "link")}
    sizes = set()
    for frame in data["frames"]:
        assert frame["last"] - frame["first"] == FAST.week * DAY
        for name, total in contents.items():
            for *row, diff in frame[name]:
                total[tuple(row)] += diff
        held = {name: {row for row, n in total.items() if n} for name, total in contents.items()}
        assert all(n in (0, 1) for total in contents.values() for n in total.values())
        member, links, favourite = expected(mentions.between(frame["first"], frame["last"]))
        assert held["member"] == set(member.items())
        assert held["link"] == links
        assert held["favourite"] == {(component, *use) for component, use in favourite.items()}
        assert held["size"] == set(Counter(member.values()).items())
        sizes.add(len(member))
    assert len(sizes) > 3  # something happens


def test_recomputing_in_python_is_recomputing_with_scipy() -> None:
    dice = np.random.default_rng(5)
    for edges in (1, 30, 60, 120):
        src, dst = dice.integers(0, 40, edges), dice.integers(0, 40, edges)
        ours, theirs = recompute.tarjan(src, dst, 40), recompute._strong(src, dst, 40)
        assert len(set(zip(ours.tolist(), theirs.tolist(), strict=True))) == len(set(ours.tolist()))
        assert len(set(ours.tolist())) == len(set(theirs.tolist()))


def test_short_data_has_short_slots(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("".join(f"1 2 {at}\n" for at in range(0, 5000, 10)))
    mentions = load(path, 1000)
    assert mentions.slot_seconds == 4
    assert mentions.slot[-1] <= 1000


@pytest.mark.parametrize(
    ("text", "code"), [("1 2\n", "E_FORMAT"), ("a b c\n", "E_FORMAT"), ("1 2 3\n", "E_FORMAT"), (None, "E_NO_FILE")]
)
def test_bad_data_is_refused(tmp_path: Path, text: str | None, code: str) -> None:
    path = tmp_path / "mentions.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as refused:
        load(path, 100)
    assert refused.value.code == code


def test_a_place_for_files_is_refused_before_the_story_begins(tmp_path: Path) -> None:
    place(tmp_path, "mentions").joinpath("0009.parquet").write_text("")
    (tmp_path / "file").write_text("")
    for keep, code in ((tmp_path, "E_NOT_EMPTY"), (tmp_path / "file", "E_FILE")):
        with pytest.raises(InputError) as refused:
            story.run(fast=True, spark=False, keep=keep)
        assert refused.value.code == code


@pytest.mark.slow
@pytest.mark.spark
def test_through_spark(tmp_path: Path) -> None:
    path = made_up_file(tmp_path)
    done = demo("--fast", "--data", str(path), "--keep", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    page = Page()
    page.feed((tmp_path / "kept" / "everview-demo.html").read_text())
    data = json.loads(page.text)
    assert ("Spark" in data["fedBy"]) != ("Without Spark" in done.stdout)
    check_frames(data, load(path, FAST.slots))
