"""What people type: SUBSCRIBE, the prompt, scripts with sources and sinks, the command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import everview as ev
from everview.sql.shell import script
from everview.sql.shell.output import Output
from everview.sql.shell.repl import Repl


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    session.sql("CREATE TABLE t (k text, x int); CREATE VIEW total AS SELECT k, sum(x) AS s FROM t GROUP BY k")
    return session


def talk(db: ev.Session, *lines: str) -> list[str]:
    said: list[str] = []
    Repl(db, said.append).run(lines)
    return said


def test_subscribe_to_a_view(db: ev.Session) -> None:
    db.sql("INSERT INTO t VALUES ('a', 1)")
    whole, later = db.sql("SUBSCRIBE TO total"), db.sql("SUBSCRIBE total WITHOUT SNAPSHOT")
    db.sql("INSERT INTO t VALUES ('a', 2)")
    change = (2, [(("a", 1), -1), (("a", 3), 1)])
    assert [(b.time, sorted(b.rows())) for b in whole] == [(1, [(("a", 1), 1)]), change]
    assert [(b.time, sorted(b.rows())) for b in later] == [change]
    assert list(whole) == []
    whole.close()
    db.sql("DELETE FROM t")
    assert (len(list(whole)), len(list(later))) == (0, 1)


def test_subscribe_to_a_query_and_leave_nothing(db: ev.Session) -> None:
    changes = db.sql("SUBSCRIBE TO (\n  SELECT max(x) AS m FROM t WHERE k = 'a')")
    db.sql("INSERT INTO t VALUES ('a', 5), ('b', 7)")
    assert changes.columns == ["m"]
    assert [dict(b.rows()) for b in changes] == [{(None,): 1}, {(None,): -1, (5,): 1}]
    changes.close()
    changes.close()
    assert db.views == ("total",)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("SUBSCRIBE TO totl", "E_TABLE", (1, 14)),
        ("SUBSCRIBE TO (SELECT\n  nope FROM t)", "E_COLUMN", (2, 3)),
        ("SUBSCRIBE TO total LIMIT 3", "E_SYNTAX", (1, 20)),
        ("CREATE SOURCE s FROM 'x.txt'", "E_FORMAT", (1, 22)),
        ("CREATE SOURCE s FROM 'x.csv' WITH (delimitr = ';')", "E_OPTION", (1, 36)),
        ("CREATE SINK FROM totl INTO 'x.csv'", "E_TABLE", (1, 18)),
        ("RUN UNTIL DONE", "E_SYNTAX", (1, 11)),
    ],
)
def test_mistakes_have_a_place(db: ev.Session, text: str, code: str, place: tuple[int, int]) -> None:
    with pytest.raises(ev.sql.SqlError) as caught:
        db.sql(text)
    assert (caught.value.code, (caught.value.line, caught.value.column)) == (code, place)


def test_prompt_statements_over_lines_and_errors(db: ev.Session) -> None:
    said = talk(
        db, "INSERT INTO t", "VALUES ('a', 1);", "SELECT nope FROM t;", "SELECT s FROM total; SELECT 'x;y' AS z;"
    )
    assert said[0].startswith("[E_COLUMN] line 1, column 8")
    assert said[1:] == ["s\n-\n1", "z\n---\nx;y"]


def test_prompt_commands(db: ev.Session, tmp_path: Path) -> None:
    (tmp_path / "s.sql").write_text("SELECT 7 AS seven")
    said = talk(
        db,
        "\\d",
        "\\d t",
        "\\d total",
        "\\timing",
        "SELECT 1 AS x;",
        f"\\i {tmp_path / 's.sql'}",
        "\\nope",
        "\\q",
        "\\d",
    )
    assert said[0] == "table  t      (k, x)\nview   total  (k, s)"
    assert said[1].split("\n")[2:] == ["k       text  yes   no", "x       int   yes   no"]
    assert "Reduce" in said[2] and "arrangements:" in said[2]
    assert said[3:5] == ["timing is on", "x\n-\n1"]
    assert said[5].endswith(" ms")
    assert said[6] == "seven\n-----\n    7"
    assert said[7].endswith(" ms")
    assert said[8].startswith("[E_COMMAND]")
    assert len(said) == 9


def test_prompt_shows_subscriptions_live(db: ev.Session) -> None:
    said = talk(
        db,
        "SUBSCRIBE TO total;",
        "INSERT INTO t VALUES ('a', 1);",
        "DELETE FROM t;",
        "\\u total",
        "INSERT INTO t VALUES ('b', 1);",
    )
    assert said == ["total @1 +1  a, 1", "total @2 -1  a, 1", "no longer subscribed to total"]


def test_a_script_is_shown_as_if_it_were_typed(db: ev.Session, tmp_path: Path) -> None:
    """Its answers came in the mode of no one, its counts not at all, and its subscriptions could not be ended."""
    path = tmp_path / "s.sql"
    path.write_text("INSERT INTO t VALUES ('b', 2), ('a', 1); SELECT k FROM t ORDER BY k; SUBSCRIBE TO total;")
    said: list[str] = []
    Repl(db, said.append, talkative=True).run(["\\mode csv", f"\\i {path}", "\\u total"])
    assert [re.sub(r", time \d, .* ms", "", text) for text in said] == [
        "mode is csv",
        "(2 rows changed)",
        '"k"\n"a"\n"b"',
        "(2 rows)",
        "total @1 +1  a, 1",
        "total @1 +1  b, 2",
        "(done)",
        "no longer subscribed to total",
    ]


def test_plans_are_never_cut(db: ev.Session) -> None:
    """The last words of its lines were an ellipsis, on a screen of any width."""
    query = f"SELECT {', '.join(f'max(x + {i}) AS long_name_{i}' for i in range(9))} FROM t"
    said: list[str] = []
    Repl(db, said.append, output=Output(widest=60)).run([f"EXPLAIN {query};", "SELECT repeat('y', 99) AS y, 1 AS one;"])
    assert "long_name_8" in said[0] and "…" not in said[0]
    assert "…" in said[1]


def test_completion(db: ev.Session) -> None:
    repl = Repl(db)
    assert repl.candidates("to") == ["total", "to"]
    assert repl.candidates("SEL") == ["SELECT"]
    assert repl.candidates("\\t") == ["\\timing"]
    assert repl.candidates("", "SELECT k FROM ") == repl.candidates("", "\\watch ") == ["t", "total"]
    assert repl.candidates("t", "SELECT k FROM") == ["t", "total"]
    assert "k" in repl.candidates("", "SELECT ")


PIPELINE = """
CREATE SOURCE sale (shop text, amount int) FROM '{folder}/in' FORMAT csv;
CREATE VIEW total AS SELECT shop, sum(amount) AS amount FROM sale GROUP BY shop;
CREATE SINK FROM total INTO '{folder}/total.csv' WITH (mode = 'snapshot');
"""


def test_a_script_from_files_to_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("shop,amount\nnorth,5\nsouth,2\nnorth,1\n")
    path = tmp_path / "pipeline.sql"
    path.write_text(PIPELINE.format(folder=tmp_path))
    said: list[str] = []
    script.run(ev.connect(), path, show=said.append)
    assert sorted((tmp_path / "total.csv").read_text().split()[1:]) == ['"north",6', '"south",2']
    assert said[0].startswith("sale 3 rows")
    path.write_text(PIPELINE.format(folder=tmp_path) + "RUN UNTIL CAUGHT UP; SELECT amount FROM total ORDER BY amount;")
    said.clear()
    script.run(ev.connect(), path, show=said.append)
    assert said[1:] == ["amount\n------\n     2\n     6"]


@pytest.mark.parametrize(
    "columns", ["(shop text, amount int, PRIMARY KEY (shop))", "(shop text PRIMARY KEY, amount int)"]
)
def test_a_sources_key(tmp_path: Path, columns: str) -> None:
    """Rows replace those of their key; it was ignored, or an AttributeError."""
    (tmp_path / "a.csv").write_text("shop,amount\nnorth,5\nsouth,2\nnorth,1\n")
    db = ev.connect()
    db.sql(f"CREATE SOURCE sale {columns} FROM '{tmp_path}/a.csv'; RUN UNTIL CAUGHT UP")
    assert sorted(db["sale"].rows()) == [("north", 1), ("south", 2)]
    with pytest.raises(ev.EverviewError, match=r"E_COLUMN.*the key column shp does not exist"):
        db.sql(f"CREATE SOURCE s (shop text, PRIMARY KEY (shp)) FROM '{tmp_path}/a.csv'")


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ev.InputError, match="E_FILE"):
        script.run(ev.connect(), tmp_path / "nope.sql")


def test_the_commands(tmp_path: Path) -> None:
    """`everview sql` reads a pipe; `everview run` runs a script and fails with the error's text."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ev.__file__).parents[1])}

    def everview(*args: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "everview.cli", *args]
        return subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)

    answer = everview("sql", text="CREATE TABLE t (x int);\nINSERT INTO t VALUES (4);\nSELECT x FROM t")
    assert (answer.returncode, answer.stdout) == (0, "x\n-\n4\n"), answer.stderr
    path = tmp_path / "bad.sql"
    path.write_text("SELECT 1 AS x;\nSELECT nope;")
    answer = everview("run", str(path), "--embedded")
    assert (answer.returncode, answer.stdout) == (1, "x\n-\n1\n")
    assert "line 2, column 8" in answer.stderr
