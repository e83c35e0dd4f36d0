"""COMMENT ON, CREATE INDEX and look-ups, the search path, SHOW, DESCRIBE and EXPLAIN, names of types."""

from __future__ import annotations

from pathlib import Path

import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.inside import inside

MADE = "CREATE TABLE t (a int, b text, c int); CREATE VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b"


def plan(db: ev.Session, text: str) -> list[str]:
    return [line for (line,) in db.sql(f"EXPLAIN {text}")]


def test_comments_are_kept_with_what_they_are_about(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "db") as db:
        db.sql(MADE)
        db.sql("COMMENT ON TABLE t IS 'all things'; COMMENT ON COLUMN t.b IS 'its name'; COMMENT ON COLUMN t.a IS 'x'")
        db.sql(
            "COMMENT ON MATERIALIZED VIEW v IS 'how many'; COMMENT ON COLUMN t.a IS NULL; COMMENT ON COLUMN t.c IS 'c'"
        )
        db.sql("ALTER TABLE t RENAME TO things; ALTER TABLE things RENAME COLUMN b TO label")
        db.sql("ALTER TABLE things DROP COLUMN c, ADD COLUMN d int")
        db.checkpoint()
    with ev.connect(tmp_path / "db") as db:
        answer = db.sql("DESCRIBE things")
        assert answer.columns[-1] == "comment"
        assert [(r[0], r[-1]) for r in answer] == [
            ("", "all things"), ("a", None), ("label", "its name"), ("d", None)
        ]  # fmt: skip
        assert db.sql("DESCRIBE VIEW v").rows()[0] == ("", None, None, None, "how many")
        db.sql("DROP VIEW v; CREATE VIEW v AS SELECT a FROM things")
        assert db.sql("DESCRIBE v").columns == ["column", "type", "null", "key"]


def test_indexes_find_rows() -> None:
    db = ev.connect()
    db.sql(MADE)
    db["t"].insert([(i, f"s{i % 100}", i % 7) for i in range(5000)])
    assert not any("look-up" in line for line in plan(db, "SELECT * FROM t WHERE c = 3"))
    db.sql("CREATE INDEX by_c ON t (c, a); CREATE INDEX ON t USING btree (b); CREATE INDEX IF NOT EXISTS by_c ON t (a)")
    assert "look-up: t by c, in the index by_c" in plan(db, "SELECT * FROM t WHERE c = 3")
    assert "look-up: t by c, a, in the index by_c" in plan(db, "SELECT b FROM t WHERE a = 10 AND c = 3 AND b <> 'x'")
    assert "look-up: v by b, in an index that is kept" in plan(db, "SELECT n FROM v WHERE b = 's5'")
    rows = db["t"].rows()
    for text, wanted in {
        "c = 3 AND a < 100": [r for r in rows if r[2] == 3 and r[0] < 100],
        "b = 's5'": [r for r in rows if r[1] == "s5"],
        "a = 10 AND c = 3": [r for r in rows if r[0] == 10 and r[2] == 3],
        "c = 3 AND c = 4": [],
        "b = 'nowhere'": [],
        "a = 17": [r for r in rows if r[0] == 17],
        "b = 's5' OR c = 3": [r for r in rows if r[1] == "s5" or r[2] == 3],
        "NOT b = 's5'": [r for r in rows if r[1] != "s5"],
        "b = NULL": [],
    }.items():
        assert sorted(db.sql(f"SELECT * FROM t WHERE {text}").rows()) == sorted(wanted), text
    assert db.sql("SELECT t.a, v.n FROM t JOIN v ON v.b = t.b WHERE t.a = 42").rows() == [(42, 50)]
    db.sql("UPDATE t SET c = 100 WHERE a = 42; DELETE FROM t WHERE b = 's6'; INSERT INTO t VALUES (42, 'q', 100)")
    assert sorted(db.sql("SELECT a, b FROM t WHERE c = 100").rows()) == [(42, "q"), (42, "s42")]
    db.sql("BEGIN; INSERT INTO t VALUES (43, 'w', 100)")
    assert len(db.sql("SELECT a FROM t WHERE c = 100").rows()) == 3
    db.sql("ROLLBACK")
    assert db.sql("SHOW INDEXES").rows() == [("by_c", "t", "c, a"), ("t_b_idx", "t", "b")]
    db.sql("DROP INDEX by_c, t_b_idx; DROP INDEX IF EXISTS by_c")
    assert db.sql("SHOW INDEXES FROM t").rows() == [] and len(db.sql("SELECT a FROM t WHERE c = 100").rows()) == 2


def test_an_index_is_freed_when_it_is_dropped() -> None:
    db = ev.connect()
    db.sql(MADE)
    before = len([o for o in inside(db).runtime.dataflow.numbered if o is not None])
    db.sql("CREATE INDEX i ON t (c)")
    assert len([o for o in inside(db).runtime.dataflow.numbered if o is not None]) == before + 1
    db.sql("ALTER INDEX i RENAME TO j; DROP INDEX j")
    assert len([o for o in inside(db).runtime.dataflow.numbered if o is not None]) == before


def test_indexes_outlive_the_session(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "db") as db:
        db.sql(MADE)
        db.sql("CREATE INDEX i ON t (c); CREATE INDEX j ON v (n); CREATE INDEX k ON t (b, c)")
        db.sql("INSERT INTO t VALUES (1, 'x', 7)")
        db.sql("ALTER TABLE t ADD COLUMN d int; ALTER TABLE t RENAME TO u; ALTER TABLE u DROP COLUMN c; DROP INDEX j")
        db.checkpoint()
    with ev.connect(tmp_path / "db") as db:
        assert db.sql("SHOW INDEXES").rows() == []
        db.sql("CREATE INDEX i ON u (b); INSERT INTO u VALUES (2, 'x', 3)")
    with ev.connect(tmp_path / "db") as db:
        assert "look-up: u by b, in the index i" in plan(db, "SELECT a FROM u WHERE b = 'x'")
        assert sorted(db.sql("SELECT a FROM u WHERE b = 'x'").rows()) == [(1,), (2,)]
        assert db.check() == []


def test_indexes_on_shards() -> None:
    with local_shards(shards=2) as db:
        db.sql(MADE)
        db.sql("CREATE INDEX i ON t (c); INSERT INTO t VALUES (1, 'x', 7), (2, 'y', 8)")
        assert db.sql("SELECT a FROM t WHERE c = 8").rows() == [(2,)]
        db.sql("DROP INDEX i")


def test_the_search_path() -> None:
    db = ev.connect()
    db.sql("CREATE SCHEMA s; CREATE TABLE t (a int); CREATE TABLE s.t (b int); CREATE TABLE s.u (c int)")
    db.sql("SET search_path = s, public; INSERT INTO t VALUES (1); INSERT INTO public.t VALUES (2)")
    db.sql("INSERT INTO u VALUES (3)")
    assert (db["t"].rows(), db["s.t"].rows(), db["s.u"].rows()) == ([(2,)], [(1,)], [(3,)])
    view = db.sql("CREATE VIEW v AS SELECT b FROM t UNION ALL SELECT a FROM public.t")
    assert "s.v" in db.views and db.sql("SHOW search_path").rows() == [("s, public",)]
    db.sql("SET search_path TO DEFAULT; CREATE TABLE w (x int)")
    assert sorted(view.rows()) == [(1,), (2,)] and "w" in db.tables
    with pytest.raises(ev.EverviewError, match="there is no table or view u"):
        db.sql("SELECT * FROM u")
    db.sql("SET search_path = 's'; DROP TABLE u; ALTER TABLE t RENAME TO q; COMMENT ON TABLE q IS 'x'")
    assert "s.q" in db.tables and "s.u" not in db.tables
    with pytest.raises(ev.EverviewError, match="did you mean 's'"):
        db.sql("SET search_path = ss")
    assert db.sql("SHOW TABLES FROM s").rows() == [("s.q",)] and ("s",) in db.sql("SHOW SCHEMAS").rows()


def test_types_are_known_by_name_after_opening(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "db") as db:
        db.sql("CREATE TYPE mood AS ENUM ('low', 'high'); CREATE TYPE gone AS ENUM ('x'); DROP TYPE gone")
        db.sql("CREATE TABLE t (m mood); INSERT INTO t VALUES ('high')")
    with ev.connect(tmp_path / "db") as db:
        db.sql("CREATE VIEW v AS SELECT m FROM t WHERE m > 'low'::mood; CREATE TABLE u (m mood)")
        db.checkpoint()
    with ev.connect(tmp_path / "db") as db:
        assert db.sql("SHOW TYPES").rows() == [("mood",)] and db["v"].rows() == [("high",)]
        with pytest.raises(ev.EverviewError, match="has values of mood"):
            db.sql("DROP TYPE mood")


def test_explain_forms() -> None:
    db = ev.connect()
    db.sql(MADE)
    db.sql("INSERT INTO t VALUES (1, 'x', 1)")
    assert plan(db, "(FORMAT TEXT) SELECT a FROM t") == plan(db, "SELECT a FROM t")
    assert plan(db, "(SELECT a FROM t)")
    for text in ("ANALYZE SELECT a FROM t", "(ANALYZE, FORMAT text) SELECT a FROM t", "(ANALYZE true) SELECT a FROM t"):
        assert plan(db, text)[-1].startswith("answered: 1 row in ")
    assert not plan(db, "(ANALYZE off) SELECT a FROM t")[-1].startswith("answered: ")


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("COMMENT ON TABEL t IS 'x'", "E_SYNTAX", "did you mean 'TABLE'"),
        ("COMMENT ON TABLE tt IS 'x'", "E_TABLE", "did you mean 't'"),
        ("COMMENT ON COLUMN t.q IS 'x'", "E_COLUMN", "no column q"),
        ("COMMENT ON COLUMN a IS 'x'", "E_SYNTAX", "COMMENT ON COLUMN table.a"),
        ("COMMENT ON TABLE t SI 'x'", "E_SYNTAX", "IS is missing"),
        ("COMMENT ON TABLE t IS x", "E_SYNTAX", "a text in quotes"),
        ("CREATE INDEX i ON tt (a)", "E_TABLE", "did you mean 't'"),
        ("CREATE INDEX i ON t (aa)", "E_COLUMN", "did you mean 'a'"),
        ("CREATE INDEX i ON t (a + 1)", "E_SYNTAX", "an index is by columns"),
        ("CREATE INDEX i ON t (a, a)", "E_DUPLICATE", "twice"),
        ("CREATE INDEX i ON t (a) WHERE a > 1", "E_UNSUPPORTED", "WHERE"),
        ("CREATE INDEX i ON t USING gim (a)", "E_UNSUPPORTED", "leave USING out"),
        ("DROP INDEX i", "E_NAME", "there is no index i"),
        ("SHOW TABELS", "E_UNSUPPORTED", "did you mean 'tables'"),
        ("SHOW", "E_SYNTAX", "SHOW TABLES"),
        ("SHOW COLUMNS FROM tt", "E_TABLE", "did you mean 't'"),
        ("SHOW TABLES FROM nope", "E_NAME", "no schema nope"),
        ("EXPLAIN (VERBOS) SELECT 1", "E_OPTION", "ANALYZE or FORMAT TEXT"),
        ("EXPLAIN (FORMAT JSON) SELECT 1", "E_OPTION", "no option FORMAT JSON"),
        ("EXPLAIN ANALYZE", "E_SYNTAX", "a query is missing"),
        ("SET search_path s", "E_SYNTAX", "= or TO is missing"),
    ],
)  # fmt: skip
def test_misspellings(text: str, code: str, says: str) -> None:
    db = ev.connect()
    db.sql(MADE)
    with pytest.raises(ev.EverviewError) as error:
        db.sql(text)
    assert error.value.code == code and says in str(error.value), str(error.value)
    assert "line 1, column" in str(error.value)


def test_comments_on_what_shows_none_are_told() -> None:
    """Dumps comment on schemas, indexes, constraints: accepted, and said not to be kept."""
    with ev.connect() as db:
        db.sql("CREATE TABLE t (x int PRIMARY KEY)")
        for what in (
            "SCHEMA public",
            "EXTENSION plpgsql",
            "INDEX t_pkey",
            "FUNCTION f(int, text)",
            "CONSTRAINT c ON t",
        ):
            with pytest.warns(ev.Notice, match=f"the comment on {what.split()[0].lower()} .* is ignored"):
                db.sql(f"COMMENT ON {what} IS 'words'")
        for wrong in ("SCHEMA public", "SCHEMA IS 'x'", "CONSTRAINT c IS 'x'", "INDEX i IS 5", "TYPE t IS 'x' 'y' z"):
            with pytest.raises(ev.PlanError):
                db.sql(f"COMMENT ON {wrong}")
