"""Provenance as a column: against truth tables, another package's diagrams, and the engine's own deletions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import Provenance, col
from everview.session.local_shards import local_shards
from everview.why.expression import BaseRow, Expression
from everview.why.provenance_check import meeting
from tests.spark import inprocess

Edge = tuple[int, int]


def reach(edge: Any) -> Any:
    """All pairs that are connected."""
    onward = edge.rename(dst="src", to="dst")

    def body(found: Any) -> Any:
        further = found.join(onward, on="dst").select("src", dst=col.to)
        return further.union_all(edge).distinct()

    return edge.iterate(body)


def closure(edges: Iterable[Edge]) -> set[Edge]:
    found = set(edges)
    while True:
        more = {(a, d) for a, b in found for c, d in edges if b == c} - found
        if not more:
            return found
        found |= more


def hops(edge: Any) -> Any:
    """Pairs two edges apart, or one edge from a small vertex."""
    onward = edge.rename(dst="src", to="dst")
    two = edge.join(onward, on="dst").select("src", dst=col.to)
    return two.union_all(edge.filter(col.src < 2)).distinct()


def two_apart(edges: Iterable[Edge]) -> set[Edge]:
    edges = list(edges)
    return {(a, d) for a, b in edges for c, d in edges if b == c} | {(a, b) for a, b in edges if a < 2}


QUERIES: dict[str, tuple[Callable[[Any], Any], Callable[[Iterable[Edge]], set[Edge]]]] = {
    "reach": (reach, closure),
    "hops": (hops, two_apart),
}


def worlds(edges: Iterable[Edge]) -> Iterator[tuple[Edge, ...]]:
    rows = sorted(edges)
    return chain.from_iterable(combinations(rows, n) for n in range(len(rows) + 1))


def truth(edges: Iterable[Edge], query: Callable[[Iterable[Edge]], set[Edge]]) -> dict[Edge, frozenset[int]]:
    """The worlds, by number, in which each row is there."""
    found: dict[Edge, set[int]] = {}
    for number, world in enumerate(worlds(edges)):
        for row in query(world):
            found.setdefault(row, set()).add(number)
    return {row: frozenset(numbers) for row, numbers in found.items()}


def holding(expression: Expression, edges: Iterable[Edge]) -> frozenset[int]:
    return frozenset(n for n, world in enumerate(worlds(edges)) if expression.holds(("edge", e) for e in world))


def check(view: Any, edges: set[Edge], query: Callable[[Iterable[Edge]], set[Edge]]) -> None:
    """The view has the rows it should, each once, with codes that are equal exactly where expressions are."""
    wanted = truth(edges, query)
    rows = list(view.rows())
    assert sorted(r[:-1] for r in rows) == sorted(wanted)
    codes = {r[:-1]: r[-1] for r in rows}
    for row, expression in view.provenances().items():
        assert holding(expression, edges) == wanted[row], (row, str(expression))
        assert expression.code == codes[row]
    for a, b in combinations(codes, 2):
        assert (codes[a] == codes[b]) == (wanted[a] == wanted[b])


def check_lazy(view: Any, edges: set[Edge], query: Callable[[Iterable[Edge]], set[Edge]]) -> None:
    """Each row has one derivation, of rows that are there."""
    assert sorted(r[:-1] for r in view.rows()) == sorted(query(edges))
    for row, expression in view.provenances().items():
        (witness,) = expression.witnesses()
        used = {e.row for e in witness}
        assert used <= edges
        assert row in query(used)


def random_steps(seed: int, steps: int, vertices: int, most: int) -> Iterator[tuple[list[Edge], list[Edge]]]:
    """Edges to insert and to delete; never more than so many at once."""
    dice = random.Random(seed)
    have: set[Edge] = set()
    for _ in range(steps):
        gone = [e for e in sorted(have) if dice.random() < 0.3]
        have -= set(gone)
        new: list[Edge] = []
        while len(have) < most and dice.random() < 0.7:
            edge = dice.randrange(vertices), dice.randrange(vertices)
            if edge not in have:
                new.append(edge)
                have.add(edge)
        yield new, gone


SESSIONS = {"embedded": ev.connect, "shards": lambda: local_shards(3)}


@pytest.mark.parametrize("session", SESSIONS)
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_expressions_are_those_of_truth_tables(session: str, query: str, seed: int) -> None:
    made, oracle = QUERIES[query]
    with SESSIONS[session]() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("v", made(edge), provenance="bdd")
        lazy = db.view("lazy", made(edge), provenance="lazy")
        have: set[Edge] = set()
        for new, gone in random_steps(seed, 5, 5, 8):
            with db.transaction():
                edge.delete(gone)
                edge.insert(new)
            have = (have - set(gone)) | set(new)
            check(view, have, oracle)
            check_lazy(lazy, have, oracle)


def test_twelve_variables() -> None:
    edges = {(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2), (0, 3), (4, 5), (5, 0), (1, 4), (3, 3), (5, 1)}
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        edge.insert(sorted(edges))
        check(db.view("v", reach(edge), provenance="bdd"), edges, closure)


def test_deletions_agree_with_the_engine() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("v", reach(edge), provenance="bdd")
        plain = db.view("plain", reach(edge))
        dice = random.Random(5)
        edges = sorted({(dice.randrange(9), dice.randrange(9)) for _ in range(22)})
        edge.insert(edges)
        found = view.provenances()
        for some in [[e] for e in edges] + [dice.sample(edges, 3) for _ in range(10)]:
            left = {row for row, e in found.items() if not e.without({"edge": some})}
            gone = {row for row, n in db.what_if(delete={"edge": some}).changes("plain") if n < 0}
            assert left == gone
        assert sorted(plain.rows()) == sorted(found)


def test_another_packages_diagrams_have_as_many_nodes() -> None:
    autoref = pytest.importorskip("dd.autoref", reason="dd is a development dependency")
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("v", reach(edge), provenance="bdd")
        dice = random.Random(8)
        edge.insert(sorted({(dice.randrange(7), dice.randrange(7)) for _ in range(16)}))
        for expression in view.provenances().values():
            names = {row: f"x{i}" for i, row in enumerate(expression.variables())}
            table = autoref.BDD()
            table.declare(*names.values())
            table.configure(reordering=False)
            other = table.false
            for witness in expression.witnesses():
                term = table.true
                for row in witness:
                    term &= table.var(names[row])
                other |= term
            inner = {abs(u) for u in _below(table, other)}
            assert expression.size <= 2 * len(inner)  # theirs has complemented edges: up to half the nodes
            assert (
                table.count(other, len(names))
                == sum(expression.holds(world) for world in _all_worlds(list(names)) if len(names) <= 8)
                or len(names) > 8
            )


def _below(table: Any, root: Any) -> set[int]:
    found: set[int] = set()
    todo = [root.node]
    while todo:
        node = abs(todo.pop())
        _, low, high = table._bdd._succ[node]
        if low is not None and node not in found:
            found.add(node)
            todo += [low, high]
    return found


def _all_worlds(rows: list[BaseRow]) -> Iterator[tuple[BaseRow, ...]]:
    return chain.from_iterable(combinations(rows, n) for n in range(len(rows) + 1)) if len(rows) <= 8 else iter(())


def test_a_row_that_is_there_twice_is_one_variable() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("v", reach(edge), provenance="bdd")
        edge.insert([(1, 2), (1, 2), (2, 3)])
        codes = sorted(view.rows())
        edge.delete([(1, 2)])
        assert sorted(view.rows()) == codes
        edge.delete([(1, 2)])
        assert [r[:2] for r in view.rows()] == [(2, 3)]


def test_a_step_that_is_undone_leaves_nothing() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("v", reach(edge), provenance="bdd")
        edge.insert([(1, 2), (2, 3), (3, 1)])
        before, nodes = sorted(view.rows()), _nodes(db)
        with db.what_if() as supposed:
            edge.insert([(3, 4), (4, 5), (5, 1), (2, 5)])
            assert len(list(view.rows())) > len(before)
            supposed.changes("v")
        assert (sorted(view.rows()), _nodes(db)) == (before, nodes)
        with pytest.raises(ev.InputError, match="E_ABSENT"), db.transaction():
            edge.insert([(3, 4), (4, 5)])
            edge.delete([(9, 9)])
        assert (sorted(view.rows()), _nodes(db)) == (before, nodes)
        edge.insert([(3, 4)])
        check(view, {(1, 2), (2, 3), (3, 1), (3, 4)}, closure)


def _nodes(db: ev.Session) -> int:
    from everview.session.core import core_of

    table = core_of(db).runtime.dataflow.provenance
    assert table is not None
    return table.count


def test_nodes_that_no_row_hangs_on_are_swept() -> None:
    from everview.session.core import core_of

    with ev.connect(history=0) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("v", reach(edge), provenance="bdd")
        dice = random.Random(3)
        have: set[Edge] = set()
        dataflow = core_of(db).runtime.dataflow
        table = dataflow.provenance
        assert table is not None
        for _ in range(60):
            some = dice.randrange(6), dice.randrange(6)
            if some in have:
                edge.delete([some])
                have.discard(some)
            elif len(have) < 9:
                edge.insert([some])
                have.add(some)
            if dice.random() < 0.3:
                table.sweep()
        check(view, have, closure)
        live = table.sweep()
        assert live == table.count
        reachable = sum(e.size for e in view.provenances().values())
        assert live <= 20 * reachable  # rows of inner arrangements hang on some, too
        edge.delete(sorted(have))
        for operator in dataflow.operators():  # what is gone is still in batches, with what takes it away
            if operator.trace is not None and not operator.trace.stateless:
                operator.trace.compact()
        assert table.sweep() == table.count == 0
        edge.insert([(1, 2)])
        check(view, {(1, 2)}, closure)
        rows = table.trace
        assert rows is not None
        rows.compact()
        assert rows.measure()[1] == table.count == 1


def test_codes_are_the_same_after_opening_a_directory(tmp_path: Path) -> None:
    edges = {(0, 1), (1, 2), (2, 0), (2, 3), (0, 3)}
    with ev.connect(tmp_path / "db") as db:
        edge = db.table("edge", {"src": int, "dst": int})
        db.view("v", reach(edge), provenance="bdd")
        db.view("lazy", reach(edge), provenance="lazy")
        edge.insert(sorted(edges))
        edge.delete([(2, 0)])
        edge.insert([(2, 0)])
        before = {name: sorted(db[name].rows()) for name in ("v", "lazy")}
    for more in ((3, 4), (4, 0)):
        with ev.connect(tmp_path / "db") as db:
            assert {name: sorted(db[name].rows()) for name in ("v", "lazy")} == before
            check(db["v"], edges, closure)
            db["edge"].insert([more])
            edges.add(more)
            check(db["v"], edges, closure)
            check_lazy(db["lazy"], edges, closure)
            before = {name: sorted(db[name].rows()) for name in ("v", "lazy")}


def test_codes_are_the_same_on_shards() -> None:
    with ev.connect() as single, local_shards(3) as several:
        rows = []
        for db in (single, several):
            edge = db.table("edge", {"src": str, "dst": str})
            view = db.view("v", reach(edge), provenance="bdd")
            lazy = db.view("lazy", reach(edge), provenance="lazy")
            edge.insert([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
            edge.insert([("d", "b"), ("a", "d")])
            edge.delete([("c", "a")])
            rows.append((sorted(view.rows()), sorted(lazy.rows())))
        assert rows[0] == rows[1]


def test_a_budget_of_nodes() -> None:
    dice = random.Random(2)
    edges = sorted({(dice.randrange(12), dice.randrange(12)) for _ in range(40)})
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        strict = db.view("strict", reach(edge), provenance=Provenance("bdd", nodes=10))
        mixed = db.view("mixed", reach(edge), provenance=Provenance("bdd", nodes=10, beyond="lazy"))
        edge.insert(edges[:3])
        assert sorted(strict.rows()) == sorted(mixed.rows())
        edge.insert(edges[3:])
        with pytest.raises(ev.RowErrors, match="more nodes than its budget"):
            list(strict.rows())
        assert {r[:-1] for r in mixed.rows()} == closure(edges)
        for row, expression in mixed.provenances().items():
            assert expression.holds(("edge", e) for e in edges)
            for witness in expression.witnesses():
                assert row in closure({e.row for e in witness})
        edge.delete(edges[3:])
        assert sorted(strict.rows()) == sorted(mixed.rows())


def test_what_is_not_monotone_is_refused() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        for collection in (
            edge.group_by("src").agg(n=ev.count()),
            edge.select("src").except_(edge.select(src=col.dst)),
            edge.group_by("src").agg(least=col.dst.min()),
        ):
            with pytest.raises(ev.PlanError, match="E_MONOTONE"):
                db.view("v", collection, provenance="bdd")
        with pytest.raises(ev.PlanError, match="E_PROVENANCE"):
            db.view("v", edge, provenance="all")  # type: ignore[arg-type]
        with pytest.raises(ev.InputError, match="E_PROVENANCE"):
            db.view("plain", edge).provenance((1, 2))


@pytest.mark.parametrize("order", ["random", "one place", "backwards"])
def test_every_row_is_its_own_variable_whatever_the_order(order: str) -> None:
    """Labels between labels: gaps are used up, and rows get others."""
    dice = random.Random(6)
    edges = [(i, i + 1) for i in range(700)]
    if order == "random":
        dice.shuffle(edges)
    elif order == "backwards":
        edges.reverse()
    else:
        edges = [(0, 1), (1, 2), (9000, 9001)] + [(0, n) for n in range(1000, 1700)]
    with ev.connect(history=0) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("v", edge.filter(col.dst < 10_000), provenance="bdd")
        with db.batch():
            for each in edges:
                edge.insert([each])
        gone = set(dice.sample(edges, 300))
        edge.delete(sorted(gone))
        found = view.provenances()
        assert set(found) == set(edges) - gone
        assert all([v.row for v in e.variables()] == [row] for row, e in found.items())
        assert len({r[-1] for r in view.rows()}) == len(found)


def test_views_on_views_several_tables_and_constants() -> None:
    with ev.connect() as db:
        person = db.table("person", {"name": str, "city": str}, key="name")
        friend = db.table("friend", {"a": str, "b": str})
        both = friend.union_all(friend.select(a=col.b, b=col.a)).distinct()
        plain = db.view("both", both)
        near = plain.join(person.rename(a="name"), on="a").join(person.rename(b="name", other="city"), on="b")
        view = db.view("near", near.filter(col.city == col.other).select("a", "b"), provenance="bdd")
        person.insert([("ann", "x"), ("bob", "x"), ("cat", "y")])
        friend.insert([("ann", "bob"), ("bob", "ann"), ("bob", "cat")])
        found = view.provenance(("ann", "bob"))
        assert str(found) == (
            "(person('ann', 'x') & person('bob', 'x') & friend('ann', 'bob')) | "
            "(person('ann', 'x') & person('bob', 'x') & friend('bob', 'ann'))"
        )
        assert found == view.provenance(("bob", "ann"))
        assert {v.table for v in found.variables()} == {"friend", "person"}
        assert not found.without({"person": lambda row: row[0] == "bob"})
        assert found.given({"person": ...}).probability({"friend": 0.5}) == 0.75
        friend.delete([("bob", "ann")])
        assert len(view.provenance(("ann", "bob")).witnesses()) == 1


def test_two_threads_make_the_same_expressions() -> None:
    dice = random.Random(1)
    edges = sorted({(dice.randrange(300), dice.randrange(300)) for _ in range(900)})
    found = []
    for threads in (1, 2):
        with ev.connect(threads=threads) as db:
            edge = db.table("edge", {"src": int, "dst": int})
            view = db.view("v", hops(edge), provenance="bdd")
            edge.insert(edges)
            edge.delete(edges[::7])
            found.append(sorted(view.rows()))
    assert found[0] == found[1]


def test_orders_of_variables() -> None:
    edges = [(0, 4), (0, 1), (1, 2), (4, 5), (2, 3)]
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        walk = db.view("walk", reach(edge), provenance="bdd")
        came = db.view("came", reach(edge), provenance=Provenance("bdd", order="arrival"))
        for each in edges:
            edge.insert([each])
        check(walk, set(edges), closure)
        check(came, set(edges), closure)
        assert [v.row for v in came.provenance((0, 3)).variables()] == [(0, 1), (1, 2), (2, 3)]
        with pytest.raises(ev.PlanError, match="E_PROVENANCE"):
            db.view("w", edge, provenance=Provenance("bdd", order="random"))  # type: ignore[arg-type]


def test_a_directory_that_was_not_closed(tmp_path: Path) -> None:
    """The log is run again: the same rows and expressions that are theirs."""
    import shutil

    edges = {(1, 2), (2, 3), (3, 1), (3, 4), (4, 2)}
    with ev.connect(tmp_path / "db") as db:
        edge = db.table("edge", {"src": int, "dst": int})
        db.view("v", reach(edge), provenance="bdd")
        edge.insert([(1, 2), (2, 3), (3, 1)])
        edge.insert([(3, 4)])
        edge.delete([(2, 3)])
        edge.insert([(2, 3), (4, 2)])
        shutil.copytree(tmp_path / "db", tmp_path / "copy")
    for lock in (tmp_path / "copy").glob("*lock*"):
        lock.unlink()
    with ev.connect(tmp_path / "copy") as db:
        check(db["v"], edges, closure)
        db["edge"].insert([(4, 5)])
        check(db["v"], edges | {(4, 5)}, closure)


def moving(where: Path, seed: int, workers: int) -> None:
    """Edges come and go on shards that several processes' worth of memory take in turn; every expression is right."""
    draw = random.Random(seed)
    with ev.connect(inprocess.session(workers), state=str(where), shards=2) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        views = {name: db.view(name, query(edge), provenance="bdd") for name, (query, _) in QUERIES.items()}
        there: set[Edge] = set()
        for _ in range(12):
            rows = {(draw.randrange(4), draw.randrange(4)) for _ in range(2)}
            with db.transaction():
                edge.insert(sorted(rows - there))
                edge.delete(sorted(rows & there) if len(there) > 3 else [])
            there = {*edge.rows()}
            for name, view in views.items():
                for row, found in view.provenances().items():
                    some = [e for e in sorted(there) if draw.random() < 0.5]
                    assert found.holds([("edge", e) for e in some]) == (row in QUERIES[name][1](some)), (name, row)
        assert db.check() == []


@pytest.mark.parametrize("workers", [2, 3])
def test_nodes_and_labels_follow_what_other_processes_did(tmp_path: Path, workers: int) -> None:
    moving(tmp_path / "state", 5, workers)


def test_verifying_compares_what_expressions_mean() -> None:
    """Codes depend on the order in which rows came, which a computation from scratch does not know."""
    db = ev.connect()
    edge = db.table("edge", {"src": int, "dst": int})
    full, lazy = db.view("full", reach(edge), provenance="bdd"), db.view("lazy", reach(edge), provenance="lazy")
    mixed = db.view("mixed", reach(edge), provenance=Provenance("bdd", nodes=6, beyond="lazy"))
    for row in [(3, 4), (0, 1), (2, 3), (1, 2), (0, 2), (4, 0), (1, 4)]:
        edge.insert([row])
    edge.delete([(0, 1)])
    assert len(full.rows()) == len(lazy.rows()) == len(mixed.rows()) and db.check() == []
    found, others = full.provenances(), [*full.provenances().values()]
    assert len({e.code for e in others}) > 3
    for row, expression in found.items():
        for other in others:
            same = expression.witnesses() == other.witnesses()
            one, two, either = meeting(expression, other) or (0, 0, 0)
            assert (one == two) == same == (one == two == either), row
