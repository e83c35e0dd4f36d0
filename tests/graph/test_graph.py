"""Making graphs: what counts as an edge, other types, bad input, and the language of path expressions."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import networkx as nx
import pytest

import everview as ev
from everview import col
from everview.graph import Graph
from everview.graph.automaton import Automaton, Letter, compile_expression
from everview.types import INT, decimal


@pytest.fixture
def db() -> ev.Session:
    return ev.connect()


def test_rows_with_a_null_end_are_no_edges(db: ev.Session) -> None:
    edge = db.table("edge", {"src": int | None, "dst": int | None, "kind": str | None})
    g = Graph(edge, label="kind")
    part, step = db.view("part", g.wcc()), db.view("step", g.rpq("a | .{2}"))
    edge.insert([(1, 2, "a"), (2, None, "a"), (None, None, None), (2, 3, None)])
    assert sorted(part.rows()) == [(1, 1), (2, 1), (3, 1)]
    assert sorted(step.rows()) == [(1, 2), (1, 3)]


def test_edges_without_a_weight_are_passed_over(db: ev.Session) -> None:
    edge = db.table("edge", {"src": int, "dst": int, "weight": float | None})
    root = db.table("root", {"node": int})
    g = Graph(edge, weight="weight")
    far, forest = db.view("far", g.sssp(root)), db.view("forest", g.spanning_forest())
    root.insert([(1,)])
    edge.insert([(1, 2, None), (1, 3, 0.5), (3, 2, 0.25), (2, 2, -0.0)])
    assert sorted(far.rows()) == [(1, 0.0), (2, 0.75), (3, 0.5)]
    assert sorted(forest.rows()) == [(1, 3, 0.5), (2, 3, 0.25)]


def test_a_graph_over_a_view_with_other_names(db: ev.Session) -> None:
    call = db.table("call", {"node": str, "filter": str, "minutes": int})
    long = db.view("long", call.filter(col.minutes > 5))
    root = db.table("root", {"who": str})
    reached = db.view("reached", Graph(long, src="node", dst="filter").reach(root))
    with db.transaction():
        root.insert([("ann",)])
        call.insert([("ann", "bob", 9), ("bob", "cyd", 1), ("bob", "dan", 7)])
    assert sorted(reached.rows()) == [("ann",), ("bob",), ("dan",)]


def test_sources_may_be_made_from_the_edges_themselves(db: ev.Session) -> None:
    edge = db.table("edge", {"src": int, "dst": int})
    g = Graph(edge)
    hubs = g.out_degree().filter(col.out_degree >= 2).select("node")
    near = db.view("near", g.k_hop(hubs, 1))
    edge.insert([(1, 2), (1, 3), (3, 4)])
    assert sorted(near.rows()) == [(1, 0), (2, 1), (3, 1)]
    edge.insert([(3, 5)])
    assert sorted(near.rows()) == [(1, 0), (2, 1), (3, 0), (4, 1), (5, 1)]


def test_pagerank_is_networkx_s_where_every_node_has_an_edge_out(db: ev.Session) -> None:
    edge = db.table("edge", {"src": int, "dst": int})
    rank = db.view("rank", Graph(edge).pagerank(60, unit=10**9))
    source = random.Random(3)
    rows = [(i, source.randrange(20)) for i in range(20) for _ in range(3)]
    edge.insert(rows)
    total = sum(r for _, r in rank.rows())
    assert total == pytest.approx(20 * 10**9, rel=1e-6)
    wanted = nx.pagerank(nx.MultiDiGraph(rows), alpha=0.85, tol=1e-12)
    assert {n: r / total for n, r in rank.rows()} == pytest.approx(wanted, abs=1e-7)


def test_pagerank_in_coarse_units_is_near_the_exact_one(db: ev.Session) -> None:
    """Rounding is to both sides: with a hundred units for a node, ranks are off by a percent, not an eighth."""
    edge, dice = db.table("edge", {"src": int, "dst": int}), random.Random(5)
    coarse, fine = (db.view(f"rank{unit}", Graph(edge).pagerank(10, unit=unit)) for unit in (100, 10**9))
    edge.insert([(dice.randrange(300), dice.randrange(300)) for _ in range(1500)])
    exact = {node: rank / 10**9 for node, rank in fine.rows()}
    errors = [abs(rank / 100 - exact[node]) / exact[node] for node, rank in coarse.rows()]
    assert len(errors) == len(exact) and sum(errors) / len(errors) < 0.015


def test_null_is_no_node(db: ev.Session) -> None:
    edge = db.table("edge", {"src": INT.optional(), "dst": INT.optional()})
    source, pair = db.table("source", {"node": INT.optional()}), db.table("pair", {"a": INT.optional(), "b": INT})
    g = Graph(edge, nodes=source)
    hops, far, parts = db.view("hops", g.bfs(source)), db.view("far", g.distance(pair)), db.view("parts", g.wcc())
    with db.transaction():
        edge.insert([(1, 2), (None, 2), (2, None), (None, None)])
        source.insert([(None,), (1,)])
        pair.insert([(None, 2), (1, 2)])
    assert sorted(hops.rows()) == [(1, 0), (2, 1)]
    assert far.rows() == [(1, 2, 1)]
    assert sorted(parts.rows()) == [(1, 1), (2, 1)]


def test_pagerank_forgets_a_change_that_is_undone(db: ev.Session) -> None:
    edge = db.table("edge", {"src": int, "dst": int})
    rank = db.view("rank", Graph(edge).pagerank(8))
    edge.insert([(i, (i * 7 + k) % 30) for i in range(30) for k in range(3)])
    before = sorted(rank.rows())
    edge.insert([(0, 17)])
    assert sorted(rank.rows()) != before
    edge.delete([(0, 17)])
    assert sorted(rank.rows()) == before


def test_a_negative_cycle_ends_in_an_error_and_the_session_goes_on(db: ev.Session) -> None:
    edge = db.table("edge", {"src": int, "dst": int, "weight": int})
    root = db.table("root", {"node": int})
    far = db.view("far", Graph(edge, weight="weight").sssp(root, max_rounds=100))
    root.insert([(1,)])
    edge.insert([(1, 2, -5), (2, 3, 1)])
    with pytest.raises(ev.LoopError):
        edge.insert([(3, 1, 1)])
    assert sorted(far.rows()) == [(1, 0), (2, -5), (3, -4)]


def scaled(scale: float | Decimal, seed: int) -> list[tuple[int, int, Any]]:
    source = random.Random(seed)
    return [(source.randrange(30), source.randrange(30), source.randrange(100) * scale) for _ in range(90)]


@pytest.mark.parametrize("scale", [2.0**-40, 0.5, 2.0**40, Decimal("0.01")])
def test_weights_of_any_size_are_queued_right(db: ev.Session, scale: float | Decimal) -> None:
    kind = decimal(2) if isinstance(scale, Decimal) else float
    edge, root = db.table("edge", {"src": int, "dst": int, "weight": kind}), db.table("root", {"node": int})
    far = db.view("far", Graph(edge, weight="weight").sssp(root))
    root.insert([(1,)])
    rows = scaled(scale, 1)
    edge.insert(rows)
    for gone in (0, 20, 60):
        edge.delete(rows[:gone])
        rows = rows[gone:]
        graph = nx.MultiDiGraph()
        graph.add_node(1)
        graph.add_weighted_edges_from(rows)
        assert dict(far.rows()) == nx.single_source_dijkstra_path_length(graph, 1)


def test_negative_weights_without_a_negative_cycle(db: ev.Session) -> None:
    edge, root = db.table("edge", {"src": int, "dst": int, "weight": int}), db.table("root", {"node": int})
    far = db.view("far", Graph(edge, weight="weight").sssp(root))
    root.insert([(1,)])
    edge.insert([(1, 2, 50), (1, 3, 900), (3, 2, -880), (2, 4, -30), (4, 5, 7), (5, 3, 920)])
    assert sorted(far.rows()) == [(1, 0), (2, 20), (3, 900), (4, -10), (5, -3)]


BAD: dict[str, tuple[str, Callable[[ev.Session, Graph], Any]]] = {
    "no such column": ("E_COLUMN", lambda db, g: Graph(db["edge"], src="from")),
    "ends of two types": ("E_TYPE", lambda db, g: Graph(db["edge"], dst="kind")),
    "a weight that is text": ("E_TYPE", lambda db, g: Graph(db["edge"], weight="kind")),
    "no collection": ("E_TYPE", lambda db, g: Graph([(1, 2)])),  # type: ignore[arg-type]
    "sources in a list": ("E_TYPE", lambda db, g: g.reach([1, 2])),  # type: ignore[arg-type]
    "sources of another type": ("E_TYPE", lambda db, g: g.bfs(db["word"])),
    "pairs with one column": ("E_TYPE", lambda db, g: g.distance(db["root"])),
    "minus one hop": ("E_RANGE", lambda db, g: g.k_hop(db["root"], -1)),
    "half a core": ("E_RANGE", lambda db, g: g.k_core(0.5)),  # type: ignore[arg-type]
    "no rounds": ("E_RANGE", lambda db, g: g.pagerank(0)),
    "too much damping": ("E_RANGE", lambda db, g: g.pagerank(damping=1.5)),
    "no label column": ("E_RPQ", lambda db, g: Graph(db["edge"]).rpq("a")),
    "label of another column": ("E_COLUMN", lambda db, g: g.rpq("a", label="sort")),
    "words for numbers": ("E_RPQ", lambda db, g: g.rpq("a", label="src")),
    "empty expression": ("E_RPQ", lambda db, g: g.rpq(" ")),
    "open bracket": ("E_RPQ", lambda db, g: g.rpq("(a | b")),
    "two labels side by side": ("E_RPQ", lambda db, g: g.rpq("a b")),
    "unknown sign": ("E_RPQ", lambda db, g: g.rpq("a & b")),
    "excepted path": ("E_RPQ", lambda db, g: g.rpq("!(a / b)")),
    "excepted open bracket": ("E_RPQ", lambda db, g: g.rpq("!(a")),
    "excepted nothing": ("E_RPQ", lambda db, g: g.rpq("!")),
    "excepted without labels": ("E_RPQ", lambda db, g: Graph(db["edge"]).rpq("!a")),
    "no number at all": ("E_RPQ", lambda db, g: g.rpq("a{,}")),
    "from more to less": ("E_RPQ", lambda db, g: g.rpq("a{3,1}")),
    "far too many states": ("E_RPQ", lambda db, g: g.rpq("a{1,100000}")),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_with_a_code_and_a_hint(db: ev.Session, what: str) -> None:
    edge = db.table("edge", {"src": int, "dst": int, "kind": str})
    db.table("root", {"node": int})
    db.table("word", {"node": str})
    code, make = BAD[what]
    with pytest.raises(ev.PlanError) as error:
        make(db, Graph(edge, label="kind"))
    assert error.value.code == code
    assert error.value.hint


def test_a_path_expression_s_error_points_at_the_place(db: ev.Session) -> None:
    with pytest.raises(ev.PlanError) as error:
        compile_expression("knows / / likes")
    assert error.value.message == (
        "path expression, column 9: a label is expected, not '/'\n    knows / / likes\n            ^"
    )


# ------------------------------------------------------------------------------------------ automata


def accepts(automaton: Automaton, word: str) -> bool:
    """Whether the automaton reads a word of letters: capitals go backwards; labels not mentioned are `.`."""
    state: int | None = 0
    for sign in word:
        back, label = sign.isupper(), sign.lower()
        letter = Letter(label if label in automaton.labels(back) else None, back)
        state = automaton.moves.get((state, letter)) if state is not None else None
    return state in automaton.accepting


@pytest.mark.parametrize(
    ("expression", "pattern"),
    [
        ("a", "a"),
        ("a / b | c", "ab|c"),
        ("(a | b)* / a", "[ab]*a"),
        ("a+ / b? / c{2}", "a+b?c{2}"),
        ("(a / b){1,2}", "(ab){1,2}"),
        ("a{2,}", "a{2,}"),
        ("a{0}", ""),
        ("(a*)*", "a*"),
        ("((a | b?)+ / c){0,2}", "((a|b?)+c){0,2}"),
        ("^(a / b)", "BA"),
        ("^(a+ / ^b)", "bA+"),
        (". / a", "[abcx]a"),
        ("(. | ^.)* / a / .", "[abcxABCX]*a[abcx]"),
        ("^. / ^a?", "[ABCX]A?"),
    ],
)
def test_automata_read_what_regular_expressions_match(expression: str, pattern: str) -> None:
    automaton = compile_expression(expression)
    for length in range(5):
        for word in map("".join, itertools.product("abxAB", repeat=length)):
            assert accepts(automaton, word) == bool(re.fullmatch(pattern, word)), word


def test_automata_are_minimal() -> None:
    states = {s for s, _ in compile_expression("(a | b) / c | a / c | b / c / a{0}").moves}
    assert len(states) == 2
