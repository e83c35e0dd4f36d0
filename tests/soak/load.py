"""The load: a session in a directory, a model of it in Python's own collections, and what is done to both.

Everything has a steady size, so whatever grows is a leak. A window of edges slides (views: degrees, and what can be
reached from node 0, which is recursive); keyed rows are replaced (view: a join with the edges; a sink hears of it);
events come with ever new names, leave by a time to live, and are seen by a view with now(); the clock is moved by hand.
Views are made and dropped, subscriptions begin and end, queries are asked, checkpoints are made and now and then the
directory is closed and opened again.

Ever new names are meant: a session forgets texts only when it opens a directory (`everview.codes.interner`), so a few
bytes more after each, up to the next opening, are no leak. The run measures after an opening, and tells the
dictionary's bytes apart.

The model has to be as steady as what it is compared with: what was added up to nothing is taken out, and the sink gets
another directory when it has many files, because finding its place lists them all.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
from collections import Counter, deque
from pathlib import Path
from typing import Any

import everview as ev

Row = tuple[Any, ...]

NODES = 200
EDGES = 600
KEYS = 40
TTL = dt.timedelta(seconds=120)
RECENT = dt.timedelta(seconds=30)
START = dt.datetime(2026, 1, 1)
FILES = 300
"""Files that a directory of the sink may have."""

ACTIONS = {
    "edges": 40, "upsert": 3, "event": 20, "select": 10, "read": 15, "churn": 4, "subscribe": 4, "batch": 4,
    "checkpoint": 0.5, "reopen": 0.15,
}  # fmt: skip
"""What is done, and how often."""


class Load:
    """A session, its model, and what can be done to both."""

    def __init__(self, work: Path, seed: int) -> None:
        self._work = work
        self._draw = random.Random(seed)
        self._edges: deque[Row] = deque()
        self._keyed: dict[int, int] = {}
        self._events: deque[Row] = deque()
        self._now = START
        self._names = 0
        self._short: str | None = None
        self._sums: Counter[Row] = Counter()
        self._sinks = 0
        self._files = 0
        self._last_file = ""
        self._open()
        db = self.db
        db.advance(self._now)  # from now on it moves by hand
        db.table("edge", {"src": int, "dst": int})
        db.table("kv", {"id": int, "v": int}, key="id")
        db.table("event", {"at": dt.datetime, "who": str}, ttl=TTL)
        db.sql("CREATE VIEW degree AS SELECT src, count(*) AS n, max(dst) AS top FROM edge GROUP BY src")
        db.sql(
            "CREATE VIEW reach AS WITH RECURSIVE r(n) AS "
            "(SELECT 0 UNION SELECT edge.dst FROM r JOIN edge ON edge.src = r.n) SELECT n FROM r"
        )
        db.sql(
            "CREATE VIEW valued AS SELECT kv.id, sum(kv.v) AS s FROM kv JOIN edge ON edge.src = kv.id GROUP BY kv.id"
        )
        db.sql("CREATE VIEW pairs AS SELECT id, v FROM kv")
        db.sql("CREATE VIEW recent AS SELECT who FROM event WHERE at > now() - INTERVAL '30 seconds'")
        self._listen()
        rows = [self._edge() for _ in range(EDGES)]
        self._edges.extend(rows)
        db["edge"].insert(rows)

    def _open(self) -> None:
        self.db: Any = ev.connect(self._work / "state")
        self._told: Counter[Row] = Counter()

    def _listen(self) -> None:
        self.db["degree"].subscribe(self._hear)
        self.db["pairs"].write_to(ev.io.json(self._out))

    @property
    def _out(self) -> Path:
        """Where the sink writes: one of two directories in turns."""
        return self._work / f"out-{self._sinks % 2}"

    def _hear(self, batch: Any) -> None:
        for row, diff in batch.rows():
            _count(self._told, row, diff)

    def close(self) -> None:
        self.db.close()

    def choose(self) -> str:
        """The next thing to do."""
        return self._draw.choices(list(ACTIONS), list(ACTIONS.values()))[0]

    def do(self, kind: str) -> None:
        getattr(self, f"do_{kind}")()

    # changes

    def _edge(self) -> Row:
        return self._draw.randrange(NODES), self._draw.randrange(NODES)

    def do_edges(self) -> None:
        self._slide(5)

    def _slide(self, count: int) -> None:
        """New edges for the oldest ones."""
        new = [self._edge() for _ in range(count)]
        self._edges.extend(new)
        gone = [self._edges.popleft() for _ in range(count)]
        with self.db.transaction():
            self.db["edge"].insert(new)
            self.db["edge"].delete(gone)

    def do_batch(self) -> None:
        with self.db.batch():
            for _ in range(3):
                self._slide(1)

    def do_upsert(self) -> None:
        rows = {self._draw.randrange(KEYS): self._draw.randrange(1000) for _ in range(3)}
        self._keyed.update(rows)
        self.db["kv"].upsert(list(rows.items()))

    def do_event(self) -> None:
        self._now += dt.timedelta(seconds=self._draw.choice((0, 1, 1, 2)))
        self.db.advance(self._now)
        self._names += 1
        row = (self._now, f"somebody whose number is {self._names}")
        self._events.append(row)
        self.db["event"].insert([row])
        while self._events[0][0] + TTL <= self._now:
            self._events.popleft()

    # reading

    def do_select(self) -> None:
        node, least = self._draw.randrange(NODES), self._draw.randrange(4)
        found = self.db.sql(f"SELECT dst FROM edge WHERE src = {node}").rows()
        _same(found, [(b,) for a, b in self._edges if a == node], "a query")
        found = self.db.sql(f"SELECT count(*) AS n FROM (SELECT src FROM degree WHERE n > {least}) AS d").rows()
        count = sum(n > least for n in Counter(a for a, _ in self._edges).values())
        _same(found, [(count,)], "a query of a view")

    def do_read(self) -> None:
        node = self._draw.randrange(NODES)
        ends = [b for a, b in self._edges if a == node]
        _same(self.db["degree"].lookup(node), [(node, len(ends), max(ends))] if ends else [], "a look at a view")

    def do_churn(self) -> None:
        """A view that lives until this is done again."""
        if self._short is not None:
            self.db.sql(f"DROP VIEW {self._short}")
            self._short = None
            return
        self._short = f"short_{self._draw.randrange(5)}"
        least = self._draw.randrange(100)
        self.db.sql(
            f"CREATE VIEW {self._short} AS SELECT a.src, count(*) AS n FROM edge a JOIN edge b ON a.dst = b.src "
            f"WHERE b.dst > {least} GROUP BY a.src"
        )

    def do_subscribe(self) -> None:
        heard: Counter[Row] = Counter()
        stop = self.db["reach"].subscribe(lambda batch: heard.update(dict(batch.rows())))
        self._slide(2)
        stop()
        _same(list((+heard).elements()), self._reached(), "what a subscriber was told")

    # directories

    def do_checkpoint(self) -> None:
        self.db.checkpoint()

    def do_reopen(self) -> None:
        self._take_files()
        self.db.close()
        self._open()
        self.db.advance(self._now)
        if self._files > FILES:
            self._check_sink()
            self._sinks += 1
            self._sums.clear()
            self._files, self._last_file = 0, ""
            shutil.rmtree(self._out, ignore_errors=True)
        self._listen()
        wrong = self.db.check()
        assert wrong == [], wrong

    # comparing

    def _reached(self) -> list[Row]:
        after: dict[int, list[int]] = {}
        for a, b in self._edges:
            after.setdefault(a, []).append(b)
        reached, todo = {0}, [0]
        while todo:
            for b in after.get(todo.pop(), ()):
                if b not in reached:
                    reached.add(b)
                    todo.append(b)
        return [(n,) for n in reached]

    def check(self) -> None:
        """All tables and views, the subscriber and the sink, against the model."""
        degrees = Counter(a for a, _ in self._edges)
        tops: dict[int, int] = {}
        for a, b in self._edges:
            tops[a] = max(b, tops.get(a, -1))
        degree = [(a, n, tops[a]) for a, n in degrees.items()]
        pairs = list(self._keyed.items())
        expected = {
            "edge": list(self._edges),
            "kv": pairs,
            "event": list(self._events),
            "degree": degree,
            "reach": self._reached(),
            "valued": [(k, v * degrees[k]) for k, v in pairs if degrees[k]],
            "pairs": pairs,
            "recent": [(who,) for at, who in self._events if at > self._now - RECENT],
        }
        for name, rows in expected.items():
            _same(self.db[name].rows(), rows, name)
        _same(list(self._told.elements()), degree, "what the subscriber was told")
        self._check_sink()

    def _check_sink(self) -> None:
        self._take_files()
        _same(list((+self._sums).elements()), list(self._keyed.items()), "the sink")
        assert all(n >= 0 for n in self._sums.values()), "the sink has something that was taken away twice"

    def _take_files(self) -> None:
        """Add up what the sink has written since."""
        new = sorted(path for path in self._out.glob("changes-*.json") if path.name > self._last_file)
        for path in new:
            for line in path.read_text().splitlines():
                change = json.loads(line)
                _count(self._sums, (change["id"], change["v"]), change["_diff"])
        self._files += len(new)
        self._last_file = new[-1].name if new else self._last_file


def _count(rows: Counter[Row], row: Row, diff: int) -> None:
    rows[row] += diff
    if not rows[row]:
        del rows[row]


def _same(got: list[Row], wanted: list[Row], what: str) -> None:
    found, expected = Counter(got), Counter(wanted)
    if found != expected:
        more, less = list((found - expected).items())[:5], list((expected - found).items())[:5]
        raise AssertionError(f"{what}: there is {more}, there should be {less}")
