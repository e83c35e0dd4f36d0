"""Errors of a file tell its name and line, whether a statement is misread or fails when it is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_pipelines import everview

SCRIPTS = {
    "CREATE TABLE t (a int);\n\nCREATE VIEW v AS\n  SELECT nope FROM t;\n": "p.sql, line 4, column 10: ",
    "CREATE TABLE t (a int);\nSELEKT a FROM t;\n": "p.sql, line 2, column 1: ",
    "CREATE TABLE t (a int);\n\nINSERT INTO t\nVALUES (3000000000);\n": "p.sql, line 3: row 0, column 'a': ",
    "CREATE TABLE t (a int PRIMARY KEY);\nINSERT INTO t VALUES (1);\nINSERT INTO t VALUES (1);": "p.sql, line 3: ",
    "SELECT 1 AS x;\nSELECT 1 / 0 AS x;": "p.sql, line 2: ",
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("words", [("run", "--embedded"), ("sql", "-f")], ids=["run", "sql -f"])
def test_name_and_line(tmp_path: Path, script: str, words: tuple[str, str]) -> None:
    (tmp_path / "p.sql").write_text(script)
    path = str(tmp_path / "p.sql")
    given = [words[0], path, words[1]] if words[0] == "run" else [*words, path]
    code, _, error = everview(*given)
    assert code == 1 and SCRIPTS[script] in error, error
