"""Questions about graphs as people write them, in SQL, rules and collections: no priority, no queue, no hint.

Each is a function that makes the view in a session with tables `edge(src, dst)`, or `edge(src, dst, weight)`, and
`root(node)`. `LIBRARY` has the graph library's own for each question, with the same columns and rows. What differs
from one spelling to the next is what people differ in: whether an undirected edge is walked by two rules or by one
over a union, whether the minimum is taken inside the recursion or after it, UNION or UNION ALL, where a filter stands.

Some spellings ask for more than the answer: `db.datalog` makes every relation of a program a view, and a filter is a
condition that the library has to test, too. `INSTEAD` has the library's own with the same besides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everview import col, fixpoint, lit
from everview.graph import Graph
from everview.language.collection import Collection

View = Any
Spelling = Callable[[Any], View]


def sql(text: str) -> Spelling:
    """A view by a query."""
    return lambda db: db.sql(f"CREATE VIEW plain AS {text}")


def rules(text: str, name: str) -> Spelling:
    """A view by rules; `name` is the relation that is read."""
    return lambda db: db.datalog(text)[name]


def wanted(text: str, name: str) -> Spelling:
    """A view by rules of which only this relation is wanted: the others are nobody's views."""
    return lambda db: db.register(text).interest(name)


def collection(make: Callable[[Any], Collection]) -> Spelling:
    """A view by a collection."""
    return lambda db: db.view("plain", make(db))


# ------------------------------------------------------------------------------------------- components


def _wcc_of_union(db: Any) -> Collection:
    edge = db["edge"]
    both = edge.union_all(edge.select(src=edge.dst, dst=edge.src))
    start = both.select(node=both.src, label=both.src).distinct()

    def spread(known: Collection) -> Collection:
        heard = known.join(both, known.node == both.src).select(node=both.dst, label=known.label)
        return heard.union_all(start).group_by("node").agg(label=col.label.min())

    return start.iterate(spread)


def _wcc_by_ends(db: Any) -> Collection:
    edge = db["edge"]
    start = edge.select(node=edge.src, label=edge.src).union_all(edge.select(node=edge.dst, label=edge.dst))

    def spread(known: Collection) -> Collection:
        there = known.join(edge, known.node == edge.src).select(node=edge.dst, label=known.label)
        back = known.join(edge, known.node == edge.dst).select(node=edge.src, label=known.label)
        return start.union_all(there, back).group_by("node").agg(label=col.label.min())

    return fixpoint(spread, {"node": int, "label": int})


def _wcc_own_label(db: Any) -> Collection:
    """A node keeps what it has: the variable itself is among the candidates."""
    edge = db["edge"]
    both = edge.union_all(edge.select(src=edge.dst, dst=edge.src)).distinct()
    start = both.select(node=both.src, label=both.src).distinct()

    def spread(known: Collection) -> Collection:
        heard = known.join(both, known.node == both.src).select(node=both.dst, label=known.label)
        return known.union_all(heard, start).group_by("node").agg(label=col.label.min())

    return start.iterate(spread)


def _wcc_pairs(db: Any) -> Collection:
    """Everybody hears of everybody; the least name of them afterwards."""
    edge = db["edge"]
    both = edge.union_all(edge.select(src=edge.dst, dst=edge.src)).distinct()
    start = both.select(node=both.src, label=both.src).distinct()

    def spread(known: Collection) -> Collection:
        heard = known.join(both, known.node == both.src).select(node=both.dst, label=known.label)
        return heard.union_all(start).distinct()

    return start.iterate(spread).group_by("node").agg(label=col.label.min())


WCC_SQL_UNION = sql("""
    WITH RECURSIVE both(src, dst) AS (SELECT src, dst FROM edge UNION SELECT dst, src FROM edge),
    part(node, label) AS (
        SELECT node, min(label) FROM (
            SELECT src AS node, src AS label FROM both
            UNION ALL
            SELECT b.dst, p.label FROM part p JOIN both b ON p.node = b.src) AS heard
        GROUP BY node)
    SELECT node, label FROM part""")
WCC_SQL_TWO_RULES = sql("""
    WITH RECURSIVE part(node, label) AS (
        SELECT node, min(label) FROM (
            SELECT src AS node, src AS label FROM edge UNION ALL SELECT dst, dst FROM edge
            UNION ALL SELECT e.dst, p.label FROM part p JOIN edge e ON p.node = e.src
            UNION ALL SELECT e.src, p.label FROM part p JOIN edge e ON p.node = e.dst) AS heard
        GROUP BY node)
    SELECT node, label FROM part""")
WCC_SQL_OR = sql("""
    WITH RECURSIVE part(node, label) AS (
        SELECT node, min(label) FROM (
            SELECT src AS node, src AS label FROM edge UNION SELECT dst, dst FROM edge
            UNION SELECT CASE WHEN p.node = e.src THEN e.dst ELSE e.src END, p.label
                  FROM part p JOIN edge e ON p.node = e.src OR p.node = e.dst) AS heard
        GROUP BY node)
    SELECT node, label FROM part""")
WCC_SQL_AFTERWARDS = sql("""
    WITH RECURSIVE both(src, dst) AS (SELECT src, dst FROM edge UNION SELECT dst, src FROM edge),
    heard(node, label) AS (
        SELECT src, src FROM both UNION SELECT b.dst, h.label FROM heard h JOIN both b ON h.node = b.src)
    SELECT node, min(label) AS label FROM heard GROUP BY node""")
WCC_RULES = rules(
    """
    part(X, min(X)) :- edge(X, _).
    part(X, min(X)) :- edge(_, X).
    part(Y, min(L)) :- part(X, L), edge(X, Y).
    part(Y, min(L)) :- part(X, L), edge(Y, X).
    """,
    "part",
)
WCC_RULES_BOTH = rules(
    """
    both(X, Y) :- edge(X, Y).
    both(X, Y) :- edge(Y, X).
    part(X, min(L)) :- both(X, _), L = X ; part(Y, L), both(Y, X).
    """,
    "part",
)
WCC_RULES_BOTH_ONE = wanted(
    """
    both(X, Y) :- edge(X, Y).
    both(X, Y) :- edge(Y, X).
    part(X, min(L)) :- both(X, _), L = X ; part(Y, L), both(Y, X).
    """,
    "part",
)
EITHER = """
    node(X) :- edge(X, _) ; edge(_, X).
    part(X, min(X)) :- node(X).
    part(Y, min(L)) :- part(X, L), (edge(X, Y) ; edge(Y, X)).
    """
WCC_RULES_EITHER, WCC_RULES_EITHER_ONE = rules(EITHER, "part"), wanted(EITHER, "part")
WCC_RULES_AFTERWARDS = wanted(
    """
    both(X, Y) :- edge(X, Y) ; edge(Y, X).
    heard(X, X) :- both(X, _).
    heard(Y, L) :- heard(X, L), both(X, Y).
    part(X, min(L)) :- heard(X, L).
    """,
    "part",
)


# ---------------------------------------------------------------------------------------- shortest paths


def _sssp(db: Any) -> Collection:
    edge, root = db["edge"], db["root"]
    start = root.select(node=root.node, cost=lit(0))

    def relax(known: Collection) -> Collection:
        further = known.join(edge, known.node == edge.src).select(node=edge.dst, cost=known.cost + edge.weight)
        return further.union_all(start).group_by("node").agg(cost=col.cost.min())

    return start.iterate(relax)


def _sssp_keeping(db: Any) -> Collection:
    """A node keeps what it has, and begins with nothing."""
    edge, root = db["edge"], db["root"]
    start = root.select(node=root.node, cost=lit(0))

    def relax(known: Collection) -> Collection:
        further = edge.join(known, edge.src == known.node).select(node=edge.dst, cost=edge.weight + known.cost)
        return start.union_all(known, further).group_by("node").agg(cost=col.cost.min())

    return fixpoint(relax, {"node": int, "cost": int})


SSSP_SQL = sql("""
    WITH RECURSIVE path(node, cost) AS (
        SELECT node, min(cost) FROM (
            SELECT node, 0 AS cost FROM root
            UNION ALL SELECT e.dst, p.cost + e.weight FROM path p JOIN edge e ON e.src = p.node) AS step
        GROUP BY node)
    SELECT node, cost FROM path""")
SSSP_SQL_UNION = sql("""
    WITH RECURSIVE path(node, cost) AS (
        SELECT node, min(cost) FROM (
            SELECT node, 0 AS cost FROM root
            UNION SELECT e.dst, p.cost + e.weight FROM edge e, path p WHERE e.src = p.node AND e.weight > 0) AS step
        GROUP BY node)
    SELECT node, cost FROM path""")
SSSP_SQL_AFTERWARDS = sql("""
    WITH RECURSIVE path(node, cost) AS (
        SELECT node, 0 FROM root
        UNION SELECT e.dst, p.cost + e.weight FROM path p JOIN edge e ON e.src = p.node)
    SELECT node, min(cost) AS cost FROM path GROUP BY node""")
SSSP_SQL_BOUND = sql("""
    WITH RECURSIVE path(node, cost) AS (
        SELECT node, 0 FROM root
        UNION SELECT e.dst, p.cost + e.weight FROM path p JOIN edge e ON e.src = p.node WHERE p.cost < 1000000)
    SELECT node, min(cost) AS cost FROM path GROUP BY node""")
SSSP_RULES = rules(
    """
    cost(X, min(0)) :- root(X).
    cost(Y, min(C + W)) :- cost(X, C), edge(X, Y, W).
    """,
    "cost",
)
SSSP_RULES_AFTERWARDS = wanted(
    """
    path(X, 0) :- root(X).
    path(Y, C + W) :- path(X, C), edge(X, Y, W).
    cost(X, min(C)) :- path(X, C).
    """,
    "cost",
)


# ----------------------------------------------------------------------------------------- reachability


def _reach(db: Any) -> Collection:
    edge, root = db["edge"], db["root"]

    def step(known: Collection) -> Collection:
        return known.join(edge, known.node == edge.src).select(node=edge.dst).union_all(root).distinct()

    return root.iterate(step)


def _reach_keeping(db: Any) -> Collection:
    edge, root = db["edge"], db["root"]

    def step(known: Collection) -> Collection:
        further = known.join(edge, known.node == edge.src).select(node=edge.dst)
        return known.union_all(further).distinct()

    return root.distinct().iterate(step)


REACH_SQL = sql("""
    WITH RECURSIVE seen(node) AS (
        SELECT node FROM root UNION SELECT e.dst FROM seen s JOIN edge e ON e.src = s.node)
    SELECT node FROM seen""")
REACH_SQL_DISTINCT = sql("""
    WITH RECURSIVE seen(node) AS (
        SELECT DISTINCT node FROM (
            SELECT node FROM root UNION ALL SELECT e.dst FROM edge e WHERE e.src IN (SELECT node FROM seen)) AS s)
    SELECT node FROM seen""")
REACH_SQL_PAIRS = sql("""
    WITH RECURSIVE path(src, dst) AS (
        SELECT node, node FROM root UNION SELECT p.src, e.dst FROM path p JOIN edge e ON e.src = p.dst)
    SELECT dst AS node FROM path WHERE src = 0""")
REACH_RULES = rules("seen(X) :- root(X). seen(Y) :- seen(X), edge(X, Y).", "seen")
REACH_RULES_ONE = rules("seen(Y) :- root(Y) ; seen(X), edge(X, Y).", "seen")


# --------------------------------------------------------------------------------------- strong components


def _trimmed(inside: Collection, edge: Collection) -> Collection:
    """The edges whose ends hear the same least label along `inside`, turned round."""
    start = edge.select(node=edge.dst, label=edge.dst).distinct()

    def spread(known: Collection) -> Collection:
        heard = known.join(inside, known.node == inside.src).select(node=inside.dst, label=known.label)
        return heard.union_all(start).group_by("node").agg(label=col.label.min())

    label = start.iterate(spread)
    source, target = label.alias("source"), label.alias("target")
    tagged = edge.join(source, edge.src == source.node).join(target, edge.dst == target.node)
    return tagged.filter(source.label == target.label).select(src=edge.dst, dst=edge.src)


def _scc(db: Any) -> Collection:
    edge = db["edge"]
    back = edge.select(src=edge.dst, dst=edge.src)
    return edge.iterate(lambda inside: _trimmed(_trimmed(inside, edge), back))


def _scc_mutual(db: Any) -> Collection:
    """(node, component) of nodes on cycles: the least of those that reach it, and that it reaches."""
    edge = db["edge"]

    def further(known: Collection) -> Collection:
        return known.join(edge, known.dst == edge.src).select(src=known.src, dst=edge.dst).union_all(edge).distinct()

    path = edge.iterate(further)
    there, back = path.alias("there"), path.alias("back")
    mutual = there.join(back, (there.src == back.dst) & (there.dst == back.src))
    return mutual.select(node=there.src, other=there.dst).group_by("node").agg(component=col.other.min())


SCC_SQL_MUTUAL = sql("""
    WITH RECURSIVE path(src, dst) AS (
        SELECT src, dst FROM edge UNION SELECT p.src, e.dst FROM path p JOIN edge e ON e.src = p.dst)
    SELECT a.src AS node, min(a.dst) AS component
    FROM path a JOIN path b ON a.src = b.dst AND a.dst = b.src GROUP BY a.src""")
SCC_RULES_MUTUAL = wanted(
    """
    path(X, Y) :- edge(X, Y).
    path(X, Z) :- path(X, Y), edge(Y, Z).
    part(X, min(Y)) :- path(X, Y), path(Y, X).
    """,
    "part",
)


def _strong(db: Any) -> Collection:
    """`Graph.scc` of the nodes on cycles."""
    graph = Graph(db["edge"])
    inside = graph.scc_edges()
    on_cycles = inside.select(node=inside.src).distinct()
    part = graph.scc()
    return part.join(on_cycles, part.node == on_cycles.node, how="semi")


PLAIN: dict[str, dict[str, Spelling]] = {
    "wcc": {
        "collections, over a union": collection(_wcc_of_union),
        "collections, two rules": collection(_wcc_by_ends),
        "collections, keeping": collection(_wcc_own_label),
        "collections, min afterwards": collection(_wcc_pairs),
        "SQL, over a union": WCC_SQL_UNION,
        "SQL, two rules": WCC_SQL_TWO_RULES,
        "SQL, OR": WCC_SQL_OR,
        "SQL, min afterwards": WCC_SQL_AFTERWARDS,
        "rules": WCC_RULES,
        "rules, over a union": WCC_RULES_BOTH,
        "rules, over a union, one wanted": WCC_RULES_BOTH_ONE,
        "rules, either": WCC_RULES_EITHER,
        "rules, either, one wanted": WCC_RULES_EITHER_ONE,
        "rules, min afterwards": WCC_RULES_AFTERWARDS,
    },
    "sssp": {
        "collections": collection(_sssp),
        "collections, keeping": collection(_sssp_keeping),
        "SQL": SSSP_SQL,
        "SQL, UNION and a filter": SSSP_SQL_UNION,
        "SQL, min afterwards": SSSP_SQL_AFTERWARDS,
        "SQL, min afterwards, bounded": SSSP_SQL_BOUND,
        "rules": SSSP_RULES,
        "rules, min afterwards": SSSP_RULES_AFTERWARDS,
    },
    "reach": {
        "collections": collection(_reach),
        "collections, keeping": collection(_reach_keeping),
        "SQL": REACH_SQL,
        "SQL, IN": REACH_SQL_DISTINCT,
        "SQL, pairs from 0": REACH_SQL_PAIRS,
        "rules": REACH_RULES,
        "rules, in one": REACH_RULES_ONE,
    },
    "scc edges": {"collections, nested loops": collection(_scc)},
    "scc": {
        "collections, mutual": collection(_scc_mutual),
        "SQL, mutual": SCC_SQL_MUTUAL,
        "rules, mutual": SCC_RULES_MUTUAL,
    },
}

LIBRARY: dict[str, Spelling] = {
    "wcc": collection(lambda db: Graph(db["edge"]).wcc()),
    "sssp": collection(lambda db: Graph(db["edge"], weight="weight").sssp(db["root"])),
    "reach": collection(lambda db: Graph(db["edge"]).reach(db["root"])),
    "scc edges": collection(lambda db: Graph(db["edge"]).scc_edges()),
    "scc": collection(_strong),
}


def _beside(text: str, question: str) -> Spelling:
    """The library's own, after the views of some rules."""

    def make(db: Any) -> View:
        db.datalog(text)
        return LIBRARY[question](db)

    return make


def _filtered(db: Any) -> Collection:
    edge = db["edge"]
    return Graph(edge.filter(edge.weight > 0), weight="weight").sssp(db["root"])


INSTEAD: dict[tuple[str, str], Spelling] = {
    ("wcc", "rules, over a union"): _beside("both(X, Y) :- edge(X, Y). both(X, Y) :- edge(Y, X).", "wcc"),
    ("wcc", "rules, either"): _beside("node(X) :- edge(X, _) ; edge(_, X).", "wcc"),
    ("sssp", "SQL, UNION and a filter"): collection(_filtered),
}
