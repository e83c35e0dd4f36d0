"""The first hour: every `everview ...` command of README and docs runs as it is written, outside the checkout.

A page's commands run in bash, in a fresh folder that holds what the page speaks of (`ABOUT`). Names of places are
replaced (`PLACES`); what runs until Ctrl-C gets one. What is not run here is listed, with where it is. So do the files
that pages show: pipelines in TOML and SQL. Python is run by conftest.py, what needs Spark by tests/spark/test_pages.py.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("demo", "durability", "production", "server", "shell", "sql", "what-if", "why")
PLACES = (("/srv/shop/state", "state"), ("your-alerting", "cat"), ("DIR/state", "kept/state"), ("DIR", "state"))
ELSEWHERE = {
    "everview demo": "takes a minute, with Spark: tests/demo",
    "everview sql state --spark": "starts a JVM: tests/spark",
    "everview serve --master": "starts a JVM, too",
    "everview sql DIR/state": "the demo's own tests type what its last line says: tests/demo",
    "everview what-if DIR/state": "the same",
    "everview explain DIR/state": "the same",
}
"""How commands begin that are not run here, and where they are."""

ENDLESS = ("everview run", "everview serve", "everview subscribe")

ABOUT = """
CREATE TABLE orders (item text, amount int);
CREATE VIEW revenue AS SELECT item, sum(amount) AS amount FROM orders GROUP BY item;
INSERT INTO orders VALUES ('fig', 3), ('fig', 4), ('pear', 1);
CREATE TABLE transfer (id int, payer text, payee text);
CREATE VIEW exposed AS SELECT payer FROM transfer WHERE payee = 'Volkov';
INSERT INTO transfer VALUES (1, 'Ann', 'Bob'), (2, 'Bob', 'Volkov');
CREATE TABLE suspect (name text);
CREATE VIEW flagged AS SELECT name FROM suspect;
INSERT INTO suspect VALUES ('Ann');
CREATE TABLE walk (a text, b text, n int);
CREATE VIEW hops AS SELECT a, b, n FROM walk;
INSERT INTO walk VALUES ('Ann', 'Volkov', 3);
"""
PIPELINE = """
CREATE SOURCE sales (item text, amount int) FROM 'in' FORMAT csv;
CREATE VIEW sold AS SELECT item, sum(amount) AS amount FROM sales GROUP BY item;
CREATE SINK FROM sold INTO 'out' FORMAT json;
"""


def commands(page: str) -> list[str]:
    """The commands of a page's shell blocks, without their comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / f"{page}.md").read_text(), re.M | re.S)
    lines = [re.sub(r"\s+#\s.*", "", line) for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("everview ")]


def blocks(page: str, language: str) -> list[str]:
    """What a page shows in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs" / f"{page}.md").read_text(), re.M | re.S)


def elsewhere(command: str) -> bool:
    return any(command == known or command.startswith(f"{known} ") for known in ELSEWHERE) and "--fast" not in command


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a directory of state, a pipeline and the command `everview`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "everview").write_text(f'#!/bin/sh\nexec {sys.executable} -m everview.cli "$@"\n')
    (tmp_path / "bin" / "everview").chmod(0o755)
    (tmp_path / "about.sql").write_text(ABOUT)
    (tmp_path / "pipeline.sql").write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "first.csv").write_text("item,amount\nfig,3\n")
    done = ran(tmp_path, "everview sql state --create -f about.sql")
    assert done.returncode == 0, done.stderr
    return tmp_path


def ran(desk: Path, command: str) -> subprocess.CompletedProcess[str]:
    """A command, as a reader would run it; what does not end by itself is interrupted."""
    endless = command.startswith(ENDLESS)
    environment = {**os.environ, "PATH": f"{desk / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        ["bash", "-c", command + (" --embedded" if command.startswith("everview run") else "")],
        cwd=desk,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=15 if endless else 300)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=120)
        return subprocess.CompletedProcess(command, 0 if process.returncode in (0, 130, -2) else 1, output, errors)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_run_as_written(page: str, desk: Path) -> None:
    found = [command for command in commands(page) if not elsewhere(command)]
    assert found
    for written in found:
        command = written
        for name, place in PLACES:
            command = command.replace(name, place)
        command = command.replace('"..."', '"SELECT 1 AS one"')
        done = ran(desk, command)
        assert done.returncode == 0, f"{written}\n{done.stdout[-1000:]}{done.stderr[-2000:]}"


def test_every_page_with_commands_is_run() -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md") if commands(path.stem)}
    assert pages == set(PAGES)
    everything = [command for page in PAGES for command in commands(page)]
    assert [known for known in ELSEWHERE if not any(c.startswith(known) for c in everything)] == []


def invoked(*arguments: object) -> str:
    from typer.testing import CliRunner

    from everview.cli import app

    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_pipelines_in_toml_run_as_they_are_shown(tmp_path: Path) -> None:
    whole, _ = blocks("pipelines", "toml")  # the other needs Kafka: tests/spark
    (tmp_path / "pipeline.toml").write_text(whole)
    (tmp_path / "in" / "orders").mkdir(parents=True)
    (tmp_path / "in" / "orders" / "1.json").write_text(
        '{"id": 1, "country": "at", "amount": 5}\n{"id": 2, "country": "at", "amount": 2}\n'
    )
    assert "sinks" in invoked("check", tmp_path / "pipeline.toml")
    assert "orders 2 rows" in invoked("run", tmp_path / "pipeline.toml", "--embedded")
    assert invoked("sql", tmp_path / "state", "--mode", "csv", "-c", "SELECT * FROM revenue").endswith('"at",7\n')
    (changes,) = (tmp_path / "out" / "revenue").glob("changes-*.parquet")
    assert changes.stat().st_size


def test_sinks_of_bad_records_are_understood(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id,amount\n1,2\n")
    source = "CREATE SOURCE orders (id int, amount int) FROM 'orders.csv' WITH (bad = 'quarantine');"
    (tmp_path / "p.sql").write_text("\n".join([source, *blocks("production", "sql")]))
    told = invoked("check", tmp_path / "p.sql")
    assert "to webhook https://hooks.example.org/shop" in told and "to command mail-troubles --to ops" in told
