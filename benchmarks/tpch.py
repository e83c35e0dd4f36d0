"""TPC-H in SQL: what it costs to install each query over loaded tables, and to keep it up to date.

- *load*: all tables in one transaction, without views; DuckDB: the same Arrow tables into its own. Two columns that no
  query reads (`l_comment`, `ps_comment`) are left out on both sides.
- *install*: CREATE VIEW over the loaded tables, nothing shared with other queries; DuckDB: the query, one thread.
- *changes* of 1, 100 and 10,000 rows of the largest table that the query reads: random rows leave in one transaction
  and come back in the next; CPU milliseconds per transaction, the median; and how many times that DuckDB's query takes.
- *ten*: ten queries at once, in one session that shares arrangements, and each in a session of its own (a tenth of the
  scale, because ten copies of the tables must fit into memory).

Every answer is compared with DuckDB's after the changes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import common
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp, parse_one

import everview as ev

HERE = common.ROOT / "tests" / "sql" / "tpch"
TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
UNREAD = ("l_comment", "ps_comment")
TEN = ("q01", "q03", "q04", "q05", "q06", "q10", "q12", "q14", "q18", "q19")
SIZES = ((1, 40), (100, 10), (10_000, 4))
"""(rows of a change, transactions of that size)"""

Data = dict[str, pa.Table]


def queries() -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted(HERE.glob("q*.sql"))}


def generated(scale: float) -> Data:
    """The tables, by tpchgen-cli."""
    with tempfile.TemporaryDirectory() as folder:
        command = Path(sys.executable).with_name("tpchgen-cli")
        arguments = [command, "parquet", "-s", str(scale), f"--output-dir={folder}"]
        subprocess.run(arguments, check=True, capture_output=True)
        return {name: _plain(pq.read_table(Path(folder) / f"{name}.parquet")) for name in TABLES}


def _plain(table: pa.Table) -> pa.Table:
    """Texts as strings, whatever way the file keeps them, without the columns nobody reads."""
    table = table.drop_columns([c for c in UNREAD if c in table.column_names])
    texts = (pa.types.is_large_string, pa.types.is_string_view, pa.types.is_dictionary)
    fields = [
        pa.field(f.name, pa.string() if any(t(f.type) for t in texts) else f.type, nullable=False) for f in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()


def tables_of(text: str) -> list[str]:
    """The tables a query reads."""
    names = {t.name.lower() for t in parse_one(text, read="postgres").find_all(exp.Table)}
    return [t for t in TABLES if t in names]


def session(data: Data, names: list[str]) -> tuple[ev.Session, float]:
    """A session with some of the tables loaded, and the CPU seconds that took."""
    db = ev.connect(history=1)
    schema = (HERE / "schema.sql").read_text()
    for column in UNREAD:
        schema = schema.replace(f",\n    {column} text NOT NULL", "").replace(f", {column} text NOT NULL", "")
    db.sql(schema)
    start = time.process_time()
    with db.transaction():
        for name in names:
            table(db, name).insert(data[name])
    return db, time.process_time() - start


def table(db: ev.Session, name: str) -> ev.Table:
    found = db[name]
    assert isinstance(found, ev.Table)
    return found


def cpu(action: Callable[..., Any], *arguments: Any) -> float:
    """CPU seconds of a call."""
    start = time.process_time()
    action(*arguments)
    return time.process_time() - start


def changed(db: ev.Session, data: Data, name: str, rng: np.random.Generator) -> dict[str, float]:
    """Median CPU milliseconds of transactions that change some rows of a table."""
    found: dict[str, float] = {}
    for size, count in SIZES:
        size = min(size, data[name].num_rows // 2)
        seconds = []
        for _ in range(count // 2):
            rows = data[name].take(rng.choice(data[name].num_rows, size, replace=False))
            given: Any = rows if size > 1 else [tuple(row.values()) for row in rows.to_pylist()]
            seconds.append(cpu(table(db, name).delete, given))
            seconds.append(cpu(table(db, name).insert, given))
        found[f"change_{size}_ms"] = round(1000 * float(np.median(seconds)), 4)
    return found


def bag(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    """Rows to compare: numbers to nine digits."""
    numbers = (int, float, Decimal)
    return sorted(tuple(f"{float(v):.9g}" if isinstance(v, numbers) else str(v) for v in row) for row in rows)


def measure(db: ev.Session, oracle: duckdb.DuckDBPyConnection, data: Data, name: str, text: str) -> dict[str, Any]:
    """One query: DuckDB's time, installing, changing, and whether the answer is right after all."""
    duck = min(cpu(lambda: oracle.execute(text).fetchall()) for _ in range(3))
    install = cpu(db.sql, f"CREATE VIEW {name} AS {text}")
    view = db[name]
    before = db.stats()["bytes"]
    largest = max(tables_of(text), key=lambda t: data[t].num_rows)
    result: dict[str, Any] = {"query": name, "duckdb_cpu_s": round(duck, 4), "install_cpu_s": round(install, 4)}
    result |= changed(db, data, largest, np.random.default_rng(5))
    result["duckdb_over_change_1"] = round(1000 * duck / result["change_1_ms"])
    result["right"] = bag(view.rows()) == bag(oracle.execute(text).fetchall())
    view.drop()
    result["own_mb"] = round((before - db.stats()["bytes"]) / 1e6, 1)
    return result


def ten(data: Data) -> dict[str, Any]:
    """Ten queries in one session, and in ten."""
    texts = {name: text for name, text in queries().items() if name in TEN}
    shared, load = session(data, list(TABLES))
    first = {n: cpu(shared.sql, f"CREATE VIEW {n} AS {t}") for n, t in texts.items()}
    again = {n: cpu(shared.sql, f"CREATE VIEW {n}_again AS {t}") for n, t in texts.items()}
    both = changed(shared, data, "lineitem", np.random.default_rng(5))
    size = shared.stats()["bytes"]
    shared.close()
    alone: dict[str, float] = {}
    alone_bytes, alone_change = 0, dict.fromkeys(both, 0.0)
    for name, text in texts.items():
        db, own_load = session(data, tables_of(text))
        alone[name] = own_load + cpu(db.sql, f"CREATE VIEW {name} AS {text}")
        alone_bytes += db.stats()["bytes"]
        for key, value in changed(db, data, "lineitem", np.random.default_rng(5)).items():
            alone_change[key] += value
        db.close()
    return {
        "shared": {
            "load_cpu_s": round(load, 3),
            "install_cpu_s": round(sum(first.values()), 3),
            "install_again_cpu_s": round(sum(again.values()), 3),
            "mb": round(size / 1e6, 1),
            **both,
        },
        "alone": {
            "load_and_install_cpu_s": round(sum(alone.values()), 3),
            "mb": round(alone_bytes / 1e6, 1),
            **{k: round(v, 4) for k, v in alone_change.items()},
        },
    }


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    options = parser.parse_args()
    scale = 0.01 if options.quick else options.scale
    small = generated(scale / 10)
    warm, _ = session(small, list(TABLES))  # nothing measured includes a compiler
    for name, text in queries().items():
        warm.sql(f"CREATE VIEW {name} AS {text}")
    warm.close()
    data = generated(scale)
    oracle = duckdb.connect()
    oracle.execute("SET threads = 1")

    def into_duckdb() -> None:
        for name, rows in data.items():
            oracle.register("given", rows)
            oracle.execute(f"CREATE TABLE {name} AS SELECT * FROM given")

    duck_load = cpu(into_duckdb)
    db, load = session(data, list(TABLES))
    report: dict[str, Any] = {
        "benchmark": "tpch",
        "scale": scale,
        "load_cpu_s": round(load, 3),
        "duckdb_load_cpu_s": round(duck_load, 3),
        "tables_mb": round(db.stats()["bytes"] / 1e6, 1),
        "queries": [measure(db, oracle, data, name, text) for name, text in queries().items()],
    }
    db.close()
    report["ten"] = ten(small)
    assert all(q["right"] for q in report["queries"]), [q for q in report["queries"] if not q["right"]]
    common.report(report, options)


if __name__ == "__main__":
    main()
