"""Every part of every node of changes and definitions: what is set and makes no difference is refused.

`test_parts` does this for queries by comparing plans. Here the statement is done, and what it leaves is compared: the
rows of all tables, what DESCRIBE and SHOW say, sequences and constraints, and the answer of RETURNING.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator

import pytest
import sqlglot
from sqlglot import exp

import everview as ev
from everview.session.core import core_of
from everview.sql.statements import Statements, _handler
from everview.sql.text import consumed_parts, statement_reader
from tests.inside import inside

SETUP = """
    CREATE TABLE k (id int PRIMARY KEY, n int UNIQUE); CREATE TABLE u (a int, c int); CREATE VIEW v AS SELECT a FROM u;
    INSERT INTO k VALUES (1, 1), (2, 2), (3, 3); INSERT INTO u VALUES (1, 5), (2, 6), (2, 7), (4, 8)
"""
CHANGES = [
    "INSERT INTO k VALUES (5, 6), (7, 8)",
    "INSERT INTO k (id, n) SELECT a + 10, c FROM u WHERE a = 1 RETURNING id",
    "INSERT INTO k VALUES (1, 6) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
    "WITH q AS (SELECT 9 AS x) INSERT INTO u SELECT x, x FROM q",
    "UPDATE k SET n = n + 10 WHERE id = 2",
    "UPDATE k SET n = u.c FROM u WHERE u.a = k.id AND c = 5 RETURNING id, n",
    "DELETE FROM k WHERE id = 2",
    "DELETE FROM k USING u WHERE u.a = k.id RETURNING id",
    "MERGE INTO k USING u ON k.id = u.a AND u.c = 5 WHEN MATCHED THEN UPDATE SET n = u.c "
    "WHEN NOT MATCHED AND u.c > 7 THEN INSERT (id, n) VALUES (u.c, u.a)",
    "TRUNCATE TABLE k, u",
]
DEFINITIONS = [
    "CREATE TABLE w (id int PRIMARY KEY, p text NOT NULL DEFAULT 'x', q int CHECK (q > 0), UNIQUE (p))",
    "CREATE TABLE w (id serial, x int GENERATED ALWAYS AS (id + 1) STORED, y int REFERENCES k ON DELETE CASCADE)",
    "CREATE TABLE w (LIKE k)",
    "CREATE TABLE w AS SELECT a, c FROM u",
    "CREATE VIEW w AS SELECT a, count(*) AS n FROM u GROUP BY a",
    "CREATE TYPE mood AS ENUM ('p', 'q')",
    "CREATE SEQUENCE s START WITH 5 INCREMENT BY 2",
    "CREATE SCHEMA s",
    "DROP TABLE k",
    "DROP VIEW v",
]

NO_DIFFERENCE = {
    ("Table", "alias"): "INSERT INTO k AS x, where nothing says x",
    ("Literal", "is_string"): "'5' is 5 beside a number",
    ("Select", "windows"): "nothing is over it",
    ("Select", "order"): "by nothing",
    ("Group", "all"): "the opposite of DISTINCT",
    ("Join", "kind"): "INNER",
    ("Join", "method"): "no text",
    ("TableAlias", "columns"): "the names that there are",
    ("With", "recursive"): "nothing reads itself",
    ("Column", "table"): "the table that it is of",
    ("Column", "db"): "the schema that it is of",
    ("Ordered", "nulls_first"): "the parser says it of every column of ON CONFLICT",
    ("Create", "exists"): "IF NOT EXISTS, and there is none",
    ("Create", "replace"): "OR REPLACE, and there is none",
    ("Create", "properties"): "TEMP: everything is, in memory",
    ("Create", "with_"): "TEMP, where no text would put it",
    ("Drop", "exists"): "IF EXISTS, and there is one",
    ("Drop", "cascade"): "nothing depends on it",
    ("TruncateTable", "identity"): "no sequence is owned",
    ("TruncateTable", "option"): "nothing refers to it",
    ("ColumnConstraint", "this"): "the name of a key, of NOT NULL or a DEFAULT",
    ("SequenceProperties", "minvalue"): "1, which it is",
    ("SequenceProperties", "maxvalue"): "NO MAXVALUE",
    ("SequenceProperties", "cache"): "how numbers are kept",
    ("ComputedColumnConstraint", "persisted"): "computed columns are stored",
    ("ComputedColumnConstraint", "data_type"): "no text",
    **{
        ("IndexParameters", part): "how the index of a key is kept: no text, or noted"
        for part in ("using", "include", "columns", "with_storage", "partition_by", "tablespace", "on")
    },
}
"""Parts that are read and that some value makes no difference to, with the reason."""


def _values() -> Iterator[object]:
    yield True
    yield "X"
    yield exp.to_identifier("a")
    yield exp.column("a")
    yield [exp.column("a")]
    yield exp.Literal.number(1)
    yield exp.Where(this=exp.false())
    yield [exp.Var(this="X")]
    yield exp.Properties(expressions=[exp.TemporaryProperty()])


def _state(db: ev.Session, answer: object) -> list[str]:
    """All that a statement may have changed, and its answer."""
    core = core_of(db)
    found = [str(answer.rows()) if isinstance(answer, ev.sql.Result) else ""]
    for name in sorted([*db.tables, *db.views]):
        found += [name, str(db.sql(f"DESCRIBE {name}").rows()), str(sorted(map(str, db[name].rows())))]
        found.append(str(core.constraints.rules(name)))
    found += [str(db.sql(f"SHOW {kind}").rows()) for kind in ("INDEXES", "SCHEMAS", "TYPES")]
    return [*found, str(core.catalog.sequences), str(core.catalog.defaults)]


class _Sessions:
    """Sessions with some tables; one is used until a statement succeeds."""

    def __init__(self) -> None:
        self._db: ev.Session | None = None

    def done(self, tree: exp.Expr, text: str) -> list[str] | None:
        """Do a statement's tree: what there is then, None if it is refused."""
        if self._db is None:
            self._db = ev.connect()
            self._db.sql(SETUP)
        db = self._db
        sql = inside(db).attached["sql"]
        assert sql is not None
        source = sql.placed(next(iter(statement_reader.statements(text))).source())
        node = consumed_parts.recorded(tree)
        try:
            answer = sql._in_turn(False, False, Statements._handle, _handler(node, source), node, source)
        except ev.EverviewError:
            return None
        except (AttributeError, TypeError, ValueError, KeyError):  # a value that no parser would give
            self.close()
            return None
        found = _state(db, answer)
        self.close()
        return found

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None


def _passed_over(text: str) -> set[tuple[str, str]]:
    sessions, found = _Sessions(), set[tuple[str, str]]()
    original = sqlglot.parse_one(text, read="postgres")
    plain = sessions.done(original.copy(), text)
    assert plain is not None
    for i, node in enumerate(list(original.walk())):
        for part in node.arg_types:
            if node.args.get(part) or any((k, part) in consumed_parts.MEANINGLESS for k in type(node).__mro__):
                continue
            for value in _values():
                tree = original.copy()
                list(tree.walk())[i].set(part, value)
                if sessions.done(tree, text) == plain:
                    found.add((type(node).__name__, part))
                    break
    sessions.close()
    return found


@pytest.mark.parametrize("text", [*CHANGES, *DEFINITIONS])
def test_a_part_that_is_set_is_refused_or_makes_a_difference(text: str) -> None:
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _passed_over(text) - NO_DIFFERENCE.keys()
    assert not found


def test_the_walk_finds_what_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check at the end many parts make no difference."""
    monkeypatch.setattr(consumed_parts, "unread", lambda tree: iter(()))
    assert len(_passed_over("DELETE FROM k WHERE id = 2") - NO_DIFFERENCE.keys()) > 5
