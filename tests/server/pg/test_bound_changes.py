"""Changes that are bound once have the rows, counts and errors of those that are bound anew."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import everview as ev
from everview.server.pg.connection_work import Outcome, Work
from everview.server.pg.literal_shapes import shape_of
from everview.server.pg.settings import Settings
from everview.session.core import core_of
from everview.session.rights.principal import acting
from everview.sql.answers.parameter_values import Given
from everview.sql.dml.bound_changes import BoundChanges
from everview.sql.rights import roles
from everview.sql.statements import Statements
from tests import effort

SCHEMA = """
CREATE TABLE t (k int PRIMARY KEY, s text, c int DEFAULT 5, d date, f double precision, n numeric(10, 2), b boolean,
    v varchar(3), CHECK (c < 1000));
CREATE TABLE log (k int, s text);
CREATE VIEW total AS SELECT s, count(*) AS n, sum(c) AS c FROM t GROUP BY s
"""


class Side:
    """A database and a connection to it."""

    def __init__(self) -> None:
        self.db = ev.connect()
        self.db.sql(SCHEMA)
        self.work = Work(Settings())

    def run(self, text: str, values: tuple[Any, ...] | None = None) -> object:
        """What a statement gives, or its error."""
        try:
            given = None
            if values is not None:
                known, _, _ = self.work.described(self.db, text, {})
                given = Given(known.known, {str(i + 1): v for i, v in enumerate(values)})
            outcome: Outcome = self.work.run(self.db, text, given, changing=True)
        except ev.EverviewError as error:
            return error.code, error.message, error.hint
        return outcome.affected, None if outcome.rows is None else sorted(outcome.rows.rows(), key=repr)

    def rows(self) -> list[list[Any]]:
        return [sorted(self.db[name].rows(), key=repr) for name in ("t", "log", "total")]


@pytest.fixture
def side() -> Iterator[Side]:
    made = Side()
    yield made
    made.db.close()


def count_reused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were not bound again, as they come."""
    found: list[str] = []
    run = Statements.run_again

    def noted(self: Statements, change: Any, text: str) -> Any:
        found.append(text)
        return run(self, change, text)

    monkeypatch.setattr(Statements, "run_again", noted)
    return found


def never(*_: object) -> None:
    return None


PREPARED: list[tuple[str, Callable[[random.Random], tuple[Any, ...]]]] = [
    ("INSERT INTO t (k, s) VALUES ($1 , $2 )", lambda r: (r.randrange(30), r.choice(["a", "b", None]))),
    ("INSERT INTO t (k, c, v) VALUES ($1 , $2 , $3 )",
     lambda r: (r.randrange(30), r.choice([1, 2000]), "x" * r.randrange(5))),
    ("INSERT INTO t (k, n, f, b) VALUES ($1 , $2 , 7, $3 ), (-1 , 1.5, $2 , true)",
     lambda r: (r.randrange(30), r.random(), True)),
    ("INSERT INTO t (k, d) VALUES ($1 , DEFAULT)", lambda r: (r.choice([None, 3]),)),
    ("INSERT INTO t (k, s, c) VALUES ($1 , 'x', DEFAULT) RETURNING k, s, c + 1 AS m", lambda r: (r.randrange(60),)),
    ("INSERT INTO t (k, s) VALUES ($1 , $2 ) ON CONFLICT (k) DO UPDATE SET s = excluded.s",
     lambda r: (r.randrange(30), "u")),
    ("INSERT INTO t (k, s) VALUES ($1 , $2 ) ON CONFLICT DO NOTHING", lambda r: (r.randrange(30), "u")),
    ("INSERT INTO log VALUES ($1 , $2 )", lambda r: (r.randrange(5), "l")),
    ("UPDATE t SET s = $1 WHERE k = $2 ", lambda r: (r.choice(["p", "q", None]), r.randrange(30))),
    ("UPDATE t SET c = c + $1 WHERE k = $2 ", lambda r: (r.choice([1, 400]), r.randrange(30))),
    ("UPDATE t SET c = $1 , s = s WHERE k > $2 AND k < $2 + 4", lambda r: (r.randrange(9), r.randrange(30))),
    ("UPDATE log SET s = $1 WHERE k = $2 ", lambda r: ("m", r.randrange(5))),
    ("DELETE FROM t WHERE k = $1 ", lambda r: (r.choice([None, r.randrange(30)]),)),
    ("DELETE FROM t WHERE s = $1 AND k < 10 RETURNING k", lambda r: (r.choice("abpqux"),)),
    ("DELETE FROM log WHERE k = $1 OR s IS NULL", lambda r: (r.randrange(5),)),
]  # fmt: skip

WRITTEN: list[Callable[[random.Random], str]] = [
    lambda r: (
        f"INSERT INTO t VALUES ({r.randrange(30)}, 'it''s {r.randrange(3)}', {r.randrange(-4, 9)}, "
        f"'2020-01-0{r.randrange(10)}')"
    ),
    lambda r: f"INSERT INTO t (k, n, f) VALUES ({r.randrange(30)}, '{r.randrange(9)}.255', {r.random():.3f})",
    lambda r: f"INSERT INTO t (k, s) VALUES ('{r.choice(['7', 'seven'])}', {r.choice(['NULL', '1'])})",
    lambda r: f'UPDATE "t" SET s = \'{r.choice("xy")}\' WHERE "k" = {r.randrange(30)}',
    lambda r: f"UPDATE t SET d = '{r.choice(['2021-02-03', '2021-02-30'])}' WHERE k = {r.randrange(30)}",
    lambda r: f"UPDATE t SET c = c - {r.randrange(3)} WHERE k = -{r.randrange(3)}",
    lambda r: f"DELETE FROM t WHERE k = {r.randrange(30)} AND s = '{r.choice('xyau')}'",
    lambda r: f"DELETE FROM t WHERE k = '{r.randrange(30)}'",
]


@pytest.mark.parametrize("seed", range(2))
def test_bound_once_or_each_time_is_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    once, anew, chosen = Side(), Side(), random.Random(seed)
    anew.work._bound_before = never  # type: ignore[method-assign,assignment]
    reused = count_reused(monkeypatch)
    for number in range(150):
        if number % 60 == 50:  # a definition in between
            for one in (once, anew):
                one.db.sql(f"CREATE TABLE other{number} (x int)")
        if chosen.random() < 0.6:
            text, values = chosen.choice(PREPARED)
            given: tuple[Any, ...] | None = values(chosen)
        else:
            text, given = chosen.choice(WRITTEN)(chosen), None
        assert once.run(text, given) == anew.run(text, given), (text, given)
        if number % 25 == 0:
            assert once.rows() == anew.rows()
    assert once.rows() == anew.rows()
    assert len(reused) > 30
    once.db.close()
    anew.db.close()


@pytest.mark.parametrize(
    "definition",
    [
        "ALTER TABLE t ALTER COLUMN c SET DEFAULT 6",
        "ALTER TABLE t ADD COLUMN z int DEFAULT 3",
        "ALTER TABLE t RENAME COLUMN s TO s2",
        "DROP VIEW total; DROP TABLE t; CREATE TABLE t (k text, s text, c int)",
        "CREATE UNIQUE INDEX once ON t (s)",
    ],
)
def test_definitions_count_at_once(side: Side, definition: str) -> None:
    anew = Side()
    anew.work._bound_before = never  # type: ignore[method-assign,assignment]
    text = "INSERT INTO t (k, s) VALUES ($1 , $2 )"
    for one in (side, anew):
        for number in range(3):
            assert one.run(text, (number, f"s{number}")) == (1, None)
        one.db.sql(definition)
    for number in range(10, 13):
        assert side.run(text, (number, "s1")) == anew.run(text, (number, "s1"))
    assert sorted(side.db["t"].rows(), key=repr) == sorted(anew.db["t"].rows(), key=repr)
    anew.db.close()


def test_search_path_decides_which_table(side: Side) -> None:
    side.db.sql("CREATE SCHEMA mine; CREATE TABLE mine.log (k int, s text)")
    for _ in range(3):
        side.run("INSERT INTO log VALUES (1, 'public')")
    side.work.settings.set("search_path", "mine, public")
    for _ in range(3):
        side.run("INSERT INTO log VALUES (1, 'mine')")
    assert side.db["log"].rows() == [(1, "public")] * 3
    assert side.db["mine.log"].rows() == [(1, "mine")] * 3


def test_rights_count_at_once(side: Side) -> None:
    side.db.sql("CREATE ROLE app LOGIN; GRANT INSERT, SELECT, DELETE ON log TO app")
    statements = Statements(side.db)
    app = roles.acting_as(statements, "app")
    with acting(app):
        for _ in range(3):
            assert side.run("INSERT INTO log VALUES (1, 'x')") == (1, None)
    side.db.sql("REVOKE INSERT ON log FROM app")
    with acting(app):
        assert side.run("INSERT INTO log VALUES (1, 'x')")[0] == "E_FORBIDDEN"  # type: ignore[index]
    assert side.run("INSERT INTO log VALUES (1, 'x')") == (1, None)


def test_policies_are_those_of_who_asks(side: Side) -> None:
    side.db.sql(
        "CREATE TABLE own (who text, n int); CREATE ROLE a LOGIN; CREATE ROLE b LOGIN;"
        "GRANT SELECT, INSERT, UPDATE, DELETE ON own TO a, b; CREATE POLICY mine ON own USING (who = current_user);"
        "ALTER TABLE own ENABLE ROW LEVEL SECURITY"
    )
    statements = Statements(side.db)
    principals = {name: roles.acting_as(statements, name) for name in "ab"}
    for number in range(6):
        for name, who in principals.items():
            with acting(who):
                assert side.run(f"INSERT INTO own VALUES ('{name}', {number})") == (1, None)
                refused = side.run(f"INSERT INTO own VALUES ('{'b' if name == 'a' else 'a'}', {number})")
                assert refused[0] == "E_POLICY" or refused[0] == "E_FORBIDDEN"  # type: ignore[index]
                assert side.run(f"UPDATE own SET n = n + 10 WHERE n = {number}") == (1, None)
                assert side.run(f"DELETE FROM own WHERE n = {number + 10}") == (1, None)
    assert side.db["own"].rows() == []


def test_clocks_and_sequences_are_read_each_time(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    side.db.sql("CREATE TABLE numbered (id serial, x int, at timestamp DEFAULT now())")
    reused = count_reused(monkeypatch)
    for number in range(4):
        side.run(f"INSERT INTO numbered (x) VALUES ({number})")
        side.run(f"INSERT INTO numbered (x, at) VALUES ({number}, now())")
        side.run(f"INSERT INTO numbered (x, at) VALUES ({number}, 'now')")
    found = side.db["numbered"].rows()
    assert sorted(row[0] for row in found) == [*range(1, len(found) + 1)]
    assert len({row[2] for row in found}) == len(found) >= 8
    assert all("now" not in text for text in reused) and len(reused) == 3


def test_a_transaction_sees_its_own_changes(side: Side) -> None:
    for number in range(3):
        side.run(f"INSERT INTO log VALUES ({number}, 'x')")
        side.run(f"UPDATE log SET s = 'y' WHERE k = {number}")
    side.work.begin()
    assert side.run("INSERT INTO log VALUES (7, 'x')") == (1, None)
    assert side.run("UPDATE log SET s = 'y' WHERE k = 7") == (1, None)
    assert (7, "y") not in side.db["log"].rows()
    side.work.commit(side.db)
    assert (7, "y") in side.db["log"].rows()


def test_the_log_has_what_was_written(side: Side) -> None:
    side.db.system.log()
    for number in range(3):
        side.run(f"INSERT INTO log VALUES ({number}, 'x')")
    shown = [row[0] for row in side.db.sql("SELECT text FROM ev.statements").rows()]
    assert {f"INSERT INTO log VALUES ({n}, 'x')" for n in range(3)} <= set(shown)


def test_it_is_a_fraction_of_the_work(side: Side) -> None:
    text = "INSERT INTO log VALUES ($1 , $2 )"
    given, _, _ = side.work.described(side.db, text, {})

    def insert(number: int) -> None:
        side.work.run(side.db, text, Given(given.known, {"1": number, "2": "x"}), changing=True)

    insert(0)
    insert(1)
    again = effort.calls(lambda: insert(2))
    side.work._bound_before = never  # type: ignore[method-assign,assignment]
    assert 5 * again < effort.calls(lambda: insert(3))


def test_few_are_kept(side: Side) -> None:
    kept = BoundChanges()
    statements = Statements(side.db)
    for number in range(1_000):
        kept.find(statements, f"INSERT INTO log VALUES ($1 , 'x{number}')", Given({}), lambda: None)
    assert len(kept) <= 64
    assert core_of(side.db).time == 0


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("INSERT INTO t VALUES (1, '')", ("INSERT INTO t VALUES ($1 , $2 )", [1, ""])),
        ("UPDATE t SET a=-5 WHERE b = - 5", ("UPDATE t SET a=$1  WHERE b = - $2 ", [-5, 5])),
        ("UPDATE t SET a1 = 2.5, \"b 3\" = .5 WHERE c = 1e3", None),
        ("INSERT INTO t VALUES ('a''b', 'c\\')", ("INSERT INTO t VALUES ($1 , $2 )", ["a'b", "c\\"])),
        ("INSERT INTO t VALUES (E'a', 1)", None),
        ("INSERT INTO t VALUES (U&'a', 1)", None),
        ("INSERT INTO t VALUES ('a'\n'b', 1)", None),
        ("INSERT INTO t VALUES (1) -- '2'", None),
        ("INSERT INTO t /* 3 */ VALUES (1)", None),
        ("INSERT INTO t VALUES ($$a$$, 1)", None),
        ("INSERT INTO \"t 1\" VALUES (12345678901234567890)", None),
    ],
)  # fmt: skip
def test_shapes(text: str, shape: tuple[str, list[Any]] | None) -> None:
    found = shape_of(text)
    assert (None if found is None else (found.text, list(found.values.values()))) == shape
