"""Real graphs, where they are at hand: `../shared/data` next to the checkout, or the directory EVERVIEW_DATA.

What was read is kept as .npy in `.cache/benchmarks`. Where a file is missing, a generated stand-in takes its place and
the report's name says so.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable
from pathlib import Path

import graphs
import numpy as np

from everview.demo.mentions import data

Ints = graphs.Ints

DATA = Path(os.environ.get("EVERVIEW_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def mentions(quick: bool) -> tuple[str, Ints]:
    """(name, rows of src, dst, unix time in order of time): sx-mathoverflow, or made-up mentions."""
    path = DATA / "sx-mathoverflow.txt.gz"
    if quick or not path.exists():
        rows = np.stack(data.made_up(60 if quick else 20_000), axis=1)
        return "made-up mentions", rows
    rows = _kept("sx-mathoverflow", lambda: np.stack(data.read(path), axis=1))
    return "sx-mathoverflow", rows[np.argsort(rows[:, 2], kind="stable")]


def web() -> Ints | None:
    """The edges of cnr-2000, or None."""
    path = DATA / "cnr-2000.txt.xz"
    if not path.exists():
        return None

    def read() -> Ints:
        with lzma.open(path) as file:
            return np.array(file.read().split(), dtype=np.int64).reshape(-1, 2)

    return _kept("cnr-2000", read)


def _kept(name: str, read: Callable[[], Ints]) -> Ints:
    path = graphs.CACHE / f"{name}.npy"
    if not path.exists():
        graphs.CACHE.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.npy")
        np.save(partial, read())
        partial.rename(path)
    found: Ints = np.load(path)
    return found
