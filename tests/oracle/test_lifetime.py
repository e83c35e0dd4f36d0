"""What is held, for how long: arrangements are shared, freed when nobody reads them, and do not grow with time."""

from __future__ import annotations

import gc
import itertools
import random
import time
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview.expr.language import col, count
from everview.kernels.build.native import DEBUG
from everview.kernels.guarded_calls import CELL_FAULTS, CELL_LIVE_BLOCKS, CELL_LIVE_WORDS
from everview.kernels.memory import cell
from tests.inside import inside
from tests.oracle import graphs
from tests.oracle.harness import Runtime


def held(db: Any) -> tuple[int, int]:
    """(arrangements, bytes) of a session."""
    stats = db.stats()
    return len(stats["arrangements"]), sum(a["bytes"] for a in stats["arrangements"])


def fill(db: Any, rows: int) -> tuple[Any, Any]:
    numbers = np.random.default_rng(1)
    edge = db.table("edge", {"src": int, "dst": int})
    other = db.table("other", {"key": int, "value": int})
    edge.insert({"src": numbers.integers(0, rows // 5, rows), "dst": numbers.integers(0, rows // 5, rows)})
    other.insert([(i, i * i % 7) for i in range(20)])
    return edge, other


def test_ten_views_over_one_index_hold_it_once_20000_rows(runtime: Runtime) -> None:
    with runtime.connect() as db:
        edge, other = fill(db, 20_000)
        start = held(db)
        views = []
        sizes = []
        for i in range(10):
            joined = other.filter(col.key == i).join(edge, col.value == edge.dst)
            views.append(db.view(f"v{i}", joined.select(src=edge.src)))
            sizes.append(held(db))
        index = sizes[0][1] - start[1]
        assert index > 20_000 * 16, "the first view had to index edge by dst"
        for before, after in itertools.pairwise(sizes):
            assert after[1] - before[1] < index / 20, "the others use the same index"
        shared = [a for a in db.stats()["arrangements"] if a["updates"] >= 19_000 and a["readers"] >= 10]
        assert len(shared) == 1
        assert "shared" in views[3].explain()
        for view in views[:9]:
            view.drop()
        assert held(db)[1] > start[1] + index * 0.9
        assert sorted(views[9].rows()) == sorted(
            (s,) for s, d in edge.rows() for k, v in other.rows() if k == 9 and v == d
        )
        views[9].drop()
        assert held(db) == start


def test_a_table_is_its_own_index_20000_rows(runtime: Runtime) -> None:
    with runtime.connect() as db:
        edge, other = fill(db, 20_000)
        _, size = held(db)
        db.view("v", other.join(edge, other.key == edge.src).agg(n=count()))
        assert held(db)[1] < size * 1.1


def test_equal_views_share_everything(runtime: Runtime) -> None:
    with runtime.connect() as db:
        edge, _ = fill(db, 500)
        root = db.table("root", {"node": int})
        root.insert([(1,)])
        db.view("one", graphs.reach(edge, root))
        before = held(db)
        again = db.view("two", graphs.reach(edge, root))
        assert held(db) == before
        db["one"].drop()
        assert held(db) == before
        edge.insert([(1, 1000)])
        assert (1000,) in again.rows()


def test_dropping_all_views_frees_all_they_held_random_order(runtime: Runtime) -> None:
    makers = {
        "reach": lambda e, o: graphs.reach(e, o.select(node=col.key)),
        "strong": lambda e, o: graphs.strong_edges(e.distinct()),
        "wcc": lambda e, o: graphs.components(e),
        "ranked": lambda e, o: graphs.components(e, prioritized=True),
        "degree": lambda e, o: e.group_by("src").agg(n=count(), lo=col.dst.min(), d=col.dst.count_distinct()),
        "top": lambda e, o: e.group_by("src").top(2, col.dst.desc()),
        "outer": lambda e, o: e.join(o, e.src == o.key, how="full").select(a=e.dst, b=o.value),
        "python": lambda e, o: e.group_by("src").reduce(lambda k, rows: [(len(rows),)], returns={"n": int}),
        "mapped": lambda e, o: e.flat_map(lambda a, b: [(b, a)], returns={"a": int, "b": int}).distinct(),
    }
    source = random.Random(3)
    with runtime.connect() as db:
        edge, other = fill(db, 100)
        words = []
        for _ in range(6):
            names = list(makers)
            source.shuffle(names)
            for name in names:
                db.view(name, makers[name](edge, other))
                edge.insert([(source.randrange(20), source.randrange(20))])
                edge.delete([source.choice(edge.rows())])
            source.shuffle(names)
            for name in names:
                db[name].drop()
            gc.collect()
            assert len(db.stats()["arrangements"]) == 2, "only the two tables are left"
            words.append((int(cell[CELL_LIVE_BLOCKS]), int(cell[CELL_LIVE_WORDS])))
        if DEBUG:
            assert cell[CELL_FAULTS] == 0
            assert words[-1][0] <= words[1][0] + 8, f"blocks leak: {words}"


@pytest.mark.skipif(not DEBUG, reason="blocks are counted in the debug build only")
def test_closing_a_session_gives_every_block_back(runtime: Runtime) -> None:
    gc.collect()
    before = int(cell[CELL_LIVE_BLOCKS])
    with runtime.connect() as db:
        edge, _ = fill(db, 300)
        root = db.table("root", {"node": int})
        db.view("reach", graphs.reach(edge, root))
        view = db.view("strong", graphs.strong_edges(edge.distinct()))
        view.subscribe(lambda batch: None)
        root.insert([(1,)])
        assert int(cell[CELL_LIVE_BLOCKS]) > before
        view.drop()
    assert int(cell[CELL_LIVE_BLOCKS]) == before


# ---- time goes on


def run_epochs(runtime: Runtime, epochs: int, history: int) -> list[int]:
    """One change per epoch to collections of constant size, with views of every kind; bytes held, sampled."""
    source = random.Random(7)
    with runtime.connect(history=history) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        root = db.table("root", {"node": int})
        root.insert([(0,)])
        edges = [(source.randrange(30), source.randrange(30)) for _ in range(60)]
        edge.insert(edges)
        db.view("reach", graphs.distances(edge, root))
        db.view("degree", edge.group_by("src").agg(n=count(), s=col.dst.sum(), lo=col.dst.min()))
        db.view("wcc", graphs.components(edge))
        hops = edge.alias("hops")
        db.view("two", edge.join(hops, edge.dst == hops.src).agg(n=count()))
        samples = []
        for epoch in range(epochs):
            i = source.randrange(len(edges))
            new = (source.randrange(30), source.randrange(30))
            with db.transaction():
                edge.delete([edges[i]])
                edge.insert([new])
            edges[i] = new
            if epoch % (epochs // 40) == 0:
                samples.append(held(db)[1])
        assert db.time == epochs + 2
        assert sorted(db["reach"].rows()) == sorted(graphs.python_distances(edges, [0]).items())
    return samples


def flat(samples: list[int], slack: float) -> None:
    """No growth after the first quarter: the second half's typical size is that of the first."""
    early, late = samples[len(samples) // 4 : len(samples) // 2], samples[len(samples) // 2 :]
    assert np.median(late) <= np.median(early) * slack, samples


def test_memory_is_flat_over_thousands_of_epochs(runtime: Runtime) -> None:
    """Fewer where every epoch wakes a thread, visits three shards, writes files or waits for the disk."""
    epochs = {"threads": 4_000, "sharded": 2_000, "stored": 600, "spilled": 600}.get(runtime.name, 20_000)
    flat(run_epochs(runtime, epochs, history=100), 1.1)


def test_strings_that_come_and_go_are_counted(runtime: Runtime) -> None:
    """Strings are kept once however often they come; the statistics show their bytes."""
    with runtime.connect(history=0) as db:
        t = db.table("t", {"s": str})
        v = db.view("v", t.group_by("s").agg(n=count()))
        for _ in range(50):
            t.insert([(f"word {i}",) for i in range(100)])
        once = db.stats()["bytes"]
        for _ in range(50):
            t.insert([(f"word {i}",) for i in range(100)])
        assert db.stats()["bytes"] <= once * 1.5
        assert set(v.rows()) == {(f"word {i}", 100) for i in range(100)}


# ---- installing


def seconds(action: Any) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


@pytest.mark.parametrize("rows", [1_000_000])
def test_installing_the_100th_view_does_not_depend_on_the_size_of_the_index(runtime: Runtime, rows: int) -> None:
    """Look-ups into an index that exists: CPU time of an install on a large arrangement against a tiny one."""

    def installs(size: int) -> float:
        with runtime.connect() as db:
            edge = db.table("edge", {"src": int, "dst": int})
            numbers = np.random.default_rng(1)
            for ends in np.array_split(numbers.integers(0, size // 5, (size, 2)), max(size // 20_000, 1)):
                edge.insert({"src": ends[:, 0], "dst": ends[:, 1]})  # in pieces, which fit into little memory
            asked = db.table("asked", {"node": int})
            asked.insert([(1,), (2,)])
            times = []
            for i in range(100):
                mine = asked.filter(col.node != i)

                def install(mine: Any = mine, i: int = i) -> Any:
                    return db.view(f"v{i}", mine.join(edge, mine.node == edge.src).select(a=mine.node, b=edge.dst))

                times.append(seconds(install))
            assert len(db.views) == 100
            return float(np.median(times[-20:]))

    small, large = installs(1_000), installs(rows)
    assert large < 3 * small + 0.005, f"{1000 * large:.2f} ms on {rows} rows, {1000 * small:.2f} ms on 1000"


@pytest.mark.timeout(3000)
@pytest.mark.slow
@pytest.mark.long
def test_memory_is_flat_over_1000000_epochs(runtime: Runtime) -> None:
    if runtime.name in ("threads", "spilled"):
        pytest.skip("a million times waking a thread or writing files; some thousand epochs say the same")
    flat(run_epochs(runtime, 1_000_000, history=1_000), 1.1)


def test_nothing_is_remembered_of_a_loop_that_was_dropped() -> None:
    """What is inside a loop is known by the loop. Here the variable falls out of its body, so what is left outlives the
    loop; found again under the name of a later one, it made drivers and workers build different operators.
    """
    with ev.connect() as db:
        t = db.table("t", {"x": int, "y": int})
        builder = inside(db).runtime.builder
        for _ in range(3):
            view = db.view("v", t.iterate(lambda r: r.union_all(r.negate(), t)), plan="rounds")
            assert [key for key in builder.flows if key[1]]
            view.drop()
            assert not [key for key in (*builder.flows, *builder.arrangements) if key[1]]
