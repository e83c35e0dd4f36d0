"""ALTER TABLE, VIEW and INDEX: what becomes of rows, views, subscribers and directories."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.language.relation import relation_of
from everview.session.local_shards import local_shards
from everview.store import wal
from tests.store.damages import copied

Open = Callable[[], ev.Session]


@pytest.fixture(params=["memory", "directory", "checkpoints", "shards"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[ev.Session | None], ev.Session]]:
    """Gives a session, and, given one, the same after it was closed and opened again, where that is possible."""
    kind = request.param

    def open_again(db: ev.Session | None) -> ev.Session:
        if kind in ("memory", "shards"):
            return db if db is not None else ev.connect() if kind == "memory" else local_shards(shards=2)
        if db is not None:
            if kind == "checkpoints":
                db.checkpoint()
            db.close()
        return ev.connect(tmp_path / "db")

    yield open_again


MADE = """
    CREATE TABLE t (a int, b text, c int);
    INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20), (2, 'y', 20);
    CREATE VIEW v AS SELECT a, sum(c) AS total FROM t GROUP BY a;
    CREATE VIEW w AS SELECT v.a, total, b FROM v JOIN t ON t.a = v.a
"""


def test_columns_come_and_go(again: Callable[[ev.Session | None], ev.Session]) -> None:
    db = again(None)
    db.sql(MADE)
    db.sql("ALTER TABLE t ADD COLUMN d date")
    assert sorted(db["t"].rows()) == [(1, "x", 10, None), (2, "y", 20, None), (2, "y", 20, None)]
    db.sql("INSERT INTO t VALUES (1, 'z', 5, '2026-01-31')")
    db = again(db)
    assert sorted(db["v"].rows()) == [(1, 15), (2, 40)]
    with pytest.raises(ev.EverviewError, match="column b of t is needed by w") as error:
        db.sql("ALTER TABLE t DROP COLUMN b")
    assert error.value.code == "E_IN_USE"
    db.sql("ALTER TABLE t DROP COLUMN d, ADD COLUMN IF NOT EXISTS a text, ADD e text, DROP COLUMN IF EXISTS nope")
    db.sql("UPDATE t SET e = b; DELETE FROM t WHERE a = 2 AND c = 20; INSERT INTO t (e, a, c) VALUES ('new', 2, 1)")
    db = again(db)
    assert sorted(db["t"].rows(), key=str) == [(1, "x", 10, "x"), (1, "z", 5, "z"), (2, None, 1, "new")]
    assert sorted(db["w"].rows(), key=str) == [(1, 15, "x"), (1, 15, "z"), (2, 1, None)]
    db.sql("ALTER TABLE t DROP COLUMN b CASCADE")
    assert list(db.views) == ["v"]
    db = again(db)
    db.sql("INSERT INTO t VALUES (9, 9, 'e')")
    db = again(db)
    assert sorted(db["v"].rows()) == [(1, 15), (2, 1), (9, 9)]
    assert db.check() == []


def test_names_change_and_views_follow(again: Callable[[ev.Session | None], ev.Session]) -> None:
    db = again(None)
    db.sql(MADE)
    db.sql("ALTER TABLE t RENAME COLUMN a TO id; ALTER TABLE t RENAME c TO n; ALTER TABLE t RENAME TO items")
    db.sql("ALTER VIEW v RENAME TO totals; ALTER MATERIALIZED VIEW totals RENAME COLUMN total TO s")
    assert sorted(db.sql("SELECT id, n FROM items WHERE b = 'y'").rows()) == [(2, 20), (2, 20)]
    db = again(db)
    assert sorted(db.sql("SELECT a, s FROM totals").rows()) == [(1, 10), (2, 40)]
    db.sql("CREATE TABLE t (k text); INSERT INTO t VALUES ('k'); INSERT INTO items VALUES (2, 'q', 2)")
    db = again(db)
    assert (db["t"].rows(), sorted(db["totals"].rows())) == ([("k",)], [(1, 10), (2, 42)])
    assert sorted(db["w"].rows()) == [(1, 10, "x"), (2, 42, "q"), (2, 42, "y"), (2, 42, "y")]
    db.sql("ALTER TABLE items ADD COLUMN z int; ALTER TABLE items RENAME TO goods; DROP TABLE t")
    db = again(db)
    assert sorted(db.tables) == ["goods"] and sorted(db.views) == ["totals", "w"]
    db.sql("CREATE TABLE items (x int); INSERT INTO items VALUES (1); DELETE FROM goods WHERE id = 1")
    db = again(db)
    assert sorted(db["w"].rows()) == [(2, 42, "q"), (2, 42, "y"), (2, 42, "y")]
    assert db["items"].rows() == [(1,)] and db.check() == []


def test_keys_and_types(again: Callable[[ev.Session | None], ev.Session]) -> None:
    db = again(None)
    db.sql("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, '10'), (2, '20'), (2, '30')")
    with pytest.raises(ev.EverviewError, match="the key 2 is given twice"):
        db.sql("ALTER TABLE t ADD PRIMARY KEY (a)")
    db.sql("DELETE FROM t WHERE b = '30'; ALTER TABLE t ADD CONSTRAINT t_pkey PRIMARY KEY (a)")
    db = again(db)
    with pytest.raises(ev.EverviewError, match="row with key 1"):
        db.sql("INSERT INTO t VALUES (1, 'x')")
    db.sql("INSERT INTO t VALUES (1, '11') ON CONFLICT (a) DO UPDATE SET b = excluded.b")
    db.sql("ALTER TABLE t ALTER COLUMN b TYPE int")
    db = again(db)
    assert sorted(db["t"].rows()) == [(1, 11), (2, 20)]
    db.sql("ALTER TABLE t ALTER COLUMN b SET DATA TYPE text USING 'n' || (b + a), ALTER COLUMN b SET NOT NULL")
    with pytest.raises(ev.EverviewError):
        db.sql("INSERT INTO t (a) VALUES (3)")
    db.sql("ALTER TABLE t DROP CONSTRAINT t_pkey, ALTER COLUMN b DROP NOT NULL; INSERT INTO t (a) VALUES (1)")
    db = again(db)
    assert sorted(db["t"].rows(), key=str) == [(1, "n12"), (1, None), (2, "n22")]
    with pytest.raises(ev.EverviewError, match="E_ROWS"):
        db.sql("ALTER TABLE t ALTER b TYPE int")
    assert sorted(db["t"].rows(), key=str) == [(1, "n12"), (1, None), (2, "n22")]


def test_subscribers_go_on(again: Callable[[ev.Session | None], ev.Session]) -> None:
    db = again(None)
    db.sql(MADE)
    seen: list[Any] = []
    for name in ("t", "v"):
        db[name].subscribe(lambda batch, name=name: seen.append((name, sorted(batch.rows()))), snapshot=False)
    db.sql("ALTER TABLE t ADD COLUMN d int")
    assert seen == []
    db.sql("INSERT INTO t VALUES (7, 'q', 1, 2)")
    assert sorted(seen) == [("t", [((7, "q", 1, 2), 1)]), ("v", [((7, 1), 1)])]


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("ALTER TABEL t ADD x int", "E_SYNTAX", "did you mean 'TABLE'"),
        ("ALTER TABLE tt ADD x int", "E_TABLE", "did you mean 't'"),
        ("ALTER TABLE v ADD x int", "E_TABLE", "ALTER VIEW v"),
        ("ALTER VIEW v ADD x int", "E_SYNTAX", "CREATE OR REPLACE VIEW"),
        ("ALTER TABLE t AD x int", "E_SYNTAX", "did you mean 'ADD'"),
        ("ALTER TABLE t ADD x itn", "E_UNSUPPORTED", "there is no type itn"),
        ("ALTER TABLE t ADD x int COLLATE nope", "E_UNSUPPORTED", "nothing would enforce it"),
        ("ALTER TABLE t ADD x int DEFAULT 'five'", "E_", "five"),
        ("ALTER TABLE t ADD CHECK (nope > 3)", "E_COLUMN", "nope"),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1)", "E_CHECK", "breaks CHECK"),
        ("ALTER TABLE t ADD UNIQUE (a)", "E_UNIQUE", "is there twice"),
        ("ALTER TABLE t ADD a int", "E_DUPLICATE", "has a column a already"),
        ("ALTER TABLE t ADD x int NOT NULL", "E_NULL", "would be NULL"),
        ("ALTER TABLE t DROP COLUMN aa", "E_COLUMN", "did you mean 'a'"),
        ("ALTER TABLE t DROP COLUMN a", "E_IN_USE", "needed by v, w"),
        ("ALTER TABLE t ALTER COLUMN a TYPE text", "E_IN_USE", "needed by v, w"),
        ("ALTER TABLE t ALTER COLUMN b SET STATISTICS 3", "E_SYNTAX", "SET DEFAULT"),
        ("ALTER TABLE t RENAME TO v", "E_NAME", "the name v is taken"),
        ("ALTER TABLE t RENAME COLUMN a TO b", "E_DUPLICATE", "has a column b already"),
        ("ALTER TABLE t RENAME COLUMN q TO b", "E_COLUMN", "no column q"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey", "E_NAME", "no constraint t_pkey"),
        ("ALTER TABLE t ADD PRIMARY KEY (a, q)", "E_COLUMN", "no column q"),
        ("ALTER TABLE t ADD x int, DROP COLUMN q", "E_COLUMN", "no column q"),
        ("ALTER TABLE t ADD x int garbage", "E_", ""),
        ("ALTER TABLE t SET SCHEMA nope", "E_NAME", "no schema nope"),
        ("ALTER TABLE t RENAME TO u extra", "E_SYNTAX", "'extra' is not expected"),
        ("ALTER INDEX i RENAME TO j", "E_TABLE", "there is no index i"),
        ("BEGIN; ALTER TABLE t ADD x int", "E_TRANSACTION", ""),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(text: str, code: str, says: str) -> None:
    db = ev.connect()
    db.sql(MADE)
    before = {name: (db[name].schema(), sorted(db[name].rows())) for name in (*db.tables, *db.views)}
    with pytest.raises(ev.EverviewError) as error:
        db.sql(text)
    assert error.value.code.startswith(code) and says in str(error.value), str(error.value)
    assert "line 1" in str(error.value) or error.value.code in ("E_NULL", "E_CHECK", "E_UNIQUE")  # rows are wrong then
    assert before == {name: (db[name].schema(), sorted(db[name].rows())) for name in (*db.tables, *db.views)}
    db.sql("INSERT INTO t VALUES (1, 'y', 1)")
    assert db.check() == []


def test_what_sources_sinks_and_clocks_know_stays(tmp_path: Path) -> None:
    db = ev.connect()
    (tmp_path / "in.csv").write_text("x\n1\n")
    db.source("s", ev.io.csv(tmp_path / "in.csv"))
    db.sql("CREATE TABLE t (at timestamp) TTL INTERVAL '1 day'; CREATE VIEW v AS SELECT at FROM t")
    db["v"].write_to(ev.io.csv(tmp_path / "out"))
    for text in ("ALTER TABLE s RENAME TO q", "ALTER TABLE s ADD y int", "ALTER VIEW v RENAME TO q"):
        with pytest.raises(ev.EverviewError, match="source or sink"):
            db.sql(text)
    with pytest.raises(ev.EverviewError, match="time to live"):
        db.sql("ALTER TABLE t ADD y int")
    db.sql("ALTER TABLE t RENAME TO u; INSERT INTO u VALUES (now())")
    assert len(db["v"].rows()) == 1


def test_a_renamed_table_with_a_time_to_live_outlives_the_session(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (at timestamp, x int) TTL INTERVAL '1 day'; INSERT INTO t VALUES (now(), 1)")
        db.sql("CREATE VIEW v AS SELECT x FROM t WHERE at > now() - INTERVAL '1 hour'; ALTER TABLE t RENAME TO u")
        db.checkpoint()
    with ev.connect(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (y int); INSERT INTO u VALUES (now(), 2)")
        db.checkpoint()
    with ev.connect(tmp_path / "db") as db:
        assert sorted(db["v"].rows()) == [(1,), (2,)] and db["t"].rows() == []


def test_a_follower_sees_it(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "db") as db, ev.connect(tmp_path / "db", read_only=True) as reader:
        db.sql(MADE)
        reader.refresh()
        db.sql("ALTER TABLE t ADD d int; ALTER TABLE t RENAME TO u; INSERT INTO u VALUES (7, 'q', 1, 2)")
        reader.refresh()
        assert sorted(reader["u"].rows(), key=str) == sorted(db["u"].rows(), key=str)
        assert sorted(reader["v"].rows()) == sorted(db["v"].rows()) == [(1, 10), (2, 40), (7, 1)]
        with pytest.raises(ev.EverviewError) as error:
            reader.sql("ALTER TABLE u DROP COLUMN d")
        assert error.value.code == "E_READ_ONLY"


@pytest.mark.parametrize("seed", range(3))
def test_random_alterations_against_a_model(seed: int, tmp_path: Path) -> None:
    alterations(seed, tmp_path / "db", 25)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_random_alterations_against_a_model(seed: int, tmp_path: Path) -> None:
    alterations(seed, tmp_path / "db", 150)


def alterations(seed: int, where: Path, steps: int) -> None:
    """Columns come, go and are renamed at random; the directory is opened again in between; views stay right."""
    r = random.Random(seed)
    columns, name = ["a", "b"], "t"
    rows: list[list[int | None]] = []
    db = ev.connect(where)
    db.sql("CREATE TABLE t (a int, b int); CREATE VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
    for number in range(steps):
        match r.choice(
            ["insert", "insert", "delete", "add", "drop", "rename", "table", "reopen", "checkpoint", "view"]
        ):
            case "insert":
                new: list[list[int | None]] = [[r.randint(0, 3) for _ in columns] for _ in range(3)]
                rows += new
                db[name].insert([tuple(row) for row in new])
            case "delete" if rows:
                gone = rows.pop(r.randrange(len(rows)))
                db[name].delete([tuple(gone)])
            case "add":
                columns.append(f"x{number}")
                for row in rows:
                    row.append(None)
                db.sql(f"ALTER TABLE {name} ADD COLUMN x{number} int")
            case "drop" if len(columns) > 2:
                at = r.randrange(1, len(columns))
                db.sql(f"ALTER TABLE {name} DROP COLUMN {columns.pop(at)} CASCADE")
                for row in rows:
                    del row[at]
            case "rename":
                at = r.randrange(len(columns))
                db.sql(f"ALTER TABLE {name} RENAME COLUMN {columns[at]} TO y{number}")
                columns[at] = f"y{number}"
            case "table":
                old, name = name, r.choice(["t", "u", f"t{number}"])
                if old != name:
                    db.sql(f"ALTER TABLE {old} RENAME TO {name}")
            case "view":
                other = columns[-1]
                db.sql(
                    f"CREATE OR REPLACE VIEW w AS SELECT {other} AS k, sum({columns[0]}) AS s FROM {name} GROUP BY 1"
                )
            case "checkpoint":
                db.checkpoint()
            case "reopen":
                db.close()
                db = ev.connect(where)
        assert sorted(map(str, db[name].rows())) == sorted(map(str, map(tuple, rows)))
        assert list(db[name].schema()) == columns
        counts: dict[Any, int] = {}
        for row in rows:
            counts[row[0]] = counts.get(row[0], 0) + 1
        assert sorted(db["v"].rows(), key=str) == sorted(counts.items(), key=str)
    assert db.check() == []
    db.close()


STATEMENTS = [
    "ALTER TABLE t ADD COLUMN d int",
    "UPDATE t SET d = a + c",
    "CREATE VIEW x AS SELECT b, max(d) AS d FROM t GROUP BY b",
    "CREATE VIEW y AS SELECT d, count(*) AS n FROM t GROUP BY d",
    "ALTER TABLE t ADD COLUMN e int, DROP COLUMN b CASCADE",  # with w and x
    "ALTER TABLE t RENAME COLUMN c TO cc",
    "ALTER TABLE t RENAME TO u",
    "INSERT INTO u (a, cc) VALUES (8, 8)",
    "ALTER TABLE u DROP COLUMN d CASCADE, ALTER COLUMN e TYPE text",  # with y
    "ALTER VIEW v RENAME TO v2",
    "ALTER TABLE u ADD g int DEFAULT 4 CHECK (g > 3), ADD CONSTRAINT low CHECK (a < 1000)",
    "DELETE FROM u",
    "INSERT INTO u (a) VALUES (1), (2), (3)",
    "ALTER TABLE u ADD UNIQUE (a), ADD i int GENERATED ALWAYS AS (a * 2) STORED",
    "CREATE TABLE child (a int REFERENCES u (a))",
    "INSERT INTO child SELECT a FROM u",
    "ALTER TABLE u ALTER COLUMN g TYPE bigint, DROP CONSTRAINT low, ADD h int DEFAULT 3, ALTER g SET DEFAULT 5",
    "ALTER TABLE u DROP CONSTRAINT u_a_key CASCADE",
    "ALTER TABLE u DROP COLUMN g, DROP COLUMN h",
    "ALTER TABLE u DROP COLUMN cc CASCADE, ADD COLUMN f text",  # with v2
]


def told(db: ev.Session) -> Any:
    """Everything that a session holds."""
    return {n: (list(db[n].schema().items()), sorted(map(str, db[n].rows()))) for n in (*db.tables, *db.views)}


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_death_at_any_record_leaves_a_statement_done_or_not(
    checkpoint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory as it is after every record that an alteration writes: CASCADE goes with what it is for."""
    copies: list[Path] = []
    append = wal.Wal.append

    def kept(self: wal.Wal, record: bytes) -> None:
        append(self, record)
        copies.append(copied(tmp_path / "db", tmp_path / f"copy{len(copies)}"))

    allowed = []
    with ev.connect(tmp_path / "db") as db:
        db.sql(MADE)
        if checkpoint:
            db.checkpoint()
        monkeypatch.setattr(wal.Wal, "append", kept)
        for text in STATEMENTS:
            before, first = told(db), len(copies)
            db.sql(text)
            allowed += [(copy, text, before, told(db)) for copy in copies[first:]]
            assert len(copies) - first <= 1, f"{text}: more than one record"
    monkeypatch.undo()
    assert len(allowed) == len(STATEMENTS)
    for copy, text, *states in allowed:
        with ev.connect(copy) as db:
            assert told(db) in states, text
            assert db.check() == [], text


def whole(db: ev.Session) -> Any:
    """What a session holds, with its constraints, defaults and comments."""
    core = db._core
    rules = sorted(str(relation_of(v).rule) for v in core.constraints.all())
    return told(db), rules, dict(core.catalog.defaults), dict(core.catalog.comments), sorted(core.catalog.sequences)


FAILING = [
    "ALTER TABLE t ADD COLUMN c int DEFAULT 1, ADD CONSTRAINT no CHECK (a > 100)",
    "ALTER TABLE t DROP CONSTRAINT low, DROP COLUMN n, ADD CONSTRAINT no CHECK (a > 100)",
    "ALTER TABLE t ALTER COLUMN b TYPE int USING length(b), ADD UNIQUE (b)",
    "ALTER TABLE t ALTER COLUMN a TYPE text, ADD c serial, ADD CHECK (c < 2)",
    "ALTER TABLE t DROP CONSTRAINT low, ALTER COLUMN b TYPE int USING b::int",
    "ALTER TABLE t DROP CONSTRAINT t_a_key CASCADE, ADD PRIMARY KEY (n)",
    "ALTER TABLE t ALTER b SET DEFAULT 'new', ADD FOREIGN KEY (a) REFERENCES p",
]


@pytest.mark.parametrize("text", FAILING)
@pytest.mark.parametrize("shards", [0, 2])
def test_a_statement_that_fails_half_way_leaves_the_table_as_it_was(text: str, shards: int, tmp_path: Path) -> None:
    db = local_shards(shards=shards) if shards else ev.connect(tmp_path / "db")
    db.sql("""
        CREATE TABLE p (k int PRIMARY KEY);
        CREATE TABLE t (a int UNIQUE, b text DEFAULT 'x', n int, CONSTRAINT low CHECK (a < 100));
        CREATE TABLE child (a int REFERENCES t (a));
        COMMENT ON COLUMN t.n IS 'a number';
        INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 1), (3, 'three', NULL);
        INSERT INTO child VALUES (1), (2);
        CREATE VIEW v AS SELECT a, count(*) AS c FROM t GROUP BY a
    """)
    before = whole(db)
    with pytest.raises(ev.EverviewError):
        db.sql(text)
    assert whole(db) == before
    for refused in ("INSERT INTO t VALUES (100, '', 1)", "INSERT INTO t VALUES (1, '', 1)", "DELETE FROM t"):
        with pytest.raises(ev.ConstraintError):
            db.sql(refused)
    db.sql("INSERT INTO t (a) VALUES (9)")
    assert (9, "x", None) in db["t"].rows() and (9, 1) in db["v"].rows()
    assert db.check() == []
    if not shards:
        now = whole(db)
        db.close()
        db = ev.connect(tmp_path / "db")
        assert whole(db) == now


def test_what_becomes_of_earlier_times_is_said() -> None:
    db = ev.connect(history=10)
    db.sql("CREATE TABLE t (a int, b int); CREATE VIEW v AS SELECT a FROM t; INSERT INTO t VALUES (1, 2)")
    with pytest.warns(UserWarning, match="earlier times of t, v cannot be read any more"):
        db.sql("ALTER TABLE t ADD COLUMN c int")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        db.sql("ALTER TABLE t RENAME COLUMN c TO d; ALTER TABLE t RENAME TO u")
        ev.connect(history=0).sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1); ALTER TABLE t ADD b int")


def test_views_stay_if_what_follows_the_clock_holds_a_table_back() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int, at timestamp) TTL INTERVAL '1 day'")
    db.sql("CREATE VIEW v AS SELECT a FROM t")
    with pytest.raises(ev.InputError, match="E_IN_USE"):
        db.sql("ALTER TABLE t DROP COLUMN a CASCADE")
    assert list(db.views) == ["v"]


def test_set_not_null_and_checks_of_columns_that_are_added_with_them() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int, b int DEFAULT 3); CREATE VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    db.sql("INSERT INTO t VALUES (1, 2), (2, 2)")
    db.sql("ALTER TABLE t ALTER b SET NOT NULL, ADD c int DEFAULT 9, ADD CONSTRAINT larger CHECK (c > b)")
    db.sql("INSERT INTO t (a) VALUES (5)")  # the default stays
    assert sorted(db["v"].rows()) == [(2, 2), (3, 1)]
    for text, code in (("INSERT INTO t VALUES (1, NULL, 1)", "E_NULL"), ("UPDATE t SET c = 1", "E_CHECK")):
        with pytest.raises(ev.EverviewError, match=code):
            db.sql(text)
    assert db.check() == []


def test_a_column_with_another_type_keeps_its_default_and_comment(
    again: Callable[[ev.Session | None], ev.Session],
) -> None:
    db = again(None)
    db.sql("CREATE TABLE t (id int, a int DEFAULT 5, b text DEFAULT '12', c int GENERATED BY DEFAULT AS IDENTITY)")
    db.sql("COMMENT ON COLUMN t.a IS 'five'; COMMENT ON COLUMN t.b IS 'twelve'; INSERT INTO t (id) VALUES (1)")
    db.sql("ALTER TABLE t ALTER a TYPE text, ALTER b TYPE int USING b::int, ALTER c TYPE bigint")
    db = again(db)
    db.sql("INSERT INTO t (id) VALUES (2)")
    assert sorted(db["t"].rows()) == [(1, "5", 12, 1), (2, "5", 12, 2)]
    assert [row[-1] for row in db.sql("DESCRIBE t").rows()] == [None, "five", "twelve", None]
    db.sql("ALTER TABLE t ALTER a DROP DEFAULT, ALTER a TYPE int USING a::int, ALTER a SET DEFAULT 6")
    db.sql("INSERT INTO t (id) VALUES (3)")
    assert (3, 6, 12, 3) in db["t"].rows()


@pytest.mark.parametrize(
    ("action", "code", "says"),
    [
        ("ALTER b TYPE int USING length(b)", "E_TYPE", "the DEFAULT of b, 'x', is no value of that type"),
        ("ALTER i TYPE text", "E_TYPE", "i is an identity"),
        ("ALTER i DROP DEFAULT", "E_GENERATED", "i is an identity"),
        ("ALTER i SET DEFAULT 9", "E_GENERATED", "i is an identity"),
        ("ALTER b DROP IDENTITY", "E_COLUMN", "b is no identity"),
        ("ALTER g DROP DEFAULT", "E_GENERATED", "g is a generated column"),
        ("ALTER g SET DEFAULT 3", "E_GENERATED", "g is a generated column"),
        ("ALTER g TYPE text", "E_GENERATED", "g is a generated column"),
    ],
)
def test_how_missing_values_are_found_is_not_changed_by_the_way(action: str, code: str, says: str) -> None:
    db = ev.connect()
    db.sql(
        "CREATE TABLE t (id int, b text DEFAULT 'x', i int GENERATED BY DEFAULT AS IDENTITY, "
        "g int GENERATED ALWAYS AS (id * 2) STORED)"
    )
    with pytest.raises(ev.EverviewError, match=says) as caught:
        db.sql(f"ALTER TABLE t {action}")
    assert caught.value.code == code
    db.sql(
        "INSERT INTO t (id) VALUES (4); ALTER TABLE t ALTER b DROP IDENTITY IF EXISTS; INSERT INTO t (id) VALUES (5)"
    )
    assert sorted(db["t"].rows()) == [(4, "x", 1, 8), (5, "x", 2, 10)]
