"""`everview serve` as people start it: what it prints, its options, TLS, and how it ends."""

from __future__ import annotations

import signal
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import everview as ev
from everview.cli import app
from tests.server.process import TOKEN, Process
from tests.server.running import Running


def test_it_says_how_to_connect_and_then_ready() -> None:
    with Process(token="") as server:
        shown = "\n".join(server.lines)
        (token,) = {line.split("Bearer ")[1].split('"')[0] for line in server.lines if "Bearer" in line}
        assert len(token) >= 32
        assert f'everview.connect("{server.address}", token="{token}")' in shown
        assert server.lines[-1] == "ready"
        with ev.connect(server.address, token=token) as db:
            db.sql("CREATE TABLE t (x int)")
        assert server.end(signal.SIGINT) == 0


def test_a_directory_is_there_again_after_the_end(tmp_path: Path) -> None:
    with Process(str(tmp_path / "state")) as server:
        with ev.connect(server.address, token=TOKEN) as db:
            db.table("t", {"x": int}).insert([(1,), (2,)])
            db.sql("CREATE VIEW n AS SELECT count(*) AS n FROM t")
        assert server.end() == 0
        assert not [line for line in server.lines if "Traceback" in line]
    with ev.connect(tmp_path / "state") as db:
        assert (db["n"].rows(), db.time) == ([(2,)], 1)


def test_it_ends_in_order_while_clients_follow(tmp_path: Path) -> None:
    with Process(str(tmp_path / "state")) as server, ev.connect(server.address, token=TOKEN) as db:
        t = db.table("t", {"x": int})
        stop = t.subscribe(lambda batch: None)
        headers = {"authorization": f"Bearer {TOKEN}"}
        with httpx.stream("GET", f"{server.url}/v1/relations/t/events", headers=headers, trust_env=False) as events:
            assert next(events.iter_lines()).startswith("event:")
            t.insert([(1,)])
            assert server.end() == 0
        assert not [line for line in server.lines if "Traceback" in line]
        stop()
    with ev.connect(tmp_path / "state") as after:
        assert after["t"].rows() == [(1,)]


def test_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    with Process("--tls-cert", str(certificate), "--tls-key", str(key), scheme="https") as server:
        address = f"everviews://127.0.0.1:{server.port}"
        with ev.connect(address, token=TOKEN, certificate=str(certificate)) as db:
            t = db.table("t", {"x": int})
            heard: list[object] = []
            stop = t.subscribe(heard.append)
            t.insert([(1,)])
            stop.wait_for(1)
            assert len(heard) == 1
        with pytest.raises(ev.StoreError) as found:
            ev.connect(address, token=TOKEN)
        assert found.value.code == "E_SERVER"
        context = ssl.create_default_context(cafile=str(certificate))
        assert httpx.get(f"https://127.0.0.1:{server.port}/healthz", verify=context, trust_env=False).status_code == 200


def test_a_file_says_the_options(tmp_path: Path) -> None:
    config = tmp_path / "server.toml"
    config.write_text(f'state = "{tmp_path}/state"\nname = ["db.example"]\ntimeout = "5s"\nmemory = "500MB"\n')
    with Process("--config", str(config)) as server:
        headers = {"authorization": f"Bearer {TOKEN}", "host": "db.example"}
        assert httpx.get(f"{server.url}/v1/relations", headers=headers, trust_env=False).status_code == 200
        assert (tmp_path / "state").is_dir()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--no-auth", "--host", "0.0.0.0"], "E_OPTION"),
        (["--no-auth", "--token", "x"], "E_OPTION"),
        (["--token", ""], "E_OPTION"),
        (["--http", "70000"], "E_OPTION"),
        (["--tls-cert", "x"], "E_OPTION"),
        (["--config", "nothing.toml"], "E_FILE"),
        (["--timeout", "soon"], "E_DURATION"),
        (["--memory", "much"], "E_RANGE"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], code: str) -> None:
    result = CliRunner().invoke(app, ["serve", *arguments])
    assert result.exit_code == 1
    assert code in result.output


@pytest.mark.parametrize(
    ("text", "code"),
    [("prot = 5", "E_OPTION"), ('http = "x"', "E_OPTION"), ("http = true", "E_OPTION"), ("x", "E_FORMAT")],
)
def test_wrong_files_are_refused(text: str, code: str, tmp_path: Path) -> None:
    config = tmp_path / "server.toml"
    config.write_text(text)
    result = CliRunner().invoke(app, ["serve", "--config", str(config)])
    assert (result.exit_code, code in result.output) == (1, True)


def test_a_port_that_is_taken() -> None:
    with Running() as server:
        result = CliRunner().invoke(app, ["serve", "--http", str(server.port), "--no-auth"])
        assert (result.exit_code, "E_PORT" in result.output) == (1, True)
