"""Nothing that was parsed is passed over: what nobody reads is refused, at its place, before anything is done."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
import sqlglot
from sqlglot import exp

import everview as ev
from everview.plan.nodes import Node
from everview.sql.scalar import composite_functions
from everview.sql.statements import Statements
from everview.sql.text import call_names, consumed_parts, statement_reader
from everview.sql.text.error_positions import Source
from tests.inside import inside
from tests.sql import harness

REFUSED = [
    ("SELECT a, b, count(*) FROM t GROUP BY a, b WITH TOTALS", "TOTALS"),
    ("INSERT OVERWRITE v SELECT 1, 1", "OVERWRITE"),
    ("INSERT OR ROLLBACK INTO k VALUES (5, 5)", "ROLLBACK"),
    (
        "WITH RECURSIVE x(a) AS (SELECT 1 UNION SELECT a + 1 FROM x WHERE a < 3) SEARCH DEPTH FIRST BY a SET o TABLE x",
        "SEARCH",
    ),
    (
        "WITH RECURSIVE x(a) AS (SELECT 1 UNION SELECT a + 1 FROM x WHERE a < 3) CYCLE a SET c USING p TABLE x",
        "CYCLE",
    ),
    ("SELECT a FROM v ORDER BY a LIMIT 1 BY a", "BY a"),
    ("CREATE VIEW w WITH (x = 1) AS SELECT 1 AS a", "1"),
    ("CREATE TABLE w (x int) WITH (colour = 70)", "70"),
    ("SELECT * FROM v@idx", "idx"),
    ("SELECT a FROM v TABLESAMPLE (10)", "TABLESAMPLE"),
    ("SELECT a FROM v FOR UPDATE", "FOR"),
    ("SELECT array_agg(a, c) FROM v", "c)"),
    ("SELECT string_agg(s, ',', 'x') FROM t", "'x'"),
    ("DELETE FROM v LIMIT 1", "LIMIT"),
    ("SELECT sum(a) IGNORE NULLS OVER (ORDER BY a ROWS 1 PRECEDING) FROM v", "sum"),
    ("SELECT a FROM v WHERE a = 1 CONNECT BY a = c", "CONNECT"),
]
"""Statements with a part that is not supported, and what stands at the place of the error."""


@pytest.fixture
def db() -> Iterator[ev.Session]:
    with harness.session() as session:
        session.sql("CREATE TABLE k (id int PRIMARY KEY, n int)")
        session.sql("INSERT INTO v VALUES (1, 1), (2, 2); INSERT INTO k VALUES (5, 5)")
        yield session


@pytest.mark.parametrize(("text", "at"), REFUSED, ids=[text[:60] for text, _ in REFUSED])
def test_what_is_not_supported_is_refused_at_its_place(db: ev.Session, text: str, at: str) -> None:
    before = (db["v"].rows(), db["k"].rows(), db.tables, db.views)
    with pytest.raises(ev.PlanError) as caught:
        db.sql(text)
    error = caught.value
    assert error.code == "E_UNSUPPORTED", error
    assert isinstance(error, ev.sql.SqlError)
    assert text[error.column - 1 :].startswith(at), error
    assert str(error).split("\n")[2].endswith("^")
    assert (db["v"].rows(), db["k"].rows(), db.tables, db.views) == before


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT a, FROM v", 9),
        ("SELECT a FROM v,", 16),
        ("SELECT a FROM v WHERE a IN (1, 2,)", 33),
        ("INSERT INTO v VALUES (1, 2),", 28),
        ("SELECT a FROM v GROUP BY a, ORDER BY a", 27),
        ("SELECT , a FROM v", 8),
        ("SELECT a,, c FROM v", 9),
    ],
)
def test_stray_commas(db: ev.Session, text: str, column: int) -> None:
    with pytest.raises(ev.PlanError, match="comma") as caught:
        db.sql(text)
    assert caught.value.code == "E_SYNTAX"
    assert f"column {column}:" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT count(*) FROM v GROUP BY", 24),
        ("SELECT (SELECT count(*) FROM v GROUP BY)", 32),
        ("SELECT count(*) FROM v GROUP BY HAVING true", 24),
        ("SELECT rank() OVER (PARTITION BY ORDER BY a) FROM v", 21),
        ("SELECT DISTINCT ON () a FROM v", 20),
        ("MERGE INTO k USIN v ON k.id = v.a WHEN MATCHED THEN DELETE", 14),
        ("MERGE INTO k x (SELECT 5 AS a) v ON x.id = v.a WHEN MATCHED THEN DELETE", 14),
        ("CREATE VIEW w AS SELECT a, count(*), count(c) FROM v GROUP BY a", 38),
        ("CREATE VIEW w AS SELECT a, c AS b, c AS a FROM v", 36),
        ("CREATE VIEW w (x, y, x) AS SELECT a, c, 1 FROM v", 22),
    ],
)
def test_what_is_missing_is_missed(db: ev.Session, text: str, column: int) -> None:
    """The parser reads an empty GROUP BY as none, and USIN as an alias."""
    before = (db["v"].rows(), db["k"].rows(), db.views)
    with pytest.raises(ev.PlanError) as caught:
        db.sql(text)
    assert caught.value.code in ("E_SYNTAX", "E_DUPLICATE")
    assert f"line 1, column {column}:" in str(caught.value)
    assert (db["v"].rows(), db["k"].rows(), db.views) == before


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("INSERT INTO v VALUES (int 5, 6)", 27),  # the parser reads casts
        ("SELECT a FROM v ORDER BY text 1", 31),
        ("VALUES (1), (2) x", 17),
        ("MERGE INTO k USING v ON k.id = v.a WHEN NOT MATCHED THEN INSERT VALUES (v.a x, v.c)", 77),
        ("SELECT (a x) FROM v", 11),
        ("SELECT c FROM v AS q (1)", 23),
        ("UPDATE v char varying SET c = 1", 10),
        ("SELECT a FROM v localtime", 17),
        ("CREATE SEQUENCE s START 5 DEFAULT", 27),
        ("CREATE TABLE w AS MATERIALIZED SELECT 1 AS x", 19),
        ("SELECT a FROM v ORDER BY 'c'", 26),  # a constant, which orders nothing
        ("SELECT a FROM v ORDER BY a, 1.5", 29),
        ("SELECT count(*) FROM v GROUP BY 'a'", 33),
        ("SELECT DISTINCT ON ('a') a FROM v", 21),
        ("SELECT a FROM v LIMIT 3 ORDER BY a", 25),  # clauses in another order
        ("SELECT a FROM v ORDER BY a WHERE a = 1", 28),
        ("SELECT a, count(*) FROM v GROUP BY a WHERE a = 1", 38),
        ("SELECT v.a FROM v WHERE v.a = 1 JOIN k ON k.id = v.a", 33),
        ("SELECT a FROM v ORDER BY a UNION SELECT c FROM v", 28),
        ("SELECT CASE WHEN a = 1 'x' END FROM v", 13),  # without THEN
        ("MERGE INTO k USING v ON k.id = v.a WHEN MATCHED DELETE", 36),
        ("CREATE VIEW w SELECT a FROM v", 15),  # without AS
        ("MERGE INTO k USING v ON k.id = v.a WHEN MATCHED BY SOURCE THEN DELETE", 49),
        ("INSERT INTO k VALUES (5, 5) ON CONFLICT (id DESC) DO NOTHING", 42),
        ("INSERT INTO k VALUES (5, 5) ON CONFLICT (id NULLS FIRST) DO NOTHING", 42),
        ("CREATE TABLE w (x int UNIQUE WHERE x > 3)", 36),  # all rows were unique, or none
        ("CREATE TABLE w (x int, UNIQUE (x) WHERE x > 3)", 41),
    ],
)
def test_what_the_parser_takes_for_something_else(db: ev.Session, text: str, column: int) -> None:
    """PostgreSQL says of all of them that they are no SQL, or that a constant says nothing."""
    before = (db["v"].rows(), db["k"].rows(), db.tables, db.views)
    with pytest.raises(ev.PlanError) as caught:
        db.sql(text)
    assert caught.value.code in ("E_SYNTAX", "E_UNSUPPORTED", "E_RANGE")
    assert f"line 1, column {column}:" in str(caught.value)
    assert (db["v"].rows(), db["k"].rows(), db.tables, db.views) == before


def test_clauses_of_different_queries_are_in_order(db: ev.Session) -> None:
    for text in (
        "SELECT a FROM (SELECT a FROM v ORDER BY a LIMIT 1) AS q WHERE a > 0 ORDER BY a",
        "(SELECT a FROM v ORDER BY a LIMIT 1) UNION SELECT c FROM v ORDER BY a",
        "SELECT a FROM v WHERE a = 1 UNION SELECT c FROM v JOIN k ON c = id WHERE c = 1 ORDER BY a",
        "INSERT INTO k SELECT a, c FROM v ORDER BY a LIMIT 1 ON CONFLICT (id) DO UPDATE SET n = 3 WHERE k.n > 1",
        "SELECT sum(a) FILTER (WHERE a > 1), sum(c) OVER (ORDER BY count(*)) FROM v GROUP BY c HAVING c > 0 LIMIT 1",
        "SELECT CASE WHEN CASE WHEN a = 1 THEN true ELSE false END THEN 1 WHEN a = 2 THEN 3 END FROM v ORDER BY 1",
        "WITH q AS (SELECT a FROM v LIMIT 1) SELECT a FROM q WHERE a = 1 GROUP BY a ORDER BY a LIMIT 1",
    ):
        db.sql(text)


def test_a_computed_column_is_not_null_if_it_says_so(db: ev.Session) -> None:
    db.sql("CREATE TABLE w (x int, y AS (x + 1) PERSISTED NOT NULL)")
    with pytest.raises(ev.EverviewError) as caught:
        db.sql("INSERT INTO w (x) VALUES (NULL)")
    assert caught.value.code == "E_NULL"


def test_other_dialects_order_by_constants(db: ev.Session) -> None:
    db.sql("SET dialect = 'duckdb'")
    assert len(db.sql("SELECT a FROM v ORDER BY 'c'")) == 2


def test_operators_give_no_name(db: ev.Session) -> None:
    """sqlglot has classes for them, whose names nobody has written: j_s_o_n_b_contains_top_key."""
    query = "SELECT j -> 'k', j ? 'k', j @> '{}', s ~ 'x', 2 ^ 3, power(2, 3), mod(5, 2), s COLLATE \"C\" FROM q"
    db.sql("CREATE TABLE q (j jsonb, s text)")
    wanted = ["column1", "column2", "column3", "column4", "column5", "power", "mod", "s"]
    assert db.sql(query).columns == wanted


def test_a_join_needs_a_condition(db: ev.Session) -> None:
    """sqlglot takes POSITIONAL for the table's alias."""
    for text in ("SELECT * FROM v POSITIONAL JOIN u", "SELECT * FROM v JOIN u", "SELECT * FROM v INNER JOIN (u)"):
        with pytest.raises(ev.PlanError, match="needs ON or USING"):
            db.sql(text)
    assert len(db.sql("SELECT * FROM v, u")) == len(db.sql("SELECT * FROM v CROSS JOIN u")) == 0


def test_conflicts_are_about_the_key(db: ev.Session) -> None:
    db.sql("INSERT INTO k VALUES (5, 6) ON CONFLICT (id) DO NOTHING")
    with pytest.raises(ev.PlanError, match="not the key") as caught:
        db.sql("INSERT INTO k VALUES (5, 6) ON CONFLICT (n) DO NOTHING")
    assert caught.value.code == "E_KEY"
    assert db["k"].rows() == [(5, 5)]


# ------------------------------------------------------------------------------------- WITH before changes


def test_with_before_delete_hides_no_table(db: ev.Session) -> None:
    """The rows of the WITH query count, not those of a table that has its name."""
    db.sql("INSERT INTO u VALUES (1, 1, 'x'), (2, 2, 'y')")
    db.sql("WITH u AS (SELECT 2 AS a) DELETE FROM v WHERE a IN (SELECT a FROM u)")
    assert db["v"].rows() == [(1, 1)]


def test_with_before_update_and_insert(db: ev.Session) -> None:
    db.sql("WITH q AS (SELECT 7 AS a, 8 AS c), r AS (SELECT * FROM q) INSERT INTO v SELECT a, c FROM r")
    assert sorted(db["v"].rows()) == [(1, 1), (2, 2), (7, 8)]
    db.sql("WITH v AS (SELECT 7 AS a) UPDATE v SET c = (SELECT max(a) FROM v) + 1 WHERE a IN (SELECT a FROM v)")
    assert sorted(db["v"].rows()) == [(1, 1), (2, 2), (7, 8)], "the WITH's v is meant in the subqueries"
    db.sql("WITH w AS (SELECT 3 AS x) UPDATE v SET c = (SELECT max(x) FROM w) WHERE v.a = 7")
    assert sorted(db["v"].rows()) == [(1, 1), (2, 2), (7, 3)]
    db.sql("WITH q AS (SELECT 1 AS one) INSERT INTO v VALUES ((SELECT max(one) FROM q), 4)")
    assert (1, 4) in db["v"].rows()


# --------------------------------------------------------------------------------- all that sqlglot knows

STATEMENTS = [
    "SELECT a, b AS n FROM t WHERE a = 1 GROUP BY a, b HAVING count(*) > 1 ORDER BY a LIMIT 3",
    "SELECT DISTINCT a FROM t JOIN u USING (a) ORDER BY a OFFSET 1",
    "SELECT t.a FROM t LEFT JOIN u ON t.a = u.a WHERE t.b BETWEEN 1 AND 2 AND t.s LIKE 'a%' AND t.a IN (1, 2)",
    "WITH q AS (SELECT a FROM t) SELECT a FROM q UNION ALL SELECT a FROM u",
    "SELECT a, sum(b) OVER (PARTITION BY a ORDER BY b ROWS 1 PRECEDING) FROM t",
    "SELECT CASE WHEN a > 1 THEN 'x' ELSE s END, CAST(a AS double), d + interval '1 day', lower(s) FROM t",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AND a < (SELECT max(c) FROM u)",
    "SELECT count(DISTINCT a), string_agg(s, ','), sum(a) FILTER (WHERE b > 1) FROM t",
    "VALUES (1, 'x'), (2, 'y')",
    "SELECT a FROM v EXCEPT SELECT c FROM v",
]


def _plan(sql: Statements, tree: exp.Expr, text: str) -> tuple[Node, tuple[str, ...]] | None:
    """What a statement's tree is bound to; None if it is refused."""
    source = Source(text)
    try:
        query, _ = consumed_parts.whole(tree, source, lambda: sql.bound(tree, source))
    except ev.EverviewError:
        return None
    return query.node, query.names


def _values() -> Iterator[object]:
    yield True
    yield "X"
    yield exp.to_identifier("a")
    yield exp.column("a")
    yield [exp.column("a")]


NO_DIFFERENCE = {
    ("Identifier", "quoted"),
    ("Join", "kind"),  # INNER, OUTER
    ("Join", "method"),  # no text
    ("Join", "side"),
    ("TableAlias", "columns"),  # the names that there are
    ("Table", "alias"),
    ("Column", "table"),
    ("With", "recursive"),  # nothing reads itself
    ("Select", "windows"),  # nothing is over it
    ("Window", "alias"),
    ("Select", "order"),  # by nothing
    ("Group", "all"),  # GROUP BY ALL a, b: the opposite of DISTINCT
    ("Literal", "is_string"),  # of EXISTS (SELECT 1), of an interval
}
"""Parts that are read and that some value makes no difference to, with the reason."""


@pytest.mark.parametrize("text", [*STATEMENTS[:2], *(pytest.param(s, marks=pytest.mark.slow) for s in STATEMENTS[2:])])
def test_a_part_that_is_set_is_refused_or_makes_a_difference(db: ev.Session, text: str) -> None:
    """Set every part of every node of a statement that it does not have."""
    db.sql("SELECT 1")
    sql = inside(db).attached["sql"]
    assert sql is not None
    plain = _plan(sql, statement_reader.parsed(Source(text)), text)
    assert plain is not None
    original = sqlglot.parse_one(text, read="postgres")
    nodes = list(original.walk())
    passed_over: set[tuple[str, str]] = set()
    for i, node in enumerate(nodes):
        for part in node.arg_types:
            if node.args.get(part) or any((k, part) in consumed_parts.MEANINGLESS for k in type(node).__mro__):
                continue
            for value in _values():
                tree = original.copy()
                list(tree.walk())[i].set(part, value)
                try:
                    found = _plan(sql, consumed_parts.recorded(tree), text)
                except (AttributeError, TypeError, ValueError, KeyError):
                    continue  # a value that no parser would give
                if found == plain:
                    passed_over.add((type(node).__name__, part))
    assert not passed_over - NO_DIFFERENCE


def _classes() -> list[type[exp.Expr]]:
    found = [c for c in vars(exp).values() if inspect.isclass(c) and issubclass(c, exp.Expression)]
    return sorted({c for c in found if c.arg_types and not inspect.isabstract(c)}, key=lambda c: c.__name__)


def test_every_class_of_nodes_is_refused_or_all_of_it_is_read(db: ev.Session) -> None:
    """Each class that sqlglot has, with all its parts, as an output, a condition, a table and a statement."""
    db.sql("SELECT 1")
    sql = inside(db).attached["sql"]
    assert sql is not None
    accepted: set[str] = set()
    for kind in _classes():
        for place in ("output", "condition", "table", "whole"):
            given = {p: [exp.column("a")] if p == "expressions" else exp.column("a") for p in kind.arg_types}
            node = kind(**given)
            tree: exp.Expr = exp.Select(expressions=[exp.column("a")], from_=exp.From(this=exp.to_table("t")))
            if place == "output":
                tree.set("expressions", [node])
            elif place == "condition":
                tree.set("where", exp.Where(this=node))
            elif place == "table":
                tree.set("from_", exp.From(this=node))
            else:
                tree = node
            try:
                bound = _plan(sql, consumed_parts.recorded(tree), "SELECT a FROM t")
            except (AttributeError, TypeError, ValueError, KeyError, AssertionError):
                continue  # parts of the wrong kind, which no parser would give
            if bound is not None:
                assert not list(consumed_parts.unread(tree))
                accepted.add(kind.__name__)
    assert len(_classes()) > 900
    assert {"Add", "Abs", "Paren"} <= accepted, "the test's nodes are no longer understood"
    assert not accepted & {"Select", "Table", "Window", "Lateral", "Group", "Hint", "JSONExtract", "Pivot"}


def test_comparing_and_copying_is_not_reading() -> None:
    tree = consumed_parts.recorded(sqlglot.parse_one("SELECT a FROM t LIMIT 1", read="postgres"))
    assert tree == tree.copy()
    assert len(list(consumed_parts.unread(tree))) == len(
        list(consumed_parts.unread(consumed_parts.recorded(tree.copy())))
    )
    assert tree.find(exp.Limit) is not None
    assert ("limit") in [part for _, part in consumed_parts.unread(tree)]
    consumed_parts.understood(tree)
    assert not list(consumed_parts.unread(tree))


def test_functions_of_typed_values_are_read_as_calls() -> None:
    assert composite_functions.CALLS.keys() == call_names.TYPED
