"""A program that is interrupted: random calls of a session, each cut off at a random instant, compared with a model.

    python -m tests.language.interrupting SEED INTERRUPTS [embedded|durable|shards|spark] HOW
    python -m tests.language.interrupting SEED 0 embedded every:insert

How a call is cut off:

    signal   Ctrl-C's handler, called at the n-th instant at which Python would look for signals: a function begins, a C
             function returns
    unheard  the same where nobody has subscribed: then a change of one statement does not make signals wait
    alarm    the same with a handler of the program's own, for SIGALRM, that raises
    thread   an exception that cannot wait, raised by a profile hook at the same instants: it stands in for what another
             thread raises (`PyThreadState_SetAsyncExc`), which comes at such places
    places   the same at any place where the interpreter looks for such exceptions while it runs our code: behind every
             call of a C function, at the beginning of every function, at the end of every pass of a loop. After every
             second one another comes soon, while the first is being dealt with
    async    another thread does raise it, whenever it likes (calls are made in a thread that is not the main one)
    kill     Ctrl-C from outside, whenever it comes

n is drawn up to a little more than such a call took last time; `every:KIND` makes one call after the other of a kind
and cuts the first off at its first place, the second at its second, and so on. After each interrupt tables and views
are compared with a model that knows the state before and after the call: it must be one of them, whole. It ends by
dropping all views, which must leave no operator but the tables', and (durable) by opening the directory once more.

It prints what it did; any difference is an exception, a crash is the exit status.
"""

from __future__ import annotations

import contextlib
import ctypes
import dis
import faulthandler
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa

import everview as ev
from everview.dataflow.shield import shielded
from everview.kernels.guarded_calls import CELL_FAULTS
from everview.kernels.memory import cell
from everview.language.relation import relation_of
from everview.session.local_shards import local_shards
from tests.inside import inside
from tests.spark import inprocess

Row = tuple[Any, ...]


class Cut(BaseException):
    """What an alarm or another thread raises."""


class Model:
    """What the tables hold, and which views there are."""

    def __init__(self) -> None:
        self.t: Counter[Row] = Counter()
        self.k: dict[int, int] = {}
        self.views: dict[str, int] = {}
        self.extra: set[str] = set()
        self.prepared: set[str] = set()
        self.between: Model | None = None  # half of it, if that is whole, too

    def copy(self) -> Model:
        other = Model()
        other.t, other.k, other.views = Counter(self.t), dict(self.k), dict(self.views)
        other.extra, other.prepared = set(self.extra), set(self.prepared)
        return other

    def contents(self, kind: int) -> list[Row]:
        """What a view of a kind holds."""
        rows = list(self.t.elements())
        if kind == 0:
            return sorted(set(rows))
        if kind == 1:
            groups: dict[int, int] = {}
            for x, y in rows:
                groups[y] = groups.get(y, 0) + x
            return sorted(groups.items())
        if kind == 2:
            return sorted((x, self.k[y]) for x, y in rows if y in self.k)
        reached = {0}
        while True:
            more = reached | {b for a, b in self.k.items() if a in reached}
            if more == reached:
                return sorted((n,) for n in reached)
            reached = more


TEXTS = {
    0: "SELECT DISTINCT x, y FROM t",
    1: "SELECT y, sum(x) AS s FROM t GROUP BY y",
    2: "SELECT t.x, k.v FROM t JOIN k ON t.y = k.id",
    3: "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT k.v FROM r JOIN k ON k.id = r.n) SELECT n FROM r",
}
"""The kinds of views."""

Action = Callable[[], Any]


class World:
    """A session, its model, and what can be done to both."""

    def __init__(self, db: Any, rng: random.Random, how: str) -> None:
        self.db, self.rng, self.model = db, rng, Model()
        foreign = how in ("thread", "places", "every", "async")
        self.hears = not foreign and how != "unheard"  # what another thread raises may hit the subscriber itself
        self.t = db.table("t", {"x": int, "y": int})
        self.k = db.table("k", {"id": int, "v": int}, key="id")
        self.names = 0
        self.held: list[tuple[Any, list[Row]]] = []
        self.told: Counter[Row] = Counter()
        watched = db.sql(f"CREATE VIEW watched AS {TEXTS[1]}")
        self.model.views["watched"] = 1
        if how != "unheard":
            watched.subscribe(self._hear)
        self.time = db.time
        if foreign:
            self._have_company()

    def _have_company(self) -> None:
        """From now on steps may be read beside, which takes more calls (`everview.dataflow.read_leases`)."""
        reader = threading.Thread(target=self.t.rows)
        reader.start()
        reader.join()

    @shielded
    def _hear(self, batch: Any) -> None:
        for row, diff in batch.rows():
            self.told[row] += diff

    def row(self) -> Row:
        return self.rng.randrange(30), self.rng.randrange(8)

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def action(self, only: str = "") -> tuple[str, Action, Model]:
        """Something to do: its kind, the call, and the model after it."""
        kind = only or self.rng.choice(ACTIONS)
        after = self.model.copy()
        return kind, getattr(self, f"_{kind}")(after), after

    # changes

    def _insert(self, after: Model) -> Action:
        rows = [self.row() for _ in range(self.rng.choice([1, 3, 300]))]
        after.t.update(rows)
        return lambda: self.t.insert(rows)

    def _delete(self, after: Model) -> Action:
        rows = self.rng.sample(sorted(after.t.elements()), min(after.t.total(), self.rng.choice([1, 5, 400])))
        after.t.subtract(rows)
        after.t += Counter()
        return lambda: self.t.delete(rows)

    def _refused(self, after: Model) -> Action:
        made = [self.row() for _ in range(300)]  # enough to be sorted ahead of the step, which is undone then
        rows = pa.table({"x": [x for x, _ in made], "y": [y for _, y in made]})

        def run() -> None:
            with contextlib.suppress(ev.InputError), self.db.transaction():
                self.t.insert(rows)
                self.t.delete([(1000, 1000)])

        return run

    def _upsert(self, after: Model) -> Action:
        rows = [(self.rng.randrange(12), self.rng.randrange(12)) for _ in range(3)]
        after.k.update(rows)
        return lambda: self.k.upsert(rows)

    def _transaction(self, after: Model) -> Action:
        row, pair = self.row(), (self.rng.randrange(12), self.rng.randrange(12))
        after.t[row] += 1
        after.k[pair[0]] = pair[1]

        def run() -> None:
            with self.db.transaction():
                self.t.insert([row])
                with self.db.transaction():
                    self.k.upsert([pair])

        return run

    def _batch(self, after: Model) -> Action:
        rows = [self.row(), self.row()]
        after.t[rows[0]] += 1
        after.between = after.copy()  # each is a transaction of its own
        after.t[rows[1]] += 1

        def run() -> None:
            with self.db.batch():
                for row in rows:
                    self.t.insert([row])

        return run

    def _sql_changes(self, after: Model) -> Action:
        x, y = self.row()
        if self.rng.random() < 0.5:
            after.t[x, y] += 1
            return lambda: self.db.sql(f"INSERT INTO t VALUES ({x}, {y})")
        after.t = Counter({row: n for row, n in after.t.items() if row[1] != y})
        return lambda: self.db.sql(f"DELETE FROM t WHERE y = {y}")

    # views

    def _create(self, after: Model) -> Action:
        name, kind = self.name(), self.rng.randrange(4)
        after.views[name] = kind
        return lambda: self.db.sql(f"CREATE VIEW {name} AS {TEXTS[kind]}")

    def _drop(self, after: Model) -> Action:
        names = sorted(set(after.views) - {"watched"})
        if not names:
            return self._create(after)
        name = self.rng.choice(names)
        del after.views[name]
        return lambda: self.db.sql(f"DROP VIEW {name}") if self.rng.random() < 0.5 else self.db[name].drop()

    def _datalog(self, after: Model) -> Action:
        name = self.name()
        after.views[name] = 0
        return lambda: self.db.datalog(f"{name}(X, Y) :- t(X, Y).")

    def _table(self, after: Model) -> Action:
        if after.extra and self.rng.random() < 0.6:
            name = self.rng.choice(sorted(after.extra))
            after.extra.remove(name)
            return lambda: self.db[name].drop(cascade=True)
        name = self.name()
        after.extra.add(name)
        return lambda: self.db.table(name, {"x": int, "s": str}, key="x")

    def _prepare(self, after: Model) -> Action:
        if after.prepared:
            prepared, y = self.ready, self.rng.randrange(8)  # type: ignore[has-type]
            return lambda: prepared(y=y)

        def run() -> None:
            self.ready = self.db.prepare("ready", "SELECT x FROM t WHERE y = $y ORDER BY x")

        after.prepared.add("ready")
        return run

    def _rename(self, after: Model) -> Action:
        names = sorted(set(after.views) - {"watched"})
        if not names:
            return self._create(after)
        old, new = self.rng.choice(names), self.name()
        after.views[new] = after.views.pop(old)
        return lambda: self.db.sql(f"ALTER VIEW {old} RENAME TO {new}")

    def _index(self, after: Model) -> Action:
        index = self.name()

        def run() -> None:
            self.db.sql(f"CREATE INDEX {index} ON watched (y)")
            self.db.sql(f"DROP INDEX {index}")

        return run

    # reading

    def _what_if(self, after: Model) -> Action:
        rows, name = [self.row(), self.row()], self.rng.choice(sorted(after.views))
        there = after.copy()
        there.t.update(rows)
        expected = there.contents(after.views[name])

        def run() -> None:
            with self.db.what_if() as supposed:
                self.t.insert(rows)
                _same(self.db[name].rows(), expected, f"what if, {name}")
                assert supposed is not None

        return run

    def _limited(self, after: Model) -> Action:
        kind = self.rng.randrange(4)

        def run() -> None:
            with self.db.limits(seconds=60, memory="4GB"):
                _same(self.db.sql(TEXTS[kind]).rows(), after.contents(kind))

        return run

    def _select(self, after: Model) -> Action:
        kind = self.rng.randrange(4)
        return lambda: _same(self.db.sql(TEXTS[kind]).rows(), after.contents(kind))

    def _read(self, after: Model) -> Action:
        name = self.rng.choice(sorted(after.views))
        view, kind = self.db[name], after.views[name]
        return self.rng.choice(
            [
                lambda: _same(view.rows(), after.contents(kind)),
                lambda: view.to_arrow(),
                lambda: view.lookup(3),
                lambda: view.changes(since=self.db.time),
                lambda: view.stats(),
                lambda: view.explain(),
                lambda: self.db.stats(),
                lambda: self.db.sql(f"EXPLAIN {TEXTS[2]}"),
                lambda: self.held.append((view.as_of(self.db.time), after.contents(kind))),
                lambda: view.subscribe(lambda batch: None)(),
                lambda: self.t.to_arrow(),
            ]
        )

    def _checkpoint(self, after: Model) -> Action:
        return self.db.checkpoint if hasattr(self.db, "checkpoint") else self.db.stats

    # comparing

    def check(self, after: Model) -> None:
        """The session is as before the call or as after it; the model becomes whichever it is."""
        db = self.db
        seen = Counter(self.t.rows()), dict(self.k.rows()), set(db.views) - {"ready"}, set(db.tables) - {"t", "k"}
        before = self.model
        for model in (after, before, after.between or before):
            if seen == (model.t, model.k, set(model.views), model.extra):
                break
        else:
            shown = [(seen[0] - m.t, m.t - seen[0], seen[1] == m.k, seen[2] ^ set(m.views)) for m in (before, after)]
            raise AssertionError(f"neither before nor after: {shown}, tables {seen[3]}")
        assert model is not before or db.time == self.time, "time has passed, and nothing has changed"
        self.model, self.time = model, db.time
        model.prepared = set(db.views) & {"ready"}
        if model.prepared and not hasattr(self, "ready"):  # complete, but its answer was lost
            db["ready"].drop()
            model.prepared.clear()

    def check_views(self) -> None:
        for name, kind in self.model.views.items():
            _same(self.db[name].rows(), self.model.contents(kind), f"view {name}")
        if self.hears:
            _same(list((+self.told).elements()), self.model.contents(1), "what the subscriber was told")
        while self.held:
            snapshot, rows = self.held.pop()
            _same(snapshot.rows(), rows, "a snapshot")
        held = [name for name in ("writing", "lock") if getattr(inside(self.db), name)._is_owned()]
        assert not held, f"still held: {held}"
        assert cell[CELL_FAULTS] == 0, "the debug build has found a bad access"

    def stay_small(self) -> None:
        """Drop views, if there are many: each one more makes the next a little longer, so that a call which is cut off
        at one place after the other would never come to its end.
        """
        while len(self.model.views) > 5:
            name = next(n for n in self.model.views if n != "watched")
            self.db[name].drop()
            del self.model.views[name]


ACTIONS = [
    "insert", "insert", "delete", "upsert", "transaction", "batch", "sql_changes", "create", "create", "drop", "drop",
    "datalog", "table", "prepare", "select", "select", "read", "read", "checkpoint", "rename", "index", "what_if",
    "limited",
]  # fmt: skip


def _same(got: list[Row], wanted: list[Row], what: str = "the answer") -> None:
    if sorted(got) != sorted(wanted):
        more, less = Counter(got) - Counter(wanted), Counter(wanted) - Counter(got)
        raise AssertionError(f"{what} has {list(more.elements())}, should have {list(less.elements())}")


HOME = os.path.dirname(ev.__file__)
OURS = (*(f"{HOME}/{part}/" for part in ("dataflow", "kernels", "recovery", "runtime", "session")), contextlib.__file__)
"""Where code is from that is cut off at places: what keeps the books of the kernels' memory."""


@cache
def places(code: CodeType) -> frozenset[int]:
    """The instructions of a function before which an exception of another thread may be raised. Python counts it as
    raised by the instruction before; where another handler would have that, it is left out.
    """
    instructions = list(dis.get_instructions(code))
    found: set[int] = set()
    for instruction, following in pairwise(instructions):
        if instruction.opname in ("RESUME", "CALL", "CALL_FUNCTION_EX"):
            place = following.offset
        elif "JUMP_BACKWARD" in instruction.opname:
            place = instruction.argval
        else:
            continue
        if _handler(code, place) == _handler(code, instruction.offset):
            found.add(place)
    return frozenset(found)


def _handler(code: CodeType, offset: int) -> int | None:
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return next((e.target for e in entries if e.start <= offset < e.end), None)


class Interrupts:
    """Cuts calls off, in one of seven ways."""

    def __init__(self, how: str, rng: random.Random) -> None:
        self.how, self.rng = how, rng
        self.lasted: dict[str, float] = {}
        self.happened = 0
        self.left = 0
        self.again = 0
        self.every = 0
        self.killer = Killer() if how == "kill" else None
        self.raiser = Raiser() if how == "async" else None
        if how == "alarm":
            signal.signal(signal.SIGALRM, self._alarm)
        elif how in ("signal", "unheard", "kill"):  # what a shell starts in the background ignores it
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @staticmethod
    def _alarm(*_: Any) -> None:
        raise Cut

    def run(self, kind: str, call: Action) -> bool:
        """Whether the call came to its end by itself."""
        try:
            if self.killer is not None:
                self._kill(self.killer, kind, call)
            elif self.raiser is not None:
                return self._raise(self.raiser, kind, call)
            else:
                self._count(kind, call)
        except (KeyboardInterrupt, Cut):
            self.happened += 1
            return False
        return True

    def _count(self, kind: str, call: Action) -> None:
        known = self.lasted.get(kind, 300.0)
        at = self.rng.randrange(1, int(1.1 * known) + 2)
        if self.how == "every":
            at = self.every = self.every + 1
        self.left = at
        if self.how in ("places", "every"):
            sys.settrace(self._enter)
        else:
            sys.setprofile(self._tick)
        try:
            call()
        finally:
            sys.settrace(None)
            sys.setprofile(None)
            if self.left > 0:
                self.lasted[kind] = 0.8 * known + 0.2 * (at - self.left)
            elif at > 0.9 * known:
                self.lasted[kind] = 1.3 * known

    def _tick(self, frame: Any, event: str, argument: Any) -> None:
        if event not in ("call", "c_return"):
            return
        self.left -= 1
        if self.left != 0:
            return
        if self.how == "thread":
            raise Cut
        number = signal.SIGALRM if self.how == "alarm" else signal.SIGINT
        handler: Any = signal.getsignal(number)
        handler(number, frame)  # as Python calls it

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._at

    def _at(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and frame.f_lasti in places(frame.f_code):
            self.left -= 1
            if self.left == 0:
                if self.rng.random() < 0.5:  # the tracing ends with an exception, but not the profile
                    self.again = self.rng.choice([3, 10, 30, 100])
                    sys.setprofile(self._tick_again)
                raise Cut
        return self._at

    def _tick_again(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(OURS):
            self.again -= 1
            if self.again == 0:
                raise Cut

    def _kill(self, killer: Killer, kind: str, call: Action) -> None:
        known = self.lasted.get(kind, 1e-3)
        began = time.perf_counter()
        killer.after(self.rng.random() * 1.2 * known)
        try:
            call()
            self.lasted[kind] = 0.8 * known + 0.2 * (time.perf_counter() - began)
        finally:
            try:
                killer.stop()
            except KeyboardInterrupt:
                killer.stop()

    def _raise(self, raiser: Raiser, kind: str, call: Action) -> bool:
        """Two exceptions may come of one wish: it may be raised while the first is on its way."""
        known = self.lasted.get(kind, 1e-3)
        whole = False
        try:
            began = time.perf_counter()
            raiser.delay = self.rng.random() * 1.2 * known
            call()
            whole = True
            self.lasted[kind] = 0.8 * known + 0.2 * (time.perf_counter() - began)
        except Cut:
            pass
        while True:
            try:
                raiser.stop()
                break
            except Cut:
                pass
        self.happened += not whole
        return whole


class Raiser:
    """A thread that raises `Cut` in the one that made it. They share two plain attributes: whatever has a lock could be
    left locked by the exception.
    """

    def __init__(self) -> None:
        self.delay: float | None = None
        self._raising = False
        self._victim = ctypes.c_ulong(threading.get_ident())
        threading.Thread(target=self._work, daemon=True).start()

    def stop(self) -> None:
        """From now on nothing comes, not even what is on its way."""
        self.delay = None
        while self._raising:
            time.sleep(0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(self._victim, None)

    def _work(self) -> None:
        while True:
            delay = self.delay
            if delay is None:
                time.sleep(1e-4)
                continue
            end = time.perf_counter() + delay
            while time.perf_counter() < end and self.delay is delay:
                time.sleep(0)
            self._raising = True
            if self.delay is delay:
                self.delay = None
                ctypes.pythonapi.PyThreadState_SetAsyncExc(self._victim, ctypes.py_object(Cut))
            self._raising = False


class Killer:
    """A thread that sends Ctrl-C to its own process."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self.idle = threading.Event()
        self.delay: float | None = 0.0
        self.idle.set()
        threading.Thread(target=self._work, daemon=True).start()

    def after(self, delay: float) -> None:
        self.delay = delay
        self.idle.clear()
        self.wanted.set()

    def stop(self) -> None:
        self.delay = None
        self.idle.wait()

    def _work(self) -> None:
        while True:
            self.wanted.wait()
            self.wanted.clear()
            end = time.perf_counter() + (self.delay or 0.0)
            while time.perf_counter() < end and self.delay is not None:
                time.sleep(0)
            if self.delay is not None:
                os.kill(os.getpid(), signal.SIGINT)
            self.idle.set()


def drop_everything(world: World) -> None:
    """Without views there are no operators but the tables'."""
    db = world.db
    if world.model.prepared:
        world.ready.drop()
    for name in list(db.views):
        db[name].drop()
    tables = {relation_of(table).arrangement.operator for table in inside(db).catalog.tables.values()}
    running, copies = inside(db).runtime.dataflows()
    for dataflow in (*running, *copies):
        numbers = {o.number for o in tables}
        left = [o for o in dataflow.operators() if o.number not in numbers and o.label != "errors"]
        assert not left, f"left behind: {[o.describe() for o in left]}"
        assert {n for n, o in enumerate(dataflow.numbered) if o is not None} == numbers


def main(seed: int, wanted: int, where: str = "embedded", how: str = "signal") -> None:
    faulthandler.enable()
    logging.disable(logging.CRITICAL)
    rng = random.Random(seed)
    directory = tempfile.mkdtemp() if where in ("durable", "spark") else None

    def opened() -> Any:
        if where == "spark":
            return ev.connect(inprocess.session(), state=directory, shards=2)
        return local_shards(shards=2) if where == "shards" else ev.connect(directory) if directory else ev.connect()

    db = opened()
    how, _, only = how.partition(":")
    world, interrupts = World(db, rng, how), Interrupts(how, rng)
    calls = 0
    whole = False
    while interrupts.happened < wanted or (only and not whole):
        kind, call, after = world.action(only)
        calls += 1
        whole = interrupts.run(kind, call)
        try:
            world.check(after)
            world.check_views()
        except AssertionError as error:
            how_far = "whole" if whole else "cut off"
            raise AssertionError(f"seed {seed}, call {calls}, {kind}, {how_far}: {error}") from error
        if only:
            world.stay_small()
    if directory:
        expected = world.model
        world.db.close()
        with opened() as last:
            assert Counter(last["t"].rows()) == expected.t and dict(last["k"].rows()) == expected.k
            assert set(last.views) - {"ready"} == set(expected.views)
            for name, kind in expected.views.items():  # type: ignore[assignment]
                _same(last[name].rows(), expected.contents(kind))  # type: ignore[arg-type]
        shutil.rmtree(directory)
    else:
        drop_everything(world)
        world.db.close()
    print(f"{where}, {how}, seed {seed}: {interrupts.happened} interrupts in {calls} calls")


if __name__ == "__main__":
    arguments = (int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
    if "async" not in arguments:
        main(*arguments)  # type: ignore[arg-type]
    else:
        raised: list[BaseException] = []

        def run() -> None:
            try:
                main(*arguments)  # type: ignore[arg-type]
            except BaseException as error:
                traceback.print_exc()
                raised.append(error)

        made = threading.Thread(target=run)
        made.start()
        made.join()
        sys.exit(len(raised))
