"""TPC-H at scale 0.01: all queries at once, data loaded in parts and partly deleted, equal to DuckDB each time.

The data come from `tpchgen-cli` (in the dev extra). `LIMIT` queries are compared in full: their orders have no ties at
this scale.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everview as ev
from tests.sql import harness

HERE = Path(__file__).parent / "tpch"
QUERIES = {path.stem: path.read_text() for path in sorted(HERE.glob("q*.sql"))}
TABLES = ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"]
PARTS = 3


def _generated(folder: Path) -> dict[str, pa.Table]:
    command = Path(sys.executable).with_name("tpchgen-cli")
    if not command.exists():
        pytest.skip("tpchgen-cli is not installed (pip install -e '.[dev]')")
    subprocess.run([command, "parquet", "-s", "0.01", f"--output-dir={folder}"], check=True, capture_output=True)
    return {name: _plain(pq.read_table(folder / f"{name}.parquet")) for name in TABLES}


def _plain(table: pa.Table) -> pa.Table:
    """Texts as strings, whatever way the file keeps them."""
    return table.cast(
        pa.schema([pa.field(f.name, pa.string() if _is_text(f.type) else f.type, nullable=False) for f in table.schema])
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_dictionary(kind))


def _parts(table: pa.Table) -> list[pa.Table]:
    """Shuffled thirds."""
    order = np.random.default_rng(7).permutation(table.num_rows)
    return [table.take(piece) for piece in np.array_split(order, PARTS)]


class Run:
    """Both engines with the same data."""

    def __init__(self, data: dict[str, pa.Table], db: ev.Session | None = None) -> None:
        self.db = ev.connect() if db is None else db
        self.db.sql((HERE / "schema.sql").read_text())
        for name, text in QUERIES.items():
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        self.now = {name: table.slice(0, 0) for name, table in data.items()}

    def change(self, sign: int, tables: dict[str, pa.Table]) -> None:
        with self.db.transaction():
            for name, table in tables.items():
                target = self.db[name]
                assert isinstance(target, ev.Table)
                (target.insert if sign > 0 else target.delete)(table)

    def differences(self) -> dict[str, str]:
        oracle = duckdb.connect()
        oracle.execute("SET threads = 1")
        for name, table in self.now.items():
            oracle.register(name, table)
        found = {n: harness.difference(self.db[n].rows(), oracle.execute(q).fetchall()) for n, q in QUERIES.items()}
        return {name: problem for name, problem in found.items() if problem}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, dict[str, str]]]:
    """What differed at each checkpoint."""
    data = _generated(tmp_path_factory.mktemp("tpch"))
    run = Run(data)
    found = [("empty", run.differences())]
    parts = {name: _parts(table) for name, table in data.items()}
    for i in range(PARTS):
        new = {name: pieces[i] for name, pieces in parts.items()}
        run.change(1, new)
        run.now = {name: pa.concat_tables([run.now[name], table]) for name, table in new.items()}
        found.append((f"part {i + 1}", run.differences()))
    gone = {name: parts[name][0] for name in ("orders", "lineitem", "customer", "supplier")}
    run.change(-1, gone)
    run.now = {name: pa.concat_tables(parts[name][1:]) if name in gone else run.now[name] for name in TABLES}
    found.append(("after deletes", run.differences()))
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_tpch(history: list[tuple[str, dict[str, str]]], name: str) -> None:
    problems = [f"{checkpoint}: {found[name]}" for checkpoint, found in history if name in found]
    assert not problems, "\n".join(problems)
