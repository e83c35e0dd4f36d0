"""The module for browsers, run by Node: the same fetch and WebSocket, without a window."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.running import TOKEN, Running

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no Node on this machine")

LATER = """
const until = async (ready) => { while (!ready()) await new Promise((go) => setTimeout(go, 5)); };
"""


def run(server: Running, script: str, folder: Path) -> Any:
    """What a script prints at its end."""
    assert NODE is not None
    module = folder / "everview.mjs"
    module.write_text(resources.files("everview.server.http").joinpath("everview.js").read_text())
    program = folder / "program.mjs"
    first = (
        f'import {{ connect, EverviewError }} from "./everview.mjs";\nconst url = "{server.url}", token = "{TOKEN}";\n'
    )
    program.write_text(first + LATER + script)
    done = subprocess.run(
        [NODE, "--experimental-websocket", str(program)], capture_output=True, text=True, timeout=120, check=False
    )
    if "bad option" in done.stderr:
        pytest.skip("this Node has no WebSocket")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_statements_pushes_and_errors(tmp_path: Path) -> None:
    script = """
const db = connect(url, { token });
await db.sql("CREATE TABLE t (k bigint, x int)");
await db.push("t", [{ k: "9007199254740993", x: 1 }, [2, 2]], { key: "one" });
const again = await db.push("t", [{ k: "9007199254740993", x: 1 }, [2, 2]], { key: "one" });
await db.transaction(["INSERT INTO t VALUES (3, 3)", "DELETE FROM t WHERE k = 2"]);
const { rows } = await db.sql("SELECT k FROM t ORDER BY k");
let code;
try { await db.sql("SELECT nothing FROM t"); }
catch (error) { code = [error instanceof EverviewError, error.code, error.column]; }
let refused;
try { await connect(url, { token: "wrong" }).relations(); } catch (error) { refused = error.code; }
console.log(JSON.stringify({ rows, again, code, refused, names: (await db.relations()).relations.map((r) => r.name) }));
"""
    with Running() as server:
        found = run(server, script, tmp_path)
    assert found == {
        "rows": [["3"], ["9007199254740993"]],
        "again": {"time": 1, "repeated": True},
        "code": [True, "E_COLUMN", 8],
        "refused": "E_AUTH",
        "names": ["t"],
    }


def test_subscriptions_go_on_after_a_break(tmp_path: Path) -> None:
    script = """
const db = connect(url, { token });
await db.sql("CREATE TABLE t (x int); CREATE VIEW n AS SELECT count(*) AS n FROM t");
const seen = [];
const sockets = [];
const Plain = WebSocket;
globalThis.WebSocket = class extends Plain { constructor(...given) { super(...given); sockets.push(this); } };
const note = (all) =>
  seen.push({ time: all[0].time, rows: all.map((one) => one.rows), resets: all.map((one) => one.reset) });
const stop = db.subscribe(["n", { query: "SELECT sum(x) AS s FROM t" }], note, { granularity: 0 });
await until(() => seen.length === 1);
await db.push("t", [[5]]);
await until(() => seen.at(-1).time === 1);
sockets[0].close();
await db.push("t", [[7]]);
await until(() => seen.at(-1).time === 2 && sockets.length === 2);
stop();
let failed;
db.subscribe("nothing", () => {}, { failed: (error) => { failed = error.code; } });
await until(() => failed);
console.log(JSON.stringify({ last: seen.at(-1), count: sockets.length, failed }));
"""
    with Running() as server:
        found = run(server, script, tmp_path)
    assert found["last"]["rows"] == [[["2"]], [["12"]]]
    assert found["last"]["resets"] == ["", ""]
    assert found["failed"] == "E_NAME"


def test_pages_of_origins_that_were_named_may_read(tmp_path: Path) -> None:
    with Running(origins=("https://app.example",)) as server:
        asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
        with httpx.Client(base_url=server.url, trust_env=False) as client:
            allowed = client.options("/v1/sql", headers=asked)
            assert allowed.status_code == 204
            assert allowed.headers["access-control-allow-origin"] == "https://app.example"
            assert "authorization" in allowed.headers["access-control-allow-headers"]
            headers = {"origin": "https://app.example", "authorization": f"Bearer {TOKEN}"}
            assert client.get("/v1/relations", headers=headers).headers["access-control-allow-origin"]
            other = client.options("/v1/sql", headers=asked | {"origin": "https://evil.example"})
            assert other.status_code == 403 and "access-control-allow-origin" not in other.headers
