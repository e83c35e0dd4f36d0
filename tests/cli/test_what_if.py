"""`everview what-if`: on a directory that another session writes."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

import everview as ev
from everview.cli import app
from tests.oracle.test_what_if import files


def test_what_would_change(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        db.datalog("reach(X) :- edge(1, X). reach(Y) :- reach(X), edge(X, Y).")
        edge.insert([(1, 2), (2, 3)])
        before = files(db)
        command = ["what-if", str(tmp_path), "DELETE FROM edge WHERE src = 2; INSERT INTO edge VALUES (2, 5)"]
        done = CliRunner().invoke(app, [*command, "reach"])
        assert done.exit_code == 0, done.output
        assert done.output.splitlines()[-2:] == ["reach -1  3", "reach +1  5"]
        assert "what if, at time 1" in done.output and "edge -1" not in done.output
        assert "edge -1  2, 3" in CliRunner().invoke(app, command).output
        wrong = CliRunner().invoke(app, [*command, "reech"])
        assert wrong.exit_code == 1 and "did you mean 'reach'" in wrong.output
        assert files(db) == before and db.time == 1
