"""node-postgres, through which most JavaScript servers come."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.server.pg.conftest import Running

pytestmark = pytest.mark.slow

PROGRAM = """
const { Client, Pool, types } = require("pg");
const config = { host: "127.0.0.1", port: Number(process.argv[2]), user: "me", database: "everview" };

async function main() {
  const said = {};
  const client = new Client(config);
  const notices = [];
  client.on("notice", (n) => notices.push(n.message));
  await client.connect();
  said.simple = (await client.query("SELECT id, shop, amount, day::text AS day, ok, w FROM sale ORDER BY id")).rows;
  said.fields = (await client.query("SELECT * FROM total WHERE false")).fields.map((f) => [f.name, f.dataTypeID]);
  const named = { name: "by-id", text: "SELECT shop FROM sale WHERE id = $1" };
  said.prepared = [];
  for (const id of [1, 2, 3]) said.prepared.push((await client.query({ ...named, values: [id] })).rows);
  said.array = (await client.query({ text: "SELECT id, shop FROM sale ORDER BY id", rowMode: "array" })).rows;
  said.inserted = (await client.query("INSERT INTO sale (id, shop) VALUES ($1, $2) RETURNING id", [7, "west"])).rows;
  said.error = await client.query("SELECT nope FROM sale").catch((e) => [e.code, e.severity]);
  said.twice = await client.query("INSERT INTO sale (id, shop) VALUES (7, 'x')").catch((e) => e.code);
  await client.query("BEGIN");
  await client.query("DELETE FROM sale WHERE id = $1", [7]);
  said.inside = (await client.query("SELECT count(*) AS n FROM sale")).rows;
  await client.query("ROLLBACK");
  said.after = (await client.query("SELECT count(*) AS n FROM sale")).rows;
  said.many = (await client.query("SELECT g FROM generate_series(1, 5000) AS s(g)")).rows.length;
  await client.end();

  const pool = new Pool({ ...config, max: 4 });
  const asked = [...Array(40).keys()].map((i) => pool.query("SELECT $1::int + 1 AS x", [i]));
  said.pool = (await Promise.all(asked)).map((r) => Number(r.rows[0].x));
  await pool.end();
  console.log(JSON.stringify(said));
}

main().catch((error) => { console.error(error); process.exit(1); });
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("node")
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("there is no Node.js")
    install = [npm, "install", "--silent", "--no-audit", "--no-fund", "pg@8"]
    done = subprocess.run(install, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"node-postgres cannot be had: {done.stderr[-300:]}")
    (directory / "program.js").write_text(PROGRAM)
    return directory / "program.js"


def test_queries_transactions_and_pools(program: Path, fresh: Running) -> None:
    command = ["node", program.name, str(fresh.port)]
    done = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["simple"][0] == {
        "id": "1", "shop": "north", "amount": "5.50", "day": "2026-01-31", "ok": True, "w": 1.5,
    }  # fmt: skip
    assert said["simple"][1]["amount"] == "-0.25" and said["simple"][1]["day"] is None
    assert said["fields"] == [["shop", 25], ["amount", 1700], ["n", 20]]
    assert said["prepared"] == [[{"shop": "north"}], [{"shop": "south"}], []]
    assert said["array"] == [["1", "north"], ["2", "south"]]
    assert said["inserted"] == [{"id": "7"}]
    assert said["error"] == ["42703", "ERROR"] and said["twice"] == "23505"
    assert said["inside"] == [{"n": "2"}] and said["after"] == [{"n": "3"}]
    assert said["many"] == 5000
    assert said["pool"] == list(range(1, 41))
