"""A directory that uses every feature there is, and a model of it in plain Python: for tests that end, cut off or
damage sessions.

`Model.act()` chooses the next thing to do. It changes the model and gives a call that does the same to a session; what
is chosen is a function of the seed and of how many acts came before, so a process that died is replaced by one that
knows what was done. Every act is one transaction or one definition: afterwards a directory equals the model before
it or after it, never something in between.

What it covers: keys, CHECK, UNIQUE, foreign keys with their actions, defaults and serials, refused transactions; graphs
kept as trees, histories, in a budget, and pairs by half searches; provenance columns; joins whose plan changes;
ALTER TABLE; roles, grants and policies; watermarks and windows that close; a clock, TTLs and now(); prepared queries;
sequences; views that come and go; what-if, one-off queries, look-ups and checkpoints in between.
"""

from __future__ import annotations

import copy
import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import everview as ev
from everview import col
from everview.graph import Graph
from tests.store.durably import reach

Row = tuple[Any, ...]
Call = Callable[[Any], None]

START = dt.datetime(2040, 1, 1)
"""Where the clock stands: it moves forward only, and begins with the computer's."""
TTL = 60
"""Seconds that an event lives."""
LATE = 5
"""Seconds that a measurement may be late."""
NODES = 7
READY: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The prepared query of each session."""


def live(where: str, seed: int, number: int, way: str, said: Path) -> None:
    """The life of a process that is to be killed: acts from a number on, each told when it has returned."""
    db = ev.connect(where, memory="1MB" if way == "memory" else None)
    declare(db)
    model = Model(seed)
    while model.number < number:
        model.act()
    model.set_clock(db)
    with said.open("a", buffering=1) as tell:
        tell.write("ready\n")
        while True:
            kind, call = model.act()
            try:
                call(db)
            except BaseException as error:
                tell.write(f"{kind}: {error!r}\n")
                raise
            tell.write(f"{model.number}\n")


def declare(db: Any) -> None:
    """The tables and views that are there from the beginning; found again, where they are there."""
    if "account" not in db:
        db.sql(
            """CREATE TABLE account (
                id int PRIMARY KEY, name text NOT NULL UNIQUE, balance int NOT NULL DEFAULT 7 CHECK (balance >= 0))"""
        )
        db.sql("ALTER TABLE account ENABLE ROW LEVEL SECURITY")
    if "payment" not in db:
        db.sql(
            """CREATE TABLE payment (
                number serial, src int REFERENCES account ON DELETE CASCADE,
                dst int REFERENCES account ON DELETE SET NULL,
                amount int NOT NULL CHECK (amount > 0), twice int GENERATED ALWAYS AS (amount * 2) STORED)"""
        )
    edge = db.table("edge", {"src": int, "dst": int, "w": int})
    root = db.table("root", {"node": int})
    pair = db.table("pair", {"a": int, "b": int}, key=("a", "b"))
    if "note" not in db:
        db.sql("CREATE TABLE note (id int PRIMARY KEY, c0 int DEFAULT 3)")
    if "event" not in db:
        db.sql(f"CREATE TABLE event (at timestamp, who text) TTL at + INTERVAL '{TTL} seconds'")
    if "measured" not in db:
        db.sql(
            f"CREATE TABLE measured (k int, at timestamp, v int, WATERMARK FOR at AS at - INTERVAL '{LATE} seconds')"
        )
    graph = Graph(edge, weight="w")
    lean, tight = Graph(edge, weight="w", memory="lean"), Graph(edge, weight="w", budget="60kB")
    db.view("far", graph.sssp(root))
    db.view("far_lean", lean.sssp(root))
    db.view("far_tight", tight.sssp(root))
    db.view("apart", graph.distance(pair))
    db.view("apart_whole", tight.distance(pair), plan="whole")
    ends = edge.select("src", "dst")
    steps = edge.select(src=col.src, dst=col.dst)
    db.view("from_root", reach(ends, root), provenance="lazy")
    db.view("two_hops", ends.join(steps, ends.dst == steps.src).select(a=ends.src, b=steps.dst), provenance="bdd")
    for name, text in VIEWS.items():
        if name not in db:
            db.sql(f"CREATE VIEW {name} AS {text}")
    READY[db] = db.prepare("asked", "SELECT dst, w FROM edge WHERE src = $x")


VIEWS = {
    "flows": """SELECT s.name AS src, d.name AS dst, sum(p.amount) AS total FROM payment p
                JOIN account s ON s.id = p.src JOIN account d ON d.id = p.dst GROUP BY s.name, d.name""",
    "balances": "SELECT balance, count(*) AS n FROM account GROUP BY balance",
    "notes": "SELECT id, c0 FROM note WHERE id > 0",
    "recent": "SELECT who FROM event WHERE at > now() - INTERVAL '30 seconds'",
    "minutes": """SELECT window_start, k, sum(v) AS total FROM TUMBLE(measured, at, INTERVAL '10 seconds')
                  GROUP BY window_start, k EMIT ON WINDOW CLOSE""",
}


class Refused(Exception):
    """A call that had to be refused was not."""


class Model:
    """What a directory holds after some acts."""

    def __init__(self, seed: int, *, embedded: bool = True) -> None:
        self.seed, self.embedded = seed, embedded
        self.number = 0
        self.accounts: dict[int, tuple[str, int]] = {}
        self.payments: Counter[Row] = Counter()
        self.edges: list[tuple[int, int, int]] = []
        self.roots: set[int] = set()
        self.pairs: set[tuple[int, int]] = set()
        self.columns: dict[str, Any] = {"c0": 3}
        self.notes: dict[int, dict[str, Any]] = {}
        self.now = START
        self.clock_is_set = False
        self.events: list[Row] = []
        self.measured: list[Row] = []
        self.watermark: dt.datetime | None = None
        self.asked: set[int] = set()
        self.role = self.granted = False
        self.policy: int | None = None
        self.limit: int | None = None
        self.short: dict[str, int] = {}
        self.sequence: int | None = None

    def copy(self) -> Model:
        return copy.deepcopy(self)

    def act(self) -> tuple[str, Call]:
        """What is done next: changes this model, and gives a call that does it to a session."""
        self._draw = random.Random(f"{self.seed}/{self.number}")
        self.number += 1
        kind = self._draw.choice(ACTS) if self.number > 1 else "set_clock"
        return kind, getattr(self, f"_{kind}")()

    # accounts and payments: constraints

    def _open_account(self) -> Call:
        number = self._draw.randrange(1, 40)
        if number in self.accounts:
            return self._refused("E_KEY", f"INSERT INTO account VALUES ({number}, 'again {self.number}', 1)")
        name = f"name {self.number}"
        self.accounts[number] = name, 7
        if self._draw.random() < 0.5:
            return lambda db: db.sql(f"INSERT INTO account (id, name) VALUES ({number}, '{name}')")
        return lambda db: db["account"].insert([{"id": number, "name": name}])

    def _one(self) -> int | None:
        return self._draw.choice(sorted(self.accounts)) if self.accounts else None

    def _close_account(self) -> Call:
        gone = self._one()
        if gone is None or len(self.accounts) < 5:
            return self._open_account()
        name, balance = self.accounts.pop(gone)
        kept: Counter[Row] = Counter()
        for (src, dst, amount), n in self.payments.items():
            if src != gone:
                kept[src, None if dst == gone else dst, amount] += n
        self.payments = kept
        if self._draw.random() < 0.5:
            return lambda db: db.sql(f"DELETE FROM account WHERE id = {gone}")
        return lambda db: db["account"].delete([(gone, name, balance)])

    def _deposit(self) -> Call:
        number = self._one()
        if number is None:
            return self._open_account()
        name, balance = self.accounts[number]
        change = self._draw.randrange(-9, 10)
        text = f"UPDATE account SET balance = balance + ({change}) WHERE id = {number}"
        if balance + change < 0:
            return self._refused("E_CHECK", text)
        self.accounts[number] = name, balance + change
        return lambda db: db.sql(text)

    def _pay(self) -> Call:
        src, dst, amount = self._one(), self._one(), self._draw.randrange(1, 5)
        if src is None:
            return self._open_account()
        self.payments[src, dst, amount] += 1
        return lambda db: db.sql(f"INSERT INTO payment (src, dst, amount) VALUES ({src}, {dst}, {amount})")

    def _transfer(self) -> Call:
        """Two accounts and a payment in one transaction."""
        src, dst = self._one(), self._one()
        if src is None or dst is None or src == dst or self.accounts[src][1] < 2:
            return self._pay()
        self.accounts[src] = self.accounts[src][0], self.accounts[src][1] - 2
        self.accounts[dst] = self.accounts[dst][0], self.accounts[dst][1] + 2
        self.payments[src, dst, 2] += 1
        return lambda db: db.sql(
            f"""BEGIN; UPDATE account SET balance = balance - 2 WHERE id = {src};
            UPDATE account SET balance = balance + 2 WHERE id = {dst};
            INSERT INTO payment (src, dst, amount) VALUES ({src}, {dst}, 2); COMMIT"""
        )

    def _violate(self) -> Call:
        """A transaction with good rows and a bad one: nothing of it stays."""
        taken = [name for name, _ in self.accounts.values()]
        if taken and self._draw.random() < 0.5:
            name = self._draw.choice(taken)

            def twice(db: Any) -> None:
                with db.transaction():
                    db["edge"].insert([(0, 1, 1)])
                    db["account"].insert([{"id": 1000, "name": name}])

            return _refusing("E_UNIQUE", twice)

        def nowhere(db: Any) -> None:
            with db.transaction():
                db["root"].insert([(99,)])
                db["payment"].insert([{"src": 999, "dst": None, "amount": 1}])

        return _refusing("E_FOREIGN_KEY", nowhere)

    def _refused(self, code: str, text: str) -> Call:
        return _refusing(code, lambda db: db.sql(text))

    def _constrain(self) -> Call:
        """A constraint that is added, or dropped."""
        if self.limit is not None:
            self.limit = None
            return lambda db: db.sql("ALTER TABLE payment DROP CONSTRAINT small")
        limit = self._draw.randrange(1, 9)
        text = f"ALTER TABLE payment ADD CONSTRAINT small CHECK (amount <= {limit})"
        if any(amount > limit for *_, amount in self.payments):
            return self._refused("E_CHECK", text)
        if limit < 5:  # later payments are never larger
            return lambda db: None
        self.limit = limit
        return lambda db: db.sql(text)

    # graphs

    def _edges(self) -> Call:
        draw = self._draw
        new = [(draw.randrange(NODES), draw.randrange(NODES), draw.randrange(1, 6)) for _ in range(draw.choice([1, 3]))]
        old = draw.sample(self.edges, min(len(self.edges), draw.choice([0, 1, 3]) + (len(self.edges) > 12) * 2))
        self.edges += new
        for row in old:
            self.edges.remove(row)

        def run(db: Any) -> None:
            with db.transaction():
                db["edge"].insert(new)
                db["edge"].delete(old)

        return run

    def _questions(self) -> Call:
        node, pair = self._draw.randrange(NODES), (self._draw.randrange(NODES), self._draw.randrange(NODES))
        if self._draw.random() < 0.5:
            self.roots ^= {node}
            there = node in self.roots
            return lambda db: db["root"].insert([(node,)]) if there else db["root"].delete([(node,)])
        self.pairs ^= {pair}
        here = pair in self.pairs
        return lambda db: db["pair"].insert([pair]) if here else db["pair"].delete([pair])

    def _replan(self) -> Call:
        view, plan = self._draw.choice(["flows"]), self._draw.choice(["binary", "delta", "wco", "best", "written"])
        return lambda db: db[view].replan(plan)

    def _ask(self) -> Call:
        x = self._draw.randrange(NODES)
        self.asked.add(x)
        expected = [(d, w) for s, d, w in self.edges if s == x]
        return lambda db: _same(READY[db](x).rows(), expected, "the prepared query")

    # tables that are altered

    def _note(self) -> Call:
        number, value = self._draw.randrange(-3, 12), self._draw.randrange(100)
        if number in self.notes:
            if self._draw.random() < 0.5:
                del self.notes[number]
                return lambda db: db.sql(f"DELETE FROM note WHERE id = {number}")
            self.notes[number]["c0"] = value
            return lambda db: db.sql(f"UPDATE note SET c0 = {value} WHERE id = {number}")
        self.notes[number] = dict(self.columns)
        return lambda db: db.sql(f"INSERT INTO note (id) VALUES ({number})")

    def _alter(self) -> Call:
        others = [c for c in self.columns if c != "c0"]
        fate = self._draw.random()
        if others and fate < 0.4:
            name = self._draw.choice(others)
            del self.columns[name]
            for row in self.notes.values():
                del row[name]
            return lambda db: db.sql(f"ALTER TABLE note DROP COLUMN {name}")
        new = f"c{self.number}"
        if others and fate < 0.6:
            old = self._draw.choice(others)
            self.columns = {new if c == old else c: v for c, v in self.columns.items()}
            self.notes = {k: {new if c == old else c: v for c, v in row.items()} for k, row in self.notes.items()}
            return lambda db: db.sql(f"ALTER TABLE note RENAME COLUMN {old} TO {new}")
        if fate < 0.7:
            value = self._draw.randrange(100)
            self.columns["c0"] = value
            return lambda db: db.sql(f"ALTER TABLE note ALTER COLUMN c0 SET DEFAULT {value}")
        if len(others) > 3:
            return self._note()
        default = self._draw.choice([None, 5, "it's"])
        self.columns[new] = default
        for row in self.notes.values():
            row[new] = default
        kind = "text" if isinstance(default, str) else "int"
        said = "" if default is None else " DEFAULT 'it''s'" if isinstance(default, str) else f" DEFAULT {default}"
        return lambda db: db.sql(f"ALTER TABLE note ADD COLUMN {new} {kind}{said}")

    # rights

    def _rights(self) -> Call:
        if not self.role:
            self.role = True
            return lambda db: db.sql("CREATE ROLE app LOGIN")
        fate = self._draw.random()
        if self.policy is None and fate < 0.5:
            self.policy = self._draw.randrange(4, 12)
            limit = self.policy
            return lambda db: db.sql(f"CREATE POLICY rich ON account TO app USING (balance > {limit})")
        if self.policy is not None and fate < 0.3:
            self.policy = None
            return lambda db: db.sql("DROP POLICY rich ON account")
        self.granted = not self.granted
        text = "GRANT SELECT ON account TO app" if self.granted else "REVOKE SELECT ON account FROM app"
        return lambda db: db.sql(text)

    # time

    def _set_clock(self) -> Call:
        self.clock_is_set = True
        self.now += dt.timedelta(seconds=self._draw.randrange(1, 25))
        now = self.now
        limit = now - dt.timedelta(seconds=TTL)
        self.events = [(at, who) for at, who in self.events if at > limit]
        return lambda db: db.advance(now)

    def _happen(self) -> Call:
        at = self.now + dt.timedelta(seconds=self._draw.randrange(-70, 10), milliseconds=500)
        row = at, f"who {self.number % 5}"
        if at > self.now - dt.timedelta(seconds=TTL):
            self.events.append(row)
        return lambda db: db["event"].insert([row])

    def _measure(self) -> Call:
        draw, base = self._draw, START + dt.timedelta(seconds=self.number // 4)
        rows = [
            (draw.randrange(3), base + dt.timedelta(seconds=draw.randrange(-15, 5)), draw.randrange(9))
            for _ in range(draw.choice([1, 2, 4]))
        ]
        before = self.watermark
        self.measured += [r for r in rows if before is None or r[1] >= before]
        tops = [r[1] - dt.timedelta(seconds=LATE) for r in rows]
        self.watermark = max([*tops, *([before] if before else [])])
        return lambda db: db["measured"].insert(rows)

    # what comes and goes

    def _churn(self) -> Call:
        if self.short and self._draw.random() < 0.5:
            name = self._draw.choice(sorted(self.short))
            del self.short[name]
            return lambda db: db.sql(f"DROP VIEW {name}")
        name, k = f"short{self.number}", self._draw.randrange(1, 5)
        self.short[name] = k
        return lambda db: db.sql(f"CREATE VIEW {name} AS SELECT src % {k} AS g, count(*) AS n FROM edge GROUP BY 1")

    def _sequences(self) -> Call:
        if self.sequence is None:
            self.sequence = 0
            return lambda db: db.sql("CREATE SEQUENCE seq START 1")
        if self._draw.random() < 0.2:
            self.sequence = None
            return lambda db: db.sql("DROP SEQUENCE seq")
        return lambda db: db.sql("SELECT nextval('seq') AS n").rows()

    # what leaves no trace

    def _look(self) -> Call:
        wanted = [(len(self.edges), sum(w for *_, w in self.edges) if self.edges else None)]
        return lambda db: _same(db.sql("SELECT count(*) AS n, sum(w) AS s FROM edge").rows(), wanted, "a query")

    def _look_up(self) -> Call:
        number = self._one() or 1
        wanted = [(number, *self.accounts[number])] if number in self.accounts else []
        return lambda db: _same(db.sql(f"SELECT * FROM account WHERE id = {number}").rows(), wanted, "a look-up")

    def _suppose(self) -> Call:
        """What if an account were closed, and all edges gone."""
        after = self.copy()
        after.edges = []
        gone = list(self.edges)

        def run(db: Any) -> None:
            with db.what_if():
                db["edge"].delete(gone)
                _same(db["far"].rows(), after.rows("far"), "what if")

        return run

    def _checkpoint(self) -> Call:
        return lambda db: db.checkpoint() if hasattr(db, "checkpoint") else None

    def set_clock(self, db: Any) -> None:
        """In a session that was opened: the clock is kept with transactions, so it may have to be moved again."""
        if self.clock_is_set and db.now < self.now:
            db.advance(self.now)

    # what should be there

    def rows(self, name: str) -> list[Row]:
        """What a table or view holds."""
        found: list[Row] = list(getattr(self, f"_rows_{name}")())
        return found

    def _rows_account(self) -> Iterator[Row]:
        return ((k, *v) for k, v in self.accounts.items())

    def _rows_payment(self) -> Iterator[Row]:
        return ((*row, 2 * row[2]) for row in self.payments.elements())

    def _rows_edge(self) -> list[Row]:
        return list(self.edges)

    def _rows_root(self) -> list[Row]:
        return [(n,) for n in self.roots]

    def _rows_pair(self) -> list[Row]:
        return list(self.pairs)

    def _rows_note(self) -> list[Row]:
        return [(k, *(row[c] for c in self.columns)) for k, row in self.notes.items()]

    def _rows_notes(self) -> list[Row]:
        return [(k, row["c0"]) for k, row in self.notes.items() if k > 0]

    def _rows_event(self) -> list[Row]:
        return list(self.events)

    def _rows_recent(self) -> list[Row]:
        limit = self.now - dt.timedelta(seconds=30)
        return [(who,) for at, who in self.events if at > limit]

    def _rows_measured(self) -> list[Row]:
        return list(self.measured)

    def _rows_minutes(self) -> list[Row]:
        sums: Counter[Row] = Counter()
        for k, at, v in self.measured:
            start = at.replace(second=at.second // 10 * 10)
            if self.watermark is not None and start + dt.timedelta(seconds=10) <= self.watermark:
                sums[start, k] += v
        return [(start, k, v) for (start, k), v in sums.items()]

    def _rows_flows(self) -> list[Row]:
        sums: Counter[Row] = Counter()
        for (src, dst, amount), n in self.payments.items():
            if dst is not None:
                sums[self.accounts[src][0], self.accounts[dst][0]] += amount * n
        return [(*names, total) for names, total in sums.items()]

    def _rows_balances(self) -> list[Row]:
        return list(Counter(balance for _, balance in self.accounts.values()).items())

    def _rows_asked(self) -> list[Row]:
        return [(s, d, w) for s, d, w in self.edges if s in self.asked]

    def costs(self, start: int) -> dict[int, int]:
        found = {start: 0}
        todo = [start]
        while todo:
            node = todo.pop(0)
            for s, d, w in self.edges:
                if s == node and found[s] + w < found.get(d, 1 << 60):
                    found[d] = found[s] + w
                    todo.append(d)
        return found

    def _rows_far(self) -> list[Row]:
        best: dict[int, int] = {}
        for root in self.roots:
            for node, cost in self.costs(root).items():
                best[node] = min(cost, best.get(node, cost))
        return list(best.items())

    _rows_far_lean = _rows_far_tight = _rows_far

    def _rows_apart(self) -> list[Row]:
        return [(a, b, c[b]) for a, b in self.pairs if b in (c := self.costs(a))]

    _rows_apart_whole = _rows_apart

    def compare_rows(self, db: Any) -> None:
        """What a session's tables and views hold, with the model; it may be one that only reads."""
        for name in (*TABLES, *SEEN, *VIEWS):
            found = db[name].rows()
            if name == "payment":
                numbers = [r[0] for r in found]
                assert len(set(numbers)) == len(numbers), "a serial number is there twice"
                found = [r[1:] for r in found]
            _same(found, self.rows(name), name)
        assert list(db["note"].schema()) == ["id", *self.columns], "the columns of note"
        if self.clock_is_set:  # it is kept with transactions
            assert db.now <= self.now, (db.now, self.now)
        assert {n for n in db.views if n.startswith("short")} == set(self.short)
        for name, k in self.short.items():
            _same(db[name].rows(), list(Counter(s % k for s, *_ in self.edges).items()), name)

    def compare(self, db: Any) -> None:
        """Everything that a session has, with the model; raises AssertionError."""
        self.compare_rows(db)
        self._compare_rights(db)
        self._compare_constraints(db)
        self._compare_provenance(db)

    def _compare_rights(self, db: Any) -> None:
        try:
            db.sql("SET ROLE app")
        except ev.EverviewError:
            assert not self.role, "the role is gone"
            return
        try:
            assert self.role, "there is a role"
            seen: list[Row] | None = db.sql("SELECT * FROM account").rows()
        except ev.EverviewError as error:
            assert error.code == "E_FORBIDDEN", error
            seen = None
        finally:
            db.sql("RESET ROLE")
        wanted = [] if self.policy is None else [r for r in self.rows("account") if r[2] > self.policy]
        if seen is None:
            assert not self.granted, "what was granted is not"
        else:
            assert self.granted, "nothing was granted"
            _same(seen, wanted, "what a role sees")

    def _compare_constraints(self, db: Any) -> None:
        """They refuse what they should, without a trace."""
        before = db.time
        if self.accounts:
            name = next(iter(self.accounts.values()))[0]
            _refusing("E_UNIQUE", lambda d: d["account"].insert([(5000, name, 1)]))(db)
            src = next(iter(self.accounts))
            if self.limit is not None:
                _refusing("E_CHECK", lambda d: d.sql(f"INSERT INTO payment (src, amount) VALUES ({src}, 9)"))(db)
        _refusing("E_FOREIGN_KEY", lambda d: d.sql("INSERT INTO payment (src, amount) VALUES (777, 1)"))(db)
        with db.what_if():
            db["note"].insert([{"id": -1000}])
            defaults = next(row[1:] for row in db["note"].rows() if row[0] == -1000)
        assert defaults == tuple(self.columns.values()), ("defaults", defaults, self.columns)
        assert db.time == before

    def _compare_provenance(self, db: Any) -> None:
        ends = {(s, d) for s, d, _ in self.edges}
        two, seen = db["two_hops"], {r[:-1] for r in db["two_hops"].rows()}
        assert seen == {(a, d) for a, b in ends for c, d in ends if b == c}, "two_hops"
        draw = random.Random(self.number)
        for row in draw.sample(sorted(seen), min(3, len(seen))):
            some = [e for e in self.edges if draw.random() < 0.5]
            there = {(s, d) for s, d, _ in some}
            wanted = any((row[0], b) in there and (b, row[1]) in there for b in range(NODES))
            assert two.provenance(row).holds([("edge", e) for e in some]) == wanted, ("two_hops", row, some)
        lazy = db["from_root"]
        reached = {r[0] for r in lazy.rows()}
        assert reached == {node for node, _ in self.rows("far")}, "from_root"
        for node in sorted(reached)[:3]:
            kept = lazy.provenance((node,)).variables()
            part = self.copy()
            part.edges = [r.row for r in kept if r.table == "edge"]
            part.roots = {r.row[0] for r in kept if r.table == "root"}
            assert set(part.edges) <= set(self.edges) and part.roots <= self.roots, (node, kept)
            assert node in {n for n, _ in part.rows("far")}, ("from_root", node, kept)


TABLES = ("account", "payment", "edge", "root", "pair", "note", "event", "measured")
SEEN = ("far", "far_lean", "far_tight", "apart", "apart_whole", "asked")
ACTS = [
    *["open_account"] * 3, "close_account", *["deposit"] * 3, *["pay"] * 4, *["transfer"] * 2, *["violate"] * 2,
    "constrain", *["edges"] * 6, *["questions"] * 3, *["replan"] * 2, *["ask"] * 2, *["note"] * 3, *["alter"] * 2,
    *["rights"] * 2, "set_clock", *["happen"] * 2, *["measure"] * 2, *["churn"] * 2, "sequences", "look", "look_up",
    "suppose", "checkpoint",
]  # fmt: skip


def _refusing(code: str, call: Call) -> Call:
    def run(db: Any) -> None:
        try:
            call(db)
        except ev.EverviewError as error:
            if error.code != code:
                raise
        else:
            raise Refused(f"{code} was to be expected")

    return run


def _same(found: list[Row], wanted: list[Row], what: str) -> None:
    if Counter(found) != Counter(wanted):
        more, less = Counter(found) - Counter(wanted), Counter(wanted) - Counter(found)
        raise AssertionError(f"{what} has {list(more.elements())}, should have {list(less.elements())}")
