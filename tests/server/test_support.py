"""What operators are given: metrics and their dashboard, the support bundle, `everview top`, the log as JSON."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import everview as ev
from everview.cli import app
from everview.server.server_process import Server
from everview.server.settings import Settings
from everview.server.threaded_server import Beside
from tests.server.process import Process

TOKEN = "token that nobody is told"

SETUP = """
CREATE TABLE patient (id int, name text);
CREATE VIEW ages AS SELECT name, 100 / (id - 77123) AS share FROM patient WHERE name <> 'Xaver';
INSERT INTO patient VALUES (77123, 'Ottilie'), (5, 'Gundula');
CREATE USER ann PASSWORD 'her password';
SELECT count(*) FROM patient WHERE name = 'Walburga' AND id = 98765;
SELECT E'Kunigunde' AS name
"""
VALUES = ("Ottilie", "Gundula", "Xaver", "Walburga", "Kunigunde", "77123", "98765", "her password", TOKEN)


@pytest.fixture(scope="module")
def beside() -> Iterator[Beside]:
    session = ev.connect(files=False)
    session.system.log()
    session.sql(SETUP)
    with Beside(Server(session, Settings(http=0, token=TOKEN))).start() as server:
        yield server


def get(beside: Beside, path: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {TOKEN}"}
    return httpx.get(f"{beside.url}{path}", headers=headers, trust_env=False, timeout=60)


def test_metrics_are_well_formed_and_tell_sizes(beside: Beside) -> None:
    lines = get(beside, "/metrics").text.splitlines()
    assert lines[-1] == "# EOF"
    kinds = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds))
    for line in lines[:-1]:
        assert re.fullmatch(r"# (TYPE|HELP) \w+ .+|\w+(\{\w+=\"[^\"]*\"\})? [-+.0-9e]+", line), line
    found = dict(line.rsplit(" ", 1) for line in lines[:-1] if not line.startswith("#"))
    assert found['everview_table_updates{table="patient"}'] == "2"
    assert int(found['everview_view_bytes{view="ages"}']) > 0
    assert found['everview_view_errors{view="ages"}'] == "1"
    counted = [int(v) for k, v in found.items() if "_bucket" in k]
    assert counted == sorted(counted) and counted[-1] == int(found["everview_work_duration_seconds_count"])


def test_the_dashboard_shows_metrics_that_there_are(beside: Beside) -> None:
    kinds = set(re.findall(r"# TYPE (\w+)", get(beside, "/metrics").text))
    dashboard = get(beside, "/grafana.json").json()
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"\b(?:everview|process)_\w+", target["expr"])
    }
    assert {re.sub("_(total|bucket)$", "", name) for name in asked} <= kinds
    assert kinds - {"process_start_time_seconds"} <= {re.sub("_(total|bucket)$", "", name) for name in asked}


def test_the_bundle_has_no_data_in_it(beside: Beside, tmp_path: Path) -> None:
    answer = get(beside, "/v1/support")
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as file:
        texts = {name: file.read(name).decode() for name in file.namelist()}
    assert {"about.json", "metrics.txt", "ev/views.json", "ev/statements.json", "ev/errors.json"} <= set(texts)
    for name, text in texts.items():
        for value in VALUES:
            assert value not in text, name
    statements = [json.loads(line)["text"] for line in texts["ev/statements.json"].splitlines()]
    assert "SELECT count(*) FROM patient WHERE name = ? AND id = ?" in statements
    file_written = tmp_path / "bundle.zip"
    done = CliRunner().invoke(app, ["support", beside.address, str(file_written), "--token", TOKEN])
    assert done.exit_code == 0, done.output
    assert zipfile.is_zipfile(file_written)
    refused = CliRunner().invoke(app, ["support", beside.address, str(file_written), "--token", "wrong"])
    assert (refused.exit_code, "E_AUTH" in refused.output) == (1, True)


def test_the_bundle_is_for_superusers(beside: Beside) -> None:
    for path in ("/v1/support", "/metrics"):
        answer = httpx.get(f"{beside.url}{path}", auth=("ann", "her password"), trust_env=False)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "E_FORBIDDEN")


def test_top_shows_a_server(beside: Beside) -> None:
    done = CliRunner().invoke(app, ["top", beside.address, "--once", "--token", TOKEN])
    assert done.exit_code == 0, done.output
    assert all(word in done.output for word in ("ages", "division by zero", "1 tables, 1 views"))


def test_the_log_as_json() -> None:
    with Process("--log-format", "json") as server:
        headers = {"authorization": "Bearer wrong one"}
        assert httpx.get(f"{server.url}/v1/relations", headers=headers, trust_env=False).status_code == 401
        assert server.end() == 0
    said = [json.loads(line) for line in server.lines if line.startswith("{")]
    assert [line["message"].split(",")[0] for line in said] == [
        "ready",
        "somebody was refused over HTTP (1 so far)",
        "closing",
    ]
    assert not [line for line in server.lines if "wrong one" in line]
    refused = CliRunner().invoke(app, ["serve", "--log-format", "xml"])
    assert (refused.exit_code, "E_OPTION" in refused.output) == (1, True)
