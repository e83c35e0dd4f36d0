"""Datalog: closures and same generation, whole and by question; what packages need through five releases of Debian.

tc and sg are mcsherry-2020 figure 8's, on smaller graphs where the answer would not fit. A question is a row of a table
that comes and goes, answered by magic sets. The dependency closure of 200 packages is kept while releases replace each
other, next to DuckDB computing it anew for each. `--engines PYTHON` also runs Cozo and egglog (see `engines.py`).
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import common
import numpy as np
import peers
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]

DEBIAN = Path(__file__).resolve().parents[2] / "shared" / "data" / "debian-deps.tsv.xz"
"""Data that lies beside a checkout; without it the real programs are left out"""
LABELS = ("Depends", "Pre-Depends", "Recommends")
_SCHEMA = pa.schema([pa.field("src", pa.string(), nullable=False), pa.field("dst", pa.string(), nullable=False)])

PROGRAMS = {
    "tc": "tc(X, Y) :- e(X, Y). tc(X, Z) :- tc(X, Y), e(Y, Z).",
    "sg": "sg(X, Y) :- e(P, X), e(P, Y). sg(X, Y) :- e(P, X), sg(P, Q), e(Q, Y).",
}
QUERIES = {
    "tc": "SELECT a, b FROM e UNION SELECT r.a, e.b FROM r JOIN e ON e.a = r.b",
    "sg": "SELECT p.b, q.b FROM e p JOIN e q ON p.a = q.a UNION "
    "SELECT p.b, q.b FROM r JOIN e p ON p.a = r.a JOIN e q ON q.a = r.b",
}


def tree(depth: int) -> Ints:
    """A complete binary tree, edges from parent to child."""
    child = np.arange(1, 2 ** (depth + 1) - 1)
    return np.stack([(child - 1) // 2, child], axis=1)


def grid(n: int) -> Ints:
    """A square of n by n nodes with edges to the right and down."""
    node = np.arange(n * n).reshape(n, n)
    right = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()], axis=1)
    down = np.stack([node[:-1].ravel(), node[1:].ravel()], axis=1)
    return np.concatenate([right, down])


def gnp(nodes: int, edges: int) -> Ints:
    """A uniform random graph."""
    drawn = np.random.default_rng(5).integers(0, nodes, size=(edges, 2))
    return np.unique(drawn, axis=0)


ENGINES = ("cozo", "egglog")
LIMIT_S = 120
"""How long another engine may take."""


def elsewhere(engine: str, name: str, edges: Ints, options: argparse.Namespace, rows: int) -> dict[str, Any]:
    """What another Datalog engine takes for the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.npy"
        np.save(path, edges)
        command = [options.engines, str(Path(__file__).with_name("engines.py")), engine, name, str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
        except subprocess.TimeoutExpired:
            return {"stopped_after_s": LIMIT_S}
    found: dict[str, Any] = json.loads(done.stdout)
    if found["rows"] != rows:
        raise SystemExit(f"{engine} finds {found['rows']} rows, not {rows}")
    return found


def recursive(
    name: str, graph: str, edges: Ints, options: argparse.Namespace, questions: int, whole: bool = True
) -> dict[str, Any]:
    """One program on one graph: by question, whole (unless the answer would not fit), and elsewhere."""
    found: dict[str, Any] = {"case": f"{name} on {graph}", "edges": len(edges)}
    given = common.columns(("a", "b"), edges)
    with common.connect(options) as db:
        db.table("e", {"a": int, "b": int}).insert(given)
        asked = db.table("asked", {"x": int})
        rules = db.register(PROGRAMS[name])
        if questions:
            found["install_demand"], _ = common.once(lambda: db.view("answers", rules.demand(name, asked)))
            clock = common.Clock()
            for node in random.Random(1).sample(np.unique(edges).tolist(), questions):
                with clock.measured():
                    asked.insert([(node,)])
                asked.delete([(node,)])
            found["question"] = clock.latencies()
            db["answers"].drop()
        if not whole:
            return found
        found["whole"], view = common.once(lambda: rules.interest(name))
        answer = common.sorted_rows(view)
    found["rows"] = len(answer)
    if not options.no_peers:
        text = f"WITH RECURSIVE r(a, b) AS ({QUERIES[name]}) SELECT a, b FROM r"
        found["duckdb"], other = common.once(lambda: peers.query(text, e=given))
        common.compare(answer, peers.by_row(np.stack([other["a"], other["b"]], axis=1)))
    if options.engines:
        found |= {engine: elsewhere(engine, name, edges, options, len(answer)) for engine in ENGINES}
    return found


def releases(path: Path, rows: int | None) -> Iterator[tuple[list[tuple[str, str]], list[tuple[str, str]]]]:
    """For each release, dependencies that come and go."""
    steps: dict[int, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {}
    with lzma.open(path, "rt") as file:
        for number, line in enumerate(file):
            if rows is not None and number >= rows:
                break
            step, diff, src, label, dst = line.rstrip("\n").split("\t")
            if label in LABELS:
                steps.setdefault(int(step), ([], []))[int(diff) < 0].append((src, dst))
    for step in sorted(steps):
        yield steps[step]


def packages(options: argparse.Namespace) -> dict[str, Any]:
    """What some packages need, directly or not, release after release."""
    if not DEBIAN.exists():
        return {"skipped": f"no {DEBIAN}"}
    found: list[dict[str, Any]] = []
    held: dict[tuple[str, str], int] = {}
    with common.connect(options) as db:
        depends = db.table("depends", {"src": str, "dst": str})
        asked = db.table("asked", {"x": str})
        rules = db.register("needs(X, Y) :- depends(X, Y). needs(X, Z) :- needs(X, Y), depends(Y, Z).")
        needs = db.view("answers", rules.demand("needs", asked))
        for new, gone in releases(DEBIAN, 3000 if options.quick else None):
            for row, sign in [*((r, 1) for r in new), *((r, -1) for r in gone)]:
                held[row] = held.get(row, 0) + sign
            if not found:
                names = sorted({src for src, _ in new})
                asked.insert([(n,) for n in random.Random(2).sample(names, min(200, len(names)))])

            coming, going = _columns(new), _columns(gone)

            def step(coming: Any = coming, going: Any = going) -> None:
                with db.transaction():
                    depends.insert(coming)
                    depends.delete(going)

            spent, _ = common.once(step)
            one = {"release": len(found), "inserts": len(new), "deletes": len(gone), **spent, "rows": len(needs)}
            if not options.no_peers:
                one["duckdb"] = _needed_elsewhere(asked.rows(), held, sorted(needs.rows()))
            found.append(one)
    return {"steps": found}


def _columns(rows: Iterable[tuple[str, str]]) -> pa.Table:
    """Dependencies as both sides take them."""
    pairs = list(rows)
    return pa.table({"src": [a for a, _ in pairs], "dst": [b for _, b in pairs]}, schema=_SCHEMA)


def _needed_elsewhere(
    asked: list[tuple[str]], held: dict[tuple[str, str], int], maintained: list[tuple[str, str]]
) -> dict[str, float]:
    depends = _columns(row for row, n in held.items() if n > 0)
    text = """
        WITH RECURSIVE r(x, y) AS (
          SELECT x, dst FROM asked JOIN depends ON src = x UNION SELECT x, dst FROM r JOIN depends ON src = y)
        SELECT x, y FROM r"""
    spent, other = common.once(lambda: peers.query(text, depends=depends, asked=pa.table({"x": [a for (a,) in asked]})))
    if sorted(zip(other["x"].tolist(), other["y"].tolist(), strict=True)) != maintained:
        raise SystemExit("the maintained closure is wrong")
    return spent


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All of it."""
    small = options.quick
    cases = [
        ("tc", "tree-11", tree(4 if small else 11), 100, True),
        ("tc", "grid-50", grid(5 if small else 50), 100, True),
        ("tc", "grid-150", grid(6 if small else 150), 100, False),
        ("tc", "gnp-2000", gnp(40 if small else 2000, 80 if small else 4000), 100, True),
        ("sg", "tree-11", tree(4 if small else 11), 20, True),
        ("sg", "gnp-500", gnp(40 if small else 500, 60 if small else 1000), 0, True),
    ]
    return {
        "benchmark": "rules",
        "recursive": [recursive(n, g, e, options, min(q, 5) if small else q, w) for n, g, e, q, w in cases],
        "debian": packages(options),
    }


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--engines", default="", help="a Python with pycozo and egglog, to run them as well")
    chosen = parser.parse_args()
    common.report(run(chosen), chosen)
