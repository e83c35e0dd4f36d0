"""Out of memory anywhere in a kernel: E_MEMORY, the session as before, and the next steps give right answers.

Every allocation of a step is made to fail in turn (`memory.CELL_FAIL_IN`), for programs that reach every operator; and
processes with a real limit (`ulimit -v`) run into it.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col, count
from everview.kernels.build.native import DEBUG
from everview.kernels.guarded_calls import (
    CELL_FAIL_IN,
    CELL_FAULTS,
    CELL_LIMIT,
    CELL_LIVE_BLOCKS,
    CELL_TRACK_FROM,
    CELL_TRACKED_WORDS,
)
from everview.kernels.memory import TRACKED_FROM, cell
from tests.inside import inside
from tests.oracle import graphs

Step = tuple[Callable[[], object], Callable[[], object]]
"""What is done, and what undoes it."""


@pytest.fixture(autouse=True)
def all_blocks_are_tracked() -> Iterator[None]:
    usual = int(cell[CELL_TRACK_FROM])
    cell[CELL_TRACK_FROM] = 0
    yield
    cell[CELL_TRACK_FROM], cell[CELL_FAIL_IN], cell[CELL_LIMIT] = usual, 0, 0
    assert cell[CELL_FAULTS] == 0


def state(db: ev.Session) -> Any:
    tables = {name: sorted(t.rows()) for name, t in inside(db).catalog.tables.items()}
    return db.time, tables, {name: sorted(v.rows()) for name, v in inside(db).catalog.views.items()}


def fail_everywhere(db: ev.Session, do: Callable[[], object], undo: Callable[[], object], after: Any) -> int:
    """Do it with the first allocation failing, the second, and so on; how many times it failed. At first nothing is in
    between, so that scratch memory is fresh, then it is done and undone each time.
    """
    failures = 0
    for again in (False, True):
        n = 0
        while True:
            n += 1
            before = state(db)
            cell[CELL_FAIL_IN] = n
            try:
                do()
            except ev.MemoryLimitError as error:
                failures += 1
                assert error.code == "E_MEMORY" and "enough memory" in error.message
                assert cell[CELL_FAIL_IN] == 0
                assert state(db) == before, f"allocation {n}"
                if not again:
                    continue
                do()
            left, cell[CELL_FAIL_IN] = int(cell[CELL_FAIL_IN]), 0
            assert state(db)[1:] == after, f"allocation {n}"
            undo()
            assert state(db)[1:] == before[1:], f"allocation {n}"
            if left:  # it needed fewer than n
                break
    return failures


def fails(program: Callable[[ev.Session], Step], split: int = 0) -> int:
    """How many times a program failed and was right afterwards, compared with a session where it never failed.

    In a process of its own: sessions of other tests may have threads, which would allocate, and fail, beside it.
    """
    code = f"from tests.oracle import test_memory as here; print(here.fail_alone(here.{program.__name__}, {split}))"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def fail_alone(program: Callable[[ev.Session], Step], split: int) -> int:
    """`fails`, in a process where nothing else runs."""
    cell[CELL_TRACK_FROM] = 0
    with ev.connect() as other:
        program(other)[0]()
        expected = state(other)[1:]
    gc.collect()
    before = int(cell[CELL_TRACKED_WORDS])
    with ev.connect(threads=2 if split else 1) as db:
        if inside(db).runtime.dataflow.threads is not None:
            inside(db).runtime.dataflow.threads.share_from(split)
        failures = fail_everywhere(db, *program(db), expected)
    if program is not installing:  # an operator that was half made is a leak of some words
        deadline = time.monotonic() + 5
        while int(cell[CELL_TRACKED_WORDS]) != before and time.monotonic() < deadline:
            time.sleep(0.01)  # a helper's thread may be about to give back what it had
        assert int(cell[CELL_TRACKED_WORDS]) == before
    assert cell[CELL_FAULTS] == 0
    return failures


def _edges(db: ev.Session, n: int = 40) -> ev.Table:
    edge = db.table("edge", {"src": int, "dst": int})
    edge.insert([(i, (7 * i + 3) % n) for i in range(n)] + [(i, i + 1) for i in range(n)])
    return edge


NEW = [(3, 30), (30, 4), (50, 3), (4, 50), (1000, 2**60), (-(2**61), 17)]
OLD = [(0, 3), (1, 2)]


def _change(db: ev.Session, edge: ev.Table) -> Step:
    def do() -> None:
        with db.transaction():
            edge.insert(NEW)
            edge.delete(OLD)

    def undo() -> None:
        with db.transaction():
            edge.insert(OLD)
            edge.delete(NEW)

    return do, undo


def repeated_rows(db: ev.Session) -> Step:
    """Rows that are there already: diffs that were all ones become a column where batches are merged."""
    edge = _edges(db)
    rows = [(i, i + 1) for i in range(40)]
    return lambda: edge.insert(rows), lambda: edge.delete(rows)


def joins(db: ev.Session) -> Step:
    edge = _edges(db)
    e2 = edge.alias("e2")
    db.view("hops", edge.join(e2, edge.dst == e2.src).select(a=edge.src, b=e2.dst))
    return _change(db, edge)


def reductions(db: ev.Session) -> Step:
    edge = _edges(db)
    by = edge.group_by("src")
    db.view("sums", by.agg(n=count(), s=col.dst.sum(), low=col.dst.min(), high=col.dst.max(), mean=col.dst.avg()))
    db.view("targets", edge.select("dst").distinct())
    db.view("count", edge.agg(n=count()))
    return _change(db, edge)


def loop(db: ev.Session) -> Step:
    edge = _edges(db)
    root = db.table("root", {"node": int})
    root.insert([(1,)])
    db.view("reach", graphs.reach(edge, root))
    return _change(db, edge)


def nested_loops(db: ev.Session) -> Step:
    edge = _edges(db, 12)
    db.view("strong", graphs.strong_edges(edge.distinct()))
    return _change(db, edge)


def windows(db: ev.Session) -> Step:
    edge = _edges(db)
    db.sql("CREATE VIEW w AS SELECT src, dst, sum(dst) OVER (PARTITION BY src % 3 ORDER BY dst, src) AS s FROM edge")
    return _change(db, edge)


def triangles(db: ev.Session) -> Step:
    edge = _edges(db, 20)
    db.sql(
        "CREATE VIEW tri AS SELECT a.src AS x, b.src AS y, c.src AS z FROM edge a, edge b, edge c "
        "WHERE a.dst = b.src AND b.dst = c.src AND c.dst = a.src"
    )
    return _change(db, edge)


def strings(db: ev.Session) -> Step:
    words = db.table("words", {"w": str, "n": int})
    words.insert([(f"word {i}", i) for i in range(20)])
    db.view("by", words.group_by("w").agg(n=col.n.sum()))
    new = [(f"new {i} {'x' * i}", i) for i in range(30)]
    return lambda: words.insert(new), lambda: words.delete(new)


def python(db: ev.Session) -> Step:
    edge = _edges(db)
    db.view("mapped", edge.map(lambda src, dst: src + dst if src < 2**40 else 0, {"s": int}))
    return _change(db, edge)


def bulk(db: ev.Session) -> Step:
    edge = _edges(db, 10)
    db.view("degree", edge.group_by("src").agg(n=count()))
    new = [(i % 37, (31 * i) % 29) for i in range(300)]
    return lambda: edge.insert(new), lambda: edge.delete(new)


def subscribed(db: ev.Session) -> Step:
    edge = _edges(db)
    db.view("degree", edge.group_by("src").agg(n=count())).subscribe(lambda batch: None)
    return _change(db, edge)


def installing(db: ev.Session) -> Step:
    edge = _edges(db)
    root = db.table("root", {"node": int})
    root.insert([(1,)])
    e2 = edge.alias("e2")
    hops = edge.join(e2, edge.dst == e2.src).select(a=edge.src, b=e2.dst)
    db.view("hops", hops)

    def do() -> None:
        db.view("more", hops.group_by("a").agg(n=count(), m=col.b.max()))
        try:
            db.view("reach", graphs.reach(edge, root))
        except BaseException:
            db["more"].drop()
            raise

    def undo() -> None:
        db["reach"].drop()
        db["more"].drop()

    return do, undo


PROGRAMS = [
    repeated_rows,
    joins,
    reductions,
    loop,
    nested_loops,
    windows,
    triangles,
    strings,
    python,
    subscribed,
    installing,
    bulk,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_allocation_fails_in_turn(program: Callable[[ev.Session], Step]) -> None:
    assert fails(program) > 5


@pytest.mark.parametrize("program", [reductions, joins])
def test_every_allocation_fails_in_turn_with_two_threads(program: Callable[[ev.Session], Step]) -> None:
    assert fails(program, split=4) > 5


@pytest.mark.skipif(not DEBUG, reason="only the debug build counts small blocks")
def test_small_blocks_are_given_back_where_there_is_no_memory_for_a_large_one() -> None:
    """As it is in life: what a kernel has allocated in order to work on a large block goes, though it is not large."""
    cell[CELL_TRACK_FROM] = TRACKED_FROM
    with ev.connect() as db:
        t = db.table("t", {"x": int, "y": int})
        u = t.alias("u")
        db.view("hops", t.join(u, t.y == u.x).select(a=t.x, b=u.y))
        db.view("by", t.group_by("x").agg(n=count(), s=col.y.sum(), low=col.y.min()))
        db.view("ys", t.select("y").distinct())
        rows = [(i * 2654435761 % 1000003, i * 40503 % 1000003) for i in range(6000)]
        t.insert(rows)
        t.delete(rows)
        n, lost = 1, 0
        while True:
            blocks, cell[CELL_FAIL_IN] = int(cell[CELL_LIVE_BLOCKS]), n
            try:
                t.insert(rows)
            except ev.MemoryLimitError:
                lost += int(cell[CELL_LIVE_BLOCKS]) - blocks
                n += 1
                continue
            cell[CELL_FAIL_IN] = 0
            break
        assert n > 40 and lost <= 2, f"{lost} blocks were lost in {n} failures"


def test_rows_that_an_earlier_call_has_put_in_a_batcher_are_given_back() -> None:
    """There are so many that the step takes their buffer away from the batcher; then it fails."""
    rows = [(i % 37, i) for i in range(10_000)]
    with ev.connect() as db:
        edge = _edges(db)
        db.view("degree", edge.group_by("src").agg(n=count()))
        words, left = int(cell[CELL_TRACKED_WORDS]), []
        for n in range(1, 40):
            cell[CELL_FAIL_IN] = n
            with pytest.raises(ev.MemoryLimitError), db.batch():
                for at in range(0, len(rows), 200):  # many would be sorted where they are
                    edge.insert(rows[at : at + 200])
            left.append(int(cell[CELL_TRACKED_WORDS]) - words)
        cell[CELL_FAIL_IN] = 0
        assert max(left) < 5 * len(rows), "the batcher may keep a buffer, but only one"
        edge.insert(rows)
        assert len(edge) == 80 + len(rows)


def test_reading_a_view_without_memory_for_it() -> None:
    with ev.connect() as db:
        edge = _edges(db)
        rows, words = sorted(edge.rows()), int(cell[CELL_TRACKED_WORDS])
        for n in range(1, 100):
            cell[CELL_FAIL_IN] = n
            try:
                edge.rows()
            except ev.MemoryLimitError:
                assert int(cell[CELL_TRACKED_WORDS]) == words
            else:
                break
            assert sorted(edge.rows()) == rows
        cell[CELL_FAIL_IN] = 0
        assert 1 < n < 100


def test_a_limit_names_operator_and_view() -> None:
    with ev.connect() as db:
        t, u = db.table("t", {"x": int}), db.table("u", {"y": int})
        db.view("pairs", t.join(u, how="cross").select(x=t.x, y=u.y))
        u.insert([(i,) for i in range(2000)])
        cell[CELL_LIMIT] = cell[CELL_TRACKED_WORDS] + 2_000_000
        before = state(db)
        with pytest.raises(ev.MemoryLimitError, match="view 'pairs': operator 'join"):
            t.insert([(i,) for i in range(2000)])
        assert state(db) == before
        t.insert([(1,)])
        assert len(db["pairs"]) == 2000


def _limited(program: str) -> None:
    """Run a program in a process that may have 1.5 GB of addresses."""
    root = Path(__file__).resolve().parents[2]
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))\n"
    code = "import everview as ev\nfrom everview import col\n" + code + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.split()[-1:] == ["done"], (done.returncode, done.stdout, done.stderr)


def test_a_huge_join_ends_at_the_limit_of_the_process() -> None:
    _limited(
        """
        db = ev.connect()
        t, u = db.table("t", {"x": int}), db.table("u", {"y": int})
        pairs = db.view("pairs", t.join(u, how="cross").select(x=t.x, y=u.y))
        u.insert([(i,) for i in range(100_000)])
        for _ in range(3):
            try:
                t.insert([(i,) for i in range(100_000)])
            except ev.MemoryLimitError as error:
                assert error.code == "E_MEMORY" and "join" in error.message, error
            else:
                raise AssertionError
            assert t.rows() == [] and len(pairs) == 0
        t.insert([(1,)])
        assert len(pairs) == 100_000
        print("done")
        """
    )


def test_a_divergent_loop_ends_at_the_limit_of_the_process() -> None:
    _limited(
        """
        db = ev.connect()
        t = db.table("t", {"x": int})
        grow = lambda c: c.select(x=2 * c.x).union_all(c.select(x=2 * c.x + 1)).union_all(t)
        view = db.view("v", t.iterate(grow, max_rounds=60))
        for _ in range(2):
            try:
                t.insert([(1,)])
            except ev.MemoryLimitError as error:
                assert error.code == "E_MEMORY", error
            else:
                raise AssertionError
            assert t.rows() == [] and view.rows() == []
        view.drop()
        t.insert([(1,)])
        assert t.rows() == [(1,)]
        print("done")
        """
    )


@pytest.mark.parametrize("what", ["view", "constraint"])
def test_dropping_needs_no_memory(what: str) -> None:
    """What a shorter program needs is made at the next step; a drop that is noted is done, and says so."""
    failed = 0
    for n in range(1, 12):
        with ev.connect() as db:
            db.sql("CREATE TABLE t (x int, CONSTRAINT small CHECK (x < 9)); CREATE VIEW v AS SELECT DISTINCT x FROM t")
            kept = db.sql("CREATE VIEW kept AS SELECT x, count(*) AS n FROM t GROUP BY x")
            db["t"].insert([(1,), (2,)])
            cell[CELL_FAIL_IN] = n
            db.sql("DROP VIEW v" if what == "view" else "ALTER TABLE t DROP CONSTRAINT small")
            failed += cell[CELL_FAIL_IN] == 0
            cell[CELL_FAIL_IN] = 0
            db["t"].insert([(2,), (10,)] if what == "constraint" else [(2,), (3,)])
            assert len(kept.rows()) == 3 and db.check() == [] and ("v" in db) == (what == "constraint")
    assert failed > 3
