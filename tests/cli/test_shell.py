"""`everview sql`: what it takes, how it answers, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import everview as ev
from everview.cli import app
from everview.sql.shell.repl import HELP, Repl

T = "CREATE TABLE t (k text, x int); INSERT INTO t VALUES ('a', 1), ('b', 20);"


def sql(*arguments: str, given: str | None = None) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["sql", *arguments], input=given)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def talk(*lines: str, session: ev.Session | None = None, talkative: bool = False) -> list[str]:
    said: list[str] = []
    Repl(session or ev.connect(), said.append, talkative=talkative).run(lines)
    return said


def test_commands_files_and_pipes(tmp_path: Path) -> None:
    assert sql("-c", T, "-c", "SELECT x FROM t ORDER BY x")[:2] == (0, " x\n--\n 1\n20\n")
    (tmp_path / "s.sql").write_text(T + "\nSELECT sum(x) AS s FROM t")
    assert sql("-f", str(tmp_path / "s.sql"))[1] == " s\n--\n21\n"
    assert sql(given=T + "SELECT k FROM t WHERE x = 1")[1] == "k\n-\na\n"
    code, _, error = sql("-f", str(tmp_path / "none.sql"))
    assert code == 1 and "E_FILE" in error


def test_errors_name_the_script_and_its_line(tmp_path: Path) -> None:
    script = tmp_path / "late.sql"
    script.write_text("SELECT 1 AS one;\n\n-- a comment\nSELECT\n  nope;\n")
    code, _, error = sql("-f", str(script))
    assert code == 1 and "late.sql, line 5, column 3: there is no column nope" in error
    assert error.splitlines()[1:3] == ["  nope", "  ^"]
    code, _, error = sql(given=script.read_text())
    assert code == 1 and error.startswith("[E_COLUMN] line 5, column 3")


@pytest.mark.parametrize("way", ["-c", "-f", "pipe"])
def test_the_first_error_ends_it(tmp_path: Path, way: str) -> None:
    text = "SELECT 1 AS a;\nSELECT nope;\nSELECT 2 AS b;\n"
    (tmp_path / "s.sql").write_text(text)
    given = {"-c": (["-c", text], None), "-f": (["-f", str(tmp_path / "s.sql")], None), "pipe": ([], text)}
    arguments, piped = given[way]
    code, out, error = sql(*arguments, given=piped)
    assert code == 1 and out == "a\n-\n1\n" and "E_COLUMN" in error and "^" in error
    code, out, error = sql("--keep-going", *arguments, given=piped)
    assert code == 1 and "b\n-\n2\n" in out and "E_COLUMN" in error


def test_modes() -> None:
    asked = ["-c", T, "-c", "SELECT k, x FROM t ORDER BY x"]
    assert sql("--mode", "csv", *asked)[1] == '"k","x"\n"a",1\n"b",20\n'
    assert [json.loads(line)["x"] for line in sql("--mode", "json", *asked)[1].splitlines()] == [1, 20]
    assert sql("--mode", "markdown", *asked)[1].splitlines()[1:] == ["|---|---:|", "| a | 1 |", "| b | 20 |"]
    assert sql("--mode", "line", *asked)[1] == "k | a\nx | 1\n\nk | b\nx | 20\n"
    code, _, error = sql("--mode", "csb", *asked)
    assert code == 1 and "did you mean 'csv'?" in error


def test_a_typo_makes_no_directory(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert sql(str(state), "--create", "-c", T)[0] == 0
    code, _, error = sql(str(tmp_path / "stat"), "-c", "SELECT 1")
    assert code == 1 and "did you mean 'state'?" in error and "--create" in error
    assert not (tmp_path / "stat").exists()
    assert sql(str(state), "-c", "SELECT count(*) AS n FROM t")[:2] == (0, "n\n-\n2\n")
    (tmp_path / "empty").mkdir()
    assert "holds no session" in sql(str(tmp_path / "empty"), "-c", "SELECT 1")[2]


def test_a_directory_that_is_written_can_be_read(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "state") as db:
        db.table("t", {"x": int}).insert([(1,)])
        code, _, error = sql(str(tmp_path / "state"), "-c", "SELECT * FROM t")
        assert code == 1 and "E_LOCKED" in error and "--read-only" in error and "Traceback" not in error
        assert sql(str(tmp_path / "state"), "--read-only", "-c", "SELECT * FROM t")[:2] == (0, "x\n-\n1\n")


@pytest.mark.parametrize(
    "arguments",
    [["--create"], ["--read-only"], ["--trust"], ["d", "--read-only", "--create"], ["d", "--read-only", "--spark"]],
)
def test_options_that_mean_nothing_together(arguments: list[str]) -> None:
    code, _, error = sql(*arguments, "-c", "SELECT 1")
    assert code == 1 and "E_OPTION" in error


def test_words_and_commands() -> None:
    assert talk("exit", "SELECT 1 AS x;") == talk("quit;", "SELECT 1 AS x;") == talk(".quit") == talk("\\q") == []
    assert max(map(len, HELP.split("\n"))) < 80
    assert "help lists the commands" in talk("\\nonsense")[0]
    for word in ("help", "?", "\\?", "HELP;", ".help"):
        assert "\\copy" in talk(word)[0] and "\\watch" in talk(word)[0]
    assert talk("\\x", "SELECT 1 AS a, 'b' AS c;", "\\x", "SELECT 1 AS a;")[1::2] == ["a | 1\nc | b", "a\n-\n1"]
    assert talk(".mode csv", "SELECT 1 AS a;") == ["mode is csv", '"a"\n1']
    assert "did you mean \\mode?" in talk("\\moed csv")[0]
    assert talk("SELECT 1", "help", ";")[0].startswith("help\n")  # in the middle of a statement it is a word of it
    many = talk("\\rows 2", "SELECT * FROM (VALUES (1), (2), (3)) AS v(x) ORDER BY x;")
    assert many[1] == "x\n-\n1\n2\n... and 1 more; \\rows all shows them"


def test_counts_and_times() -> None:
    said = talk(T, "SELECT k FROM t;", "DELETE FROM t WHERE x = 1;", "SELECT k FROM t;", talkative=True)
    summaries = [line for line in said if line.startswith("(")]
    assert [s.split(",")[0] for s in summaries] == [
        "(done",
        "(2 rows changed",
        "(2 rows",
        "(1 row changed",
        "(1 row",
    ]
    assert all(s.endswith(" ms)") for s in summaries)


def test_copying(tmp_path: Path) -> None:
    db: Any = ev.connect()
    db.sql(T)
    for name in ("t.csv", "t.json", "t.parquet", "t.arrow"):
        said = talk(f"\\copy t to '{tmp_path / name}'", f"\\copy t from '{tmp_path / name}'", session=db)
        assert said == [f"copied {n} rows" for n in (2, 2)] or len(db["t"].rows()) > 4
        db.sql("DELETE FROM t")
        db.sql("INSERT INTO t VALUES ('a', 1), ('b', 20)")
    assert talk(f"\\copy (SELECT sum(x) AS s FROM t) to {tmp_path / 's.csv'}", session=db) == ["copied 1 row"]
    assert talk(f'\\copy t to "{tmp_path / "two words.csv"}"', session=db) == ["copied 2 rows"]
    assert (tmp_path / "two words.csv").exists()
    assert "end the name with .csv" in talk("\\copy t to 'nowhere'", session=db)[0]
    assert (tmp_path / "s.csv").read_text() == '"s"\n21\n'
    (tmp_path / "bad.csv").write_text("k,x\nc,3\nd,four\n")
    assert "E_TYPE" in talk(f"\\copy t from '{tmp_path / 'bad.csv'}'", session=db)[0] and len(db["t"]) == 2
    assert "E_SYNTAX" in talk("\\copy t", session=db)[0]


def test_describe_and_names_in_any_case() -> None:
    said = talk(T, "\\d T", "DESCRIBE t;")
    assert said[0] == said[1] and "text" in said[0]  # \\d of a table is DESCRIBE


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_a_conversation_on_a_terminal(tmp_path: Path) -> None:
    """A prompt, colours, a count; a locked directory is offered for reading; exit leaves."""
    with ev.connect(tmp_path / "state") as db:
        db.table("t", {"x": int}).insert([(1,), (22,)])
        ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "XDG_STATE_HOME": str(tmp_path), "PAGER": ""}
        shell = subprocess.Popen(
            [sys.executable, "-m", "everview.cli", "sql", str(tmp_path / "state")],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        heard = _until(ours, "read-only?")
        os.write(ours, b"y\n")
        heard += _until(ours, "everview> ")
        os.write(ours, b"SELECT x FROM t ORDER BY x;\n")
        heard = _until(ours, "everview> ")
        assert " 1\r\n22\r\n" in heard and "(2 rows, time 1," in heard
        os.write(ours, b"SELECT nope;\n")
        assert "\x1b[31m[E_COLUMN]" in _until(ours, "everview> ")
        os.write(ours, b"INSERT INTO t VALUES (1);\n")
        assert "E_READ_ONLY" in _until(ours, "everview> ")
        os.write(ours, b"exit\n")
        _until(ours, None)
        assert shell.wait(30) == 0
    assert "SELECT x FROM t" in (tmp_path / "everview" / "history").read_text()


def _until(terminal: int, text: str | None) -> str:
    """What a terminal shows up to a text (None: its end)."""
    heard, end = "", time.monotonic() + 60
    while time.monotonic() < end:
        try:
            read = os.read(terminal, 4096)
        except OSError:
            break
        heard += read.decode()
        if not read or (text is not None and text in heard):
            break
    assert text is None or text in heard, heard
    return heard
