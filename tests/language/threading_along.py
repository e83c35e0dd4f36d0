"""A program whose threads call one session at once: every public call, under random schedules, compared with a model.

    python -m tests.language.threading_along SEED CALLS [embedded|durable|two] [THREADS]

Each thread does its share of calls, drawn at random. Threads have rows, keys and views of their own in tables that all
share, so that what must be there in the end is known whatever the order was; one table's rows are moved about in
transactions only, so its sum never changes, whoever looks and whenever. Names that all threads make and drop are
fought for, and losing is an error of ours with a code. Threads are switched as often as Python can, and sleep for
random moments in the middle of whatever the dataflow does.

In the end one thread closes the session while the others go on: they must get E_CLOSED. Any other error, any
difference, is an exception here; a crash is the exit status, and a deadlock the time-out.
"""

from __future__ import annotations

import faulthandler
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import everview as ev
from everview import col
from everview.dataflow import dataflow, streams
from everview.kernels import structures
from everview.kernels.trace import read
from tests.inside import inside

LOST = {"E_NAME", "E_DROPPED", "E_TABLE", "E_COMPACTED", "E_FUTURE", "E_IN_USE"}
"""What may come of it when somebody else was quicker."""

MONEY = 1000


class Worker:
    """One thread: what it did, and what it must find."""

    def __init__(self, number: int, db: Any, seed: int, calls: int) -> None:
        self.number, self.db, self.calls = number, db, calls
        self.rng = random.Random(seed * 100 + number)
        self.rows: Counter[tuple[int, int, str]] = Counter()
        self.keys: dict[int, int] = {}
        self.views = 0
        self.closed = threading.Event()
        self.error: str | None = None
        self.thread = threading.Thread(target=self._work, name=f"worker {number}")
        self.t, self.k, self.account = db["t"], db["k"], db["account"]

    def _work(self) -> None:
        actions = [name for name in dir(self) if name.startswith("do_")]
        try:
            while self.calls != 0:
                self.calls -= 1
                action = self.rng.choice(actions)
                try:
                    getattr(self, action)()
                except ev.EverviewError as error:
                    if error.code == "E_CLOSED" and self.calls < 0:
                        self.closed.set()
                        return
                    if error.code not in LOST or "shared" not in action:
                        raise
        except BaseException:
            self.error = traceback.format_exc()

    # changes

    def _row(self) -> tuple[int, int, str]:
        return self.number, self.rng.randrange(20), f"text {self.rng.randrange(10_000)}"

    def do_insert(self) -> None:
        rows = [self._row() for _ in range(self.rng.choice([1, 3, 400]))]
        self.t.insert(rows)
        self.rows.update(rows)

    def do_delete(self) -> None:
        rows = self.rng.sample(sorted(self.rows.elements()), min(self.rows.total(), self.rng.choice([1, 300])))
        self.t.delete(rows)
        self.rows.subtract(rows)

    def do_upsert(self) -> None:
        pairs = {1000 * self.number + self.rng.randrange(9): self.rng.randrange(99) for _ in range(4)}
        self.k.upsert(list(pairs.items()))
        self.keys.update(pairs)

    def do_transfer(self) -> None:
        """Moves money; readers never see it on its way."""
        with self.db.transaction():
            here, there = self.rng.sample(range(8), 2)
            self.db.sql(f"UPDATE account SET n = n - 1 WHERE id = {here}")
            self.pause()
            self.db.sql(f"UPDATE account SET n = n + 1 WHERE id = {there}")

    def do_sql_transaction(self) -> None:
        row = self._row()
        with inside(self.db).writing:  # BEGIN and COMMIT are a thread's own: this keeps them with the model
            self.db.sql("BEGIN")
            self.db.sql(f"INSERT INTO t VALUES ({row[0]}, {row[1]}, '{row[2]}')")
            self.db.sql("COMMIT")
        self.rows[row] += 1

    def do_undone(self) -> None:
        try:
            with self.db.transaction():
                self.t.insert([self._row()])
                raise LookupError
        except LookupError:
            pass

    def do_batch(self) -> None:
        rows = [self._row() for _ in range(3)]
        with self.db.batch():
            for row in rows:
                self.t.insert([row])
                self.rows[row] += 1
                self.pause()

    def do_sql_changes(self) -> None:
        x = self.rng.randrange(20)
        self.db.sql(f"DELETE FROM t WHERE who = {self.number} AND x = {x}")
        for row in [r for r in self.rows if r[1] == x]:
            del self.rows[row]

    # reading

    def do_sums(self) -> None:
        assert self.db.sql("SELECT sum(n) AS s FROM account").rows() == [(MONEY,)]
        assert self.db["wealth"].rows() == [(MONEY,)]
        assert sum(n for _, n in self.account.rows()) == MONEY

    def do_own_rows(self) -> None:
        found = self.db.sql(f"SELECT who, x, s FROM t WHERE who = {self.number}").rows()
        assert Counter(found) == +self.rows
        assert sorted(r for r in self.db["firsts"].rows() if r[0] == self.number) == sorted(
            {(self.number, x) for (_, x, _), n in self.rows.items() if n}
        )

    def do_snapshot(self) -> None:
        snapshot = self.db["wealth"].as_of(self.db.time)
        contents = self.account.as_of(snapshot.time) if self.rng.random() < 0.5 else None
        self.pause()
        assert snapshot.rows() == [(MONEY,)] and len(snapshot.to_arrow()) == 1
        if contents is not None:
            assert sum(n for _, n in contents.rows()) == MONEY

    def do_changes(self) -> None:
        assert all(time > 0 for _, time, _ in self.db["wealth"].changes(since=max(0, self.db.time - 20)))

    def do_lookup(self) -> None:
        key = 1000 * self.number + self.rng.randrange(9)
        assert self.k.lookup(key) == [(k, v) for k, v in self.keys.items() if k == key]
        assert self.db["by value"].lookup(-5) == []

    def do_inspect(self) -> None:
        assert self.db.stats()["tables"] >= 3
        view = self.db["firsts"]
        assert view.stats()["name"] == "firsts" and "arrangements" in view.explain()
        assert self.db.sql("EXPLAIN SELECT who, count(*) AS n FROM t GROUP BY who").rows()
        assert "wealth" in repr(self.db) and self.db.sql("SHOW VIEWS").rows()

    def do_arrow(self) -> None:
        assert self.db["firsts"].to_arrow().num_columns == 2
        assert self.t.to_arrow().num_columns == 3

    # tables and views

    def do_view(self) -> None:
        self.views += 1
        name, limit = f"own {self.number} {self.views}", self.rng.randrange(20)
        view = self.db.view(name, self.t.filter(col.x > limit).group_by("who").agg(n=ev.count()))
        self.pause()
        mine = sum(n for (_, x, _), n in self.rows.items() if x > limit)
        assert [n for who, n in view.rows() if who == self.number] == ([mine] if mine else [])
        view.drop()

    def do_datalog(self) -> None:
        self.views += 1
        name = f"rule_{self.number}_{self.views}"
        self.db.datalog(f"{name}(X, Z) :- t(W, X, S), k(Y, Z), W = {self.number}, Y = X + {1000 * self.number}.")
        found = {(x, self.keys[1000 * self.number + x]) for (_, x, _), n in self.rows.items()
                 if n and 1000 * self.number + x in self.keys}  # fmt: skip
        assert set(self.db[name].rows()) == found
        self.db.sql(f"DROP VIEW {name}")

    def do_shared_view(self) -> None:
        if self.rng.random() < 0.5:
            self.db.sql("CREATE VIEW shared AS SELECT x, count(*) AS n FROM t GROUP BY x")
        else:
            self.db["shared"].drop()

    def do_shared_read(self) -> None:
        view = self.db["shared"]
        snapshot = view.as_of(self.db.time)
        self.pause()
        rows = snapshot.rows()  # also if somebody drops the view now
        assert len({x for x, _ in rows}) == len(rows)

    def do_shared_table(self) -> None:
        if self.rng.random() < 0.5:
            self.db.table("shared table", {"x": int, "s": str})
        else:
            table = self.db["shared table"]
            table.insert([(1, "a"), (2, "b")])
            table.drop(cascade=True)

    def do_subscribe(self) -> None:
        seen: Counter[tuple[Any, ...]] = Counter()

        def hear(batch: Any) -> None:
            for row, diff in batch.rows():
                seen[row] += diff

        stop = self.db["wealth"].subscribe(hear)
        self.pause()
        stop()
        assert stop.error is None
        assert seen[MONEY,] == 1

    def do_prepared(self) -> None:
        mine = sorted((x,) for (_, x, _), n in self.rows.items() for _ in range(n))
        assert self.db_prepared(who=self.number).rows() == mine

    def do_checkpoint(self) -> None:
        if hasattr(self.db, "checkpoint") and self.rng.random() < 0.3:
            self.db.checkpoint()

    db_prepared: Any = None

    def pause(self) -> None:
        if self.rng.random() < 0.5:
            time.sleep(self.rng.random() * 2e-3)


def interleave(seed: int) -> None:
    """Let threads sleep now and then before what the dataflow does."""
    rng = random.Random(seed)

    def slowly(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if rng.random() < 0.02:
                time.sleep(rng.random() * 3e-4)
            return function(*arguments, **named)

        return call

    for owner, names in (
        (structures, ("peek", "poke", "make_filled", "drop_block", "push_rows")),
        (read, ("collect", "release")),
        (dataflow.Dataflow, ("assemble", "remove", "install", "run")),
        (streams.Stream, ("listed", "detach")),
    ):
        for name in names:
            setattr(owner, name, slowly(getattr(owner, name)))


def main(seed: int, calls: int, where: str = "embedded", threads: int = 4) -> None:
    faulthandler.enable()
    sys.setswitchinterval(1e-6)
    directory = tempfile.mkdtemp() if where == "durable" else None
    db: Any = ev.connect(directory) if directory else ev.connect(threads=2 if where == "two" else 1)
    t = db.table("t", {"who": int, "x": int, "s": str})
    k = db.table("k", {"id": int, "v": int}, key="id")
    account = db.table("account", {"id": int, "n": int}, key="id")
    account.insert([(i, MONEY // 8) for i in range(8)])
    db.view("wealth", account.group_by().agg(s=col.n.sum()))
    firsts = db.view("firsts", t.select("who", "x").distinct())
    db.view("by value", k.select("id", "v"))
    Worker.db_prepared = db.prepare("prepared", "SELECT x FROM t WHERE who = $who ORDER BY x")
    told: Counter[tuple[Any, ...]] = Counter()
    firsts.subscribe(lambda batch: told.update(dict(batch.rows())))
    interleave(seed)
    workers = [Worker(n, db, seed, calls // threads) for n in range(threads)]
    _run(workers)
    assert Counter(t.rows()) == sum((+w.rows for w in workers), Counter())
    assert dict(k.rows()) == {key: v for w in workers for key, v in w.keys.items()}
    wanted = {(who, x) for w in workers for (who, x, _), n in w.rows.items() if n}
    assert set(firsts.rows()) == wanted == set(+told), "what the subscriber was told"
    for worker in workers:
        worker.calls = -1  # until it is closed
        worker.thread = threading.Thread(target=worker._work)
        worker.thread.start()
    time.sleep(0.2)
    db.close()
    _join(workers)
    assert all(w.closed.is_set() for w in workers)
    if directory:
        with ev.connect(directory) as again:
            assert sum(n for _, n in again["account"].rows()) == MONEY
            assert set(again["firsts"].rows()) == {(who, x) for who, x, _ in again["t"].rows()}
        shutil.rmtree(directory)
    print(f"{where}, seed {seed}: {calls} calls in {threads} threads")


def _run(workers: list[Worker]) -> None:
    for worker in workers:
        worker.thread.start()
    _join(workers)


def _join(workers: list[Worker]) -> None:
    for worker in workers:
        worker.thread.join(300)
        if worker.thread.is_alive():
            faulthandler.dump_traceback()
            raise SystemExit("a thread waits for ever")
    for worker in workers:
        if worker.error is not None:
            raise SystemExit(worker.error)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:4], *map(int, sys.argv[4:]))  # type: ignore[arg-type]
