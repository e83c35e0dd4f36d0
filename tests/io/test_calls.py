"""Sinks that call somebody: webhooks and commands, and what they know after a restart."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import everview as ev


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls.append((json.loads(body), dict(self.headers)))  # type: ignore[attr-defined]
        answers = self.server.answers  # type: ignore[attr-defined]
        self.send_response(answers.pop(0) if answers else 200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = HTTPServer(("127.0.0.1", 0), Receiver)
    made.calls, made.answers = [], []
    made.url = f"http://127.0.0.1:{made.server_port}/hook"
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def view(db: Any) -> tuple[ev.Table, ev.View]:
    t = db.table("t", {"k": str, "x": int})
    return t, db.view("v", t.distinct())


def test_a_webhook_is_told_each_time_once(server: Any, tmp_path: Path) -> None:
    for _ in range(2):
        with ev.connect(tmp_path / "state") as db:
            t, v = view(db)
            v.write_to(ev.io.webhook(server.url, headers={"X-Key": "s"}, position=tmp_path / "pos"))
            t.insert([("a", db.time)])
            t.insert([("a", db.time)])
    changes = [c for body, _ in server.calls for c in body["changes"]]
    assert [c["x"] for c in changes] == [1, 2, 3, 4] and all(c["_diff"] == 1 for c in changes)
    assert [body["time"] for body, _ in server.calls] == [c["_time"] for c in changes]
    assert len({h["Idempotency-Key"] for _, h in server.calls}) == 4
    assert server.calls[0][1]["X-Key"] == "s"


def test_a_webhook_is_tried_again_and_then_fails(server: Any) -> None:
    db: Any = ev.connect()
    t, v = view(db)
    outlet = v.write_to(ev.io.webhook(server.url, retries=1))
    server.answers = [503]
    t.insert([("a", 1)])
    assert len(server.calls) == 2 and server.calls[0][0] == server.calls[1][0]
    server.answers = [400]
    with pytest.raises(ev.EverviewError, match=r"E_SINK.*it answered 400"):
        t.insert([("b", 2)])
    assert len(server.calls) == 3
    outlet.flush()  # what was refused comes again
    assert [c["k"] for c in server.calls[-1][0]["changes"]] == ["b"]
    with pytest.raises(ev.EverviewError, match="is not a web address"):
        ev.io.webhook("example.org")


def test_a_command_gets_lines_and_its_failure_ends_the_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = "import os, sys; t = sys.stdin.read(); 'bad' in t and sys.exit('no bad'); open(sys.argv[1], 'a').write(t)"
    db: Any = ev.connect()
    t, v = view(db)
    v.write_to(ev.io.command([sys.executable, "-c", program, str(log)]))
    t.insert([("a", 1), ("b", 2)])
    assert sorted(json.loads(line)["k"] for line in log.read_text().splitlines()) == ["a", "b"]
    with pytest.raises(ev.EverviewError, match=r"E_SINK.*exit code 1, no bad"):
        t.insert([("bad", 1)])
    with pytest.raises(ev.EverviewError, match="E_SINK"):
        v.write_to(ev.io.command("no-such-program-anywhere"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [("cat >> log", r"(?s)>> in .* for a shell.*sh -c 'cat >> log'"), ("echo 'a", "quote is never closed")],
)
def test_a_command_that_needs_a_shell_is_refused_at_once(text: str, problem: str) -> None:
    """`>>` was given to the program as a file's name."""
    with pytest.raises(ev.InputError, match=problem):
        ev.io.command(text)
    assert ev.io.command("sh -c 'cat >> log'").describe() == "command sh -c 'cat >> log'"


def test_calls_in_sql_and_toml(server: Any, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from everview.cli import app

    (tmp_path / "a.csv").write_text("k,x\na,1\n")
    (tmp_path / "p.sql").write_text(
        "CREATE SOURCE t FROM 'a.csv'; CREATE VIEW v AS SELECT k FROM t;"
        f"CREATE SINK FROM v INTO '{server.url}' WITH (retries = 0);"
        f"""CREATE SINK FROM v INTO '{sys.executable} -c "import sys; open(''log'', ''w'').write(sys.stdin.read())"' """
        "FORMAT command;"
    )
    (tmp_path / "p.toml").write_text(
        f'[source.t]\nformat = "csv"\npath = "a.csv"\n[view]\nv = "SELECT k FROM t"\n'
        f'[sink.v]\nformat = "webhook"\nurl = "{server.url}"\n'
    )
    for name in ("p.sql", "p.toml"):
        done = CliRunner().invoke(app, ["run", str(tmp_path / name), "--embedded", "--until", "caught_up"])
        assert done.exit_code == 0, done.output
    assert [c["k"] for body, _ in server.calls for c in body["changes"]] == ["a", "a"]
    assert json.loads((tmp_path / "log").read_text())["k"] == "a"
    (tmp_path / "p.toml").write_text((tmp_path / "p.toml").read_text() + "retires = 3\n")
    done = CliRunner().invoke(app, ["run", str(tmp_path / "p.toml"), "--embedded"])
    assert "did you mean 'retries'?" in done.stderr
