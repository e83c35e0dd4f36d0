"""Sources, sinks and runs with paths, options and answers that make no sense: the errors are ours.

Files of every format are there, right and broken ones, and sources and sinks of one's own that answer nonsense. What
was attached is run; what is written to gets a row.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import everview as ev
from everview.io.formats import Csv, Json
from tests.misuse.calling import Call, Scene, methods, misuse, odd

PATHS = [
    "", ".", "in", "in/a.csv", "in/a.json", "in/a.parquet", "in/a.arrow", "in/broken.csv", "in/broken.json",
    "in/broken.parquet", "in/broken.arrow", "in/empty.csv", "in/empty.json", "in/empty.parquet", "in/empty.arrow",
    "in/*.csv", "in/[", "**", "no/such/place", "no such.csv", "/dev/null", "/proc/nope/x", "a\0b", "\ud800", "x" * 5000,
    "file:///", "file://in", "://", "nope://x/y", "s3:/", "~", "in/a.csv/below", b"in", Path("in"), Path("out"), "out",
    "out/deep/er", "out.csv", "in/a.csv.gz", "\n", " ", "in/a b.csv", "in/a%20b.csv", 7, None, ["in"],
]  # fmt: skip

REACHED = [p for p in PATHS if isinstance(p, str) and p.startswith(("in", "out", "no/"))]

OPTIONS: dict[str, list[Any]] = {
    "path": PATHS,
    "until": [
        "caught_up", 0, "0s", "", "x", -1, float("nan"), float("inf"), b"1s", [], {}, "5 parsecs", True,
        dt.date(2026, 1, 1),
    ],
    "every": [
        "0s", "", "x", -1, float("nan"), float("inf"), None, True, b"1s", dt.timedelta(-1), dt.timedelta(0), [],
        "9" * 400 + "s",
    ],
    "delimiter": ["", ",,", "\n", "é", ";", "\t", None, 5, b",", '"', "\ud800", [","]],
    "quote": ["", "''", "\n", "é", "'", ",", None, 5, b'"', "\ud800", False],
    "header": [
        True, False, None, [], ["x"], ["x", "x"], [1, 2], "xy", 5, ["x", "y", "z"], ("a", None), {"x": int}, iter("xy"),
    ],
    "null": ["", "NULL", None, 5, b"", "\ud800", ["NULL"]],
    "tail": [True, False, None, "yes", 1, []],
    "order": ["modified", "name", None, "", "size", 1, []],
    "mode": ["append", "upsert", "changes", "snapshot", None, "", "no such", 1, [], b"append", ["append"]],
    "bad": ["fail", "quarantine", None, "", 1, ["fail"]],
    "key": [
        "x", "y", ["x"], ("x", "y"), "no such", [], "", ["x", "x"], 1, [1], [None], b"x", {"x": 1}, object(), ev.col.x,
    ],
    "schema": [
        {"x": int}, {"x": int, "y": str}, {"x": int | None, "y": str | None}, {}, {"x": 5}, {5: int}, [], "x", None, 5,
        {"x": int, "z": int}, {"x": object}, {"": int}, [("x", int)], {"x": ev.decimal(2), "y": bytes},
    ],
    "change_column": [None, "x", "y", "no such", "", 5, ["x"]],
    "max_rows_per_step": [None, 1, 0, -1, 2**63, 1.5, float("nan"), "1", True, []],
    "progress": [False, None, 0, "", []],
}  # fmt: skip


class Strange(ev.io.Source):
    """A source that answers whatever it was told to."""

    def __init__(self, schema: Any, poll: Any, caught_up: Any = True) -> None:
        self._schema, self._poll, self._caught_up = schema, [poll], caught_up

    def schema(self) -> Any:
        return self._schema

    def open(self, marks: Any, wanted: Any, snapshots: Any) -> None:
        pass

    def poll(self, limit: Any) -> Any:
        return self._poll.pop() if self._poll else None


class Odd(ev.io.Sink):
    """A sink that answers whatever it was told to."""

    def __init__(self, position: Any, held: Any, lasting: Any) -> None:
        self._position, self._held, self.lasting = position, held, lasting

    def open(self, identity: Any, columns: Any, mode: Any) -> Any:
        return self._position

    def write(self, batch: Any) -> None:
        batch.rows()

    def replace(self, rows: Any, time: Any) -> None:
        pass

    def held(self) -> Any:
        return self._held


def folder() -> None:
    """Files to read, where one stands."""
    Path("in").mkdir(exist_ok=True)
    table = pa.table({"x": [1, 2], "y": ["a", "b"]})
    Path("in/a.csv").write_text("x,y\n1,a\n2,b\n")
    Path("in/a b.csv").write_text("x,y\n1,a\n2\n")
    Path("in/a.json").write_text('{"x": 1, "y": "a"}\n{"x": 2}\n')
    pa.parquet.write_table(table, "in/a.parquet")
    pa.feather.write_feather(table, "in/a.arrow")
    for suffix in ("csv", "json", "parquet", "arrow", "csv.gz"):
        Path(f"in/broken.{suffix}").write_bytes(b'\xff\x00PAR1\x01"\n,,{"x": [}\n' * 3)
        Path(f"in/empty.{suffix}").write_bytes(b"")
    Path("in/a.csv.gz").write_bytes(b"not gzip")


class Pipelines(Scene):
    """A session with a view to write and folders to read."""

    each = 12

    def session(self) -> ev.Session:
        folder()
        db = ev.connect()
        t = db.table("t", {"x": int, "y": str})
        db.view("v", t.group_by("x").agg(n=ev.count()))
        t.insert([(1, "a")])
        self.outlet = db["v"].write_to(ev.io.foreach(lambda batch: None))
        self.chosen = random.Random(len(PATHS))
        return db

    def odd(self, rng: random.Random, parameter: str) -> Any:
        if parameter in OPTIONS and rng.random() < 0.9:
            return rng.choice(OPTIONS[parameter])
        if parameter in ("source", "sink", "rows", "function", "position", "state") and rng.random() < 0.7:
            return self._strange(rng)
        return rng.choice([odd(rng, self.db), rng.choice(PATHS)])

    def _strange(self, rng: random.Random) -> Any:
        """A source or a sink, of ours or of somebody's, or rows."""

        def some(*right: Any) -> Any:
            return rng.choice([*right, odd(rng, self.db)])

        rows = some([(1, "a")], [{"x": 1, "y": "a"}], pa.table({"x": [1], "y": ["a"]}))
        chunk = ev.io.Chunk(some("place"), rows, some({"at": "1"}), some([]), some(False))
        schema = some(pa.schema({"x": pa.int64(), "y": pa.string()}), pa.schema({"x": pa.list_(pa.int8())}))
        held = some(pa.table({"x": [1], "n": [1], "_time": [1], "_diff": [1]}))
        makers = (ev.io.csv, ev.io.json, ev.io.parquet, ev.io.arrow)
        return rng.choice(
            [
                lambda: Strange(schema, some(chunk), some(True)),
                lambda: Odd(some(None, 0, 1, 10**6), held, some(True, False)),
                lambda: ev.io.rows(rows) if isinstance(rows, list) else rows,
                lambda: rng.choice(makers)(rng.choice(REACHED)),
                lambda: ev.io.foreach(lambda batch: None, position=lambda: some(0)),
                lambda: lambda *given: odd(rng, self.db),
                lambda: rng.choice(PATHS),
            ]
        )()

    def calls(self) -> Iterable[Call]:
        db, view = self.db, self.db["v"]
        for name in ("csv", "json", "parquet", "arrow"):
            path = self.chosen.choice(["in", f"in/a.{name}", f"in/broken.{name}", f"in/empty.{name}"])
            yield Call(name, getattr(ev.io, name), (path,), then=self._read)
            yield Call(f"write {name}", getattr(ev.io, name), (f"out{name}",), then=self._write)
        yield Call("inbox", ev.io.inbox, (".", "t"), then=self._read)
        yield Call("rows", ev.io.rows, ([(1, "a")],), then=self._read)
        yield Call("foreach", ev.io.foreach, (print_nothing,), {"position": None}, then=self._write)
        yield Call("Files", ev.io.Files, ("in/a.csv", Csv()), then=self._read)
        yield Call("Files", ev.io.Files, ("in/a.json", Json()), then=self._write)
        for name, call in (("jdbc", ev.io.jdbc), ("delta", ev.io.delta), ("kafka", ev.io.kafka)):
            yield Call(name, call, (None, "jdbc:nope", "t")[: 2 if name == "delta" else 3], then=self._write)
        right: Mapping[str, Any] = {"schema": {"x": int | None, "y": str | None}}
        for _ in range(6):
            new = f"s{len(db.tables)}"
            yield Call("source", db.source, (new, ev.io.rows([(1, "a"), (2, "b")])), right, then=self._run)
            yield Call("source of files", db.source, (new, "in/a.csv"), then=self._run)
        for _ in range(4):
            yield Call("write_to", view.write_to, (print_nothing,), then=self._touch)
        yield Call("run", self._run_until, ("caught_up",))
        yield from methods([self.outlet])

    def _run_until(self, until: Any = None, **named: Any) -> Any:
        """Not until Ctrl-C, and not for years, which would be right, too."""
        long = (isinstance(until, (int, float)) and 1 < until < 1e300) or (
            isinstance(until, dt.timedelta) and until.total_seconds() > 1
        )
        return self.db.run("10ms" if until is None or long else until, **named)

    def _read(self, source: Any) -> None:
        self.db.source(f"s{len(self.db.tables)}", source, bad=self.chosen.choice(["fail", "quarantine"]))
        self.db.run(until="caught_up")

    def _write(self, sink: Any) -> None:
        self._touch(self.db["v"].write_to(sink, mode=self.chosen.choice(["changes", "snapshot"])))

    def _run(self, table: Any) -> None:
        self.db.run(until="caught_up")
        table.rows()

    def _touch(self, outlet: Any) -> None:
        self.db["t"].insert([(1, "b")])
        outlet.stop()

    def whole(self) -> bool:
        return "t" in self.db and "v" in self.db

    def check(self) -> None:
        for outlet in list(self.db._core.attached["pipeline"].outlets):
            outlet._unsubscribe()
        self.db["t"].insert([(7, "still here")])
        assert (7, "still here") in self.db["t"].rows()


def print_nothing(batch: ev.Batch) -> None:
    batch.rows()


def test_400_misused_pipelines() -> None:
    assert misuse(1, 400, Pipelines) == Counter()


@pytest.mark.slow
@pytest.mark.long
def test_10000_misused_pipelines() -> None:
    assert sum((misuse(seed, 1000, Pipelines) for seed in range(2, 12)), Counter[str]()) == Counter()
