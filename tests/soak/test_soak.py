"""A few seconds of the soak (`make soak` runs it for an hour), and that what leaks is found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.soak.__main__ import LATENCY, MEMORY, soak
from tests.soak.flat import verdict
from tests.soak.load import ACTIONS, Load


def test_a_few_seconds(tmp_path: Path) -> None:
    report = soak(2, 1, tmp_path, windows=2, show=False, warm_up={"edges": 1})
    assert report["checks"] == 2 and sum(report["calls"].values()) >= 40
    assert {"memory MB", "disk MB", "dictionary MB", "cpu edges ms"} <= set(report["measured"])
    json.dumps(report)


def test_everything_it_can_do(tmp_path: Path) -> None:
    load = Load(tmp_path, 2)
    for kind in (*ACTIONS, *reversed(ACTIONS)):
        load.do(kind)
        load.check()
    load.close()


def test_a_leak_is_found() -> None:
    """A quarter of a megabyte in every window, in a noise of two; a call that gets slower by a hundredth each time."""
    noise = [(7 * i) % 5 / 2 - 1 for i in range(40)]
    assert verdict([200 + x for x in noise], MEMORY).flat
    assert not verdict([200 + x + i / 4 for i, x in enumerate(noise)], MEMORY).flat
    assert verdict([2 + x / 10 for x in noise], LATENCY).flat
    assert not verdict([2 * 1.01**i + x / 10 for i, x in enumerate(noise)], LATENCY).flat
    assert verdict([*range(10), *[200.0] * 30], MEMORY).flat  # warming up does not count


def test_a_run_that_leaks_is_not_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that somebody keeps are seen in the report, and by name in its table: a twentieth of all that there are,
    because a process that has run many tests before has many.
    """
    kept: list[object] = []
    honest = Load.do

    def leaking(load: Load, kind: str) -> None:
        honest(load, kind)
        if kind == "reopen":  # once in a window at least
            kept.extend(str(len(kept) + i) * 3 for i in range(sys.getallocatedblocks() // 20))

    monkeypatch.setattr(Load, "do", leaking)
    report = soak(2, 1, tmp_path, windows=4, show=False, warm_up={})
    assert not report["flat"] and not report["measured"]["blocks k"]["flat"]
    assert any(line.startswith("blocks k") and line.endswith("NOT FLAT") for line in report["table"])


def test_what_is_lost_is_found(tmp_path: Path) -> None:
    load = Load(tmp_path, 3)
    load.db["edge"].delete(load.db["edge"].rows()[:1])
    with pytest.raises(AssertionError, match="edge: there is"):
        load.check()
    load.close()
