"""Running: until when, Ctrl-C, the progress line, and `everview run`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import everview as ev
from everview.cli import app
from everview.io import progress
from everview.io.pipeline import pipeline_of
from everview.session.core import core_of
from everview.store import Store


def ticking() -> Any:
    """A source that always has one more row."""
    i = 0
    while True:
        yield {"x": (i := i + 1)}
        time.sleep(0.001)


def test_for_a_while() -> None:
    db = ev.connect()
    db.source("t", ticking(), max_rows_per_step=5)
    run = db.run(until="300ms")
    assert run.stopped_by == "time"
    assert 0.3 <= run.seconds < 3
    assert run.rows["t"] == 5 * run.time > 0


def test_ctrl_c_ends_after_the_step_under_way() -> None:
    db = ev.connect()
    t = db.source("t", ticking(), max_rows_per_step=5)
    before = signal.getsignal(signal.SIGINT)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    run = db.run()
    assert run.stopped_by == "interrupt"
    assert len(t.rows()) == run.rows["t"] == 5 * db.time
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_idle_does_not_wait() -> None:
    db = ev.connect()
    db.source("t", [{"x": 1}])
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert db.run(until="60s").seconds < 10


def test_a_second_ctrl_c_ends_it_at_once() -> None:
    db = ev.connect()

    def stuck() -> Any:
        yield {"x": 1}
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("not reached")

    db.source("t", stuck(), schema={"x": int}, max_rows_per_step=2)
    with pytest.raises(KeyboardInterrupt):
        db.run()


def test_sources_take_turns() -> None:
    db = ev.connect()
    for name in ("a", "b"):
        db.source(name, [{"x": i} for i in range(3)], max_rows_per_step=1)
    order: list[str] = []
    for name in ("a", "b"):
        db.view(f"v_{name}", db[name].distinct()).subscribe(lambda batch, name=name: order.append(name))  # type: ignore[misc]
    db.run(until="caught_up")
    assert order == ["a", "b"] * 3


def test_progress_line(capsys: pytest.CaptureFixture[str]) -> None:
    db = ev.connect()
    db.source("t", [{"x": 1}, {"x": "no"}], schema={"x": int}, bad="quarantine")
    run = db.run(until="caught_up", progress=True)
    assert capsys.readouterr().err.startswith("everview: time 1, t 1 (1 rejected); ")
    assert str(run).startswith("t 1 row in 1 step and ")
    assert str(run).endswith("; time 1; rejected: t 1 (caught_up)")


def test_nothing_new_is_not_said_again(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that waits for days must not fill its log."""
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    db = ev.connect()
    t = db.source("t", ev.io.rows([{"x": 1}]))
    with progress.Progress(pipeline_of(core_of(db)), wanted=True) as line:
        for _ in range(3):
            line.update()
        t.insert([(2,)])
        for _ in range(3):
            line.update()
        assert [text.split(",")[0] for text in capsys.readouterr().err.splitlines()] == [
            "everview: time 0",
            "everview: time 1",
        ]


TOML = """
until = "caught_up"

[spark]
"spark.from" = "toml"

[source.orders]
format = "csv"
path = "in/*.csv"
key = "id"
bad = "quarantine"
delimiter = ";"
schema = {id = "int", country = "str", amount = "decimal(2)"}

[view]
revenue = "SELECT country, sum(amount) AS total FROM orders GROUP BY country"

[sink.revenue]
format = "parquet"
path = "out/revenue.parquet"
mode = "snapshot"
"""

PROGRAM = """
import everview as ev

def pipeline(db):
    orders = db.source("orders", ev.io.csv({folder!r}, delimiter=";"), key="id")
    revenue = db.view("revenue", orders.group_by("country").agg(total=ev.col.amount.sum()))
    revenue.write_to(ev.io.parquet({out!r}), mode="snapshot")

if __name__ == "__main__":
    raise AssertionError("not run as a program")
"""


def prepare(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text("id;country;amount\n1;at;1.50\n2;ch;2\n1;at;3\n")


def spark_in_process(masters: list[str]) -> Any:
    """Stands in for `everview.spark.local.start`: notes what was asked for, and runs tasks in this process."""
    from tests.spark import inprocess

    def session(master: str, app: str, conf: dict[str, Any], **_: Any) -> Any:
        masters.append(master)
        masters.extend(f"{name}={value}" for name, value in conf.items())
        made = inprocess.session()
        made.stop = lambda: masters.append("stopped")
        return made

    return session


@pytest.mark.parametrize(
    "options, masters",
    [
        (["--embedded"], []),
        ([], ["local[2]", "stopped"]),
        (["--master", "spark://there:7077"], ["spark://there:7077", "stopped"]),
        (["--conf", "spark.a=b=c", "--conf", "spark.d="], ["local[2]", "spark.a=b=c", "spark.d=", "stopped"]),
    ],
)
@pytest.mark.parametrize("kind", ["toml", "py"])
def test_everview_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: list[str], masters: list[str]
) -> None:
    prepare(tmp_path)
    asked: list[str] = []
    monkeypatch.setattr("everview.spark.local.start", spark_in_process(asked))
    out = tmp_path / "out" / "revenue.parquet"
    file = tmp_path / f"pipeline.{kind}"
    file.write_text(TOML if kind == "toml" else PROGRAM.format(folder=str(tmp_path / "in"), out=str(out)))
    result = CliRunner().invoke(app, ["run", str(file), "--until", "caught_up", "--no-progress", *options])
    assert result.exit_code == 0, result.output
    assert [what for what in asked if "toml" not in what] == masters
    assert ("spark.from=toml" in asked) == (kind == "toml" and bool(masters))
    assert result.output.startswith("orders 3 rows in 1 step ")
    found = {row["country"]: float(row["total"]) for row in pyarrow.parquet.read_table(out).to_pylist()}
    assert found == {"at": 3.0, "ch": 2.0}


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("p.toml", "[source", "[E_PIPELINE] p.toml: "),
        ("p.toml", "[sorce.x]", "[E_PIPELINE] p.toml: 'sorce' is not known\n  hint: did you mean 'source'?"),
        ("p.toml", "until = '1s'", "[E_PIPELINE] p.toml has no source\n  hint: add a table [source.name]"),
        ("p.toml", "[source.x]\npath = 'y'", "[E_PIPELINE] p.toml, [source.x] has no format\n  hint: add format"),
        (
            "p.toml",
            "[source.x]\nformat = 'csv'\npath = 'y'\ndelimeter = ';'",
            "[E_PIPELINE] p.toml, [source.x]: 'delimeter' is not known\n  hint: did you mean 'delimiter'?",
        ),
        ("p.toml", TOML.replace("[sink.revenue]", "[sink.revenu]"), "[E_PIPELINE] p.toml, [sink.revenu]: no view is"),
        ("p.toml", TOML.replace('"parquet"', '"parket"'), "[E_PIPELINE] p.toml, [sink.revenue]: format 'parket'"),
        ("p.py", "x = 1", "[E_PIPELINE] p.py defines no function pipeline(db)\n  hint: put sources"),
        ("p.txt", "", "[E_PIPELINE] p.txt is not a pipeline\n  hint: give a .sql, .toml or .py file"),
        ("", "", "[E_PIPELINE] there is no file"),
    ],
)
def test_everview_run_refusals(tmp_path: Path, name: str, text: str, message: str) -> None:
    prepare(tmp_path)
    if name:
        (tmp_path / name).write_text(text)
    result = CliRunner().invoke(app, ["run", str(tmp_path / (name or "missing.py")), "--embedded"])
    assert result.exit_code == 1
    assert message in result.output


def test_a_setting_needs_a_value(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(TOML)
    result = CliRunner().invoke(app, ["run", str(tmp_path / "p.toml"), "--embedded", "--conf", "spark.a"])
    assert (
        result.exit_code,
        "[E_OPTION] 'spark.a' is not a setting of Spark\n  hint: write --conf" in result.output,
    ) == (
        1,
        True,
    )


def test_modules_beside_the_program_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beside_the_pipeline.py").write_text("def rows():\n    return [(1,), (2,)]\n")
    file = tmp_path / "p.py"
    file.write_text(
        "from beside_the_pipeline import rows\ndef pipeline(db):\n    db.source('t', rows(), schema={'x': int})\n"
    )
    result = CliRunner().invoke(app, ["run", str(file), "--embedded", "--until", "caught_up", "--no-progress"])
    assert (result.exit_code, result.output[:9]) == (0, "t 2 rows "), result.output


@pytest.mark.parametrize("given", ["--shards 3", "shards = 3"])
def test_shards_are_said_by_option_or_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    prepare(tmp_path)
    monkeypatch.setattr("everview.spark.local.start", spark_in_process([]))
    file = tmp_path / "p.toml"
    file.write_text((given if "=" in given else "") + TOML)
    options = ["--state", str(tmp_path / "state"), "--until", "caught_up", *(given.split() if "=" not in given else [])]
    result = CliRunner().invoke(app, ["run", str(file), *options])
    assert result.exit_code == 0, result.output
    assert Store(tmp_path / "state", read_only=True).manifest.shards == 3
    result = CliRunner().invoke(app, ["run", str(file), *options, "--shards", "few"])
    assert (result.exit_code, "[E_OPTION] shards is 'few'" in result.output) == (1, True)
