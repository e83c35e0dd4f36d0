"""TPC-H in SQL: what it costs to install each query over loaded tables, and to keep it up to date.

- *load*: each table in a transaction, without views; DuckDB: the same Arrow tables into its own. Two columns that no
  query reads (`l_comment`, `ps_comment`) are left out on both sides.
- *plan*: reading and planning the text, the best of three.
- *install*: CREATE VIEW over the loaded tables, nothing shared with other queries; DuckDB: the query, one thread.
  `initial_over_duckdb` is loading the tables that the query reads and installing it, over DuckDB's same.
- *changes* of 1, 100 and 10,000 rows of the largest table that the query reads: random rows leave in one transaction
  and come back in the next; CPU milliseconds per transaction, the median; and how many times that DuckDB's query takes.
  `seen` says how many of the changes of one row changed the answer, and their median (few pass selective filters).
- *ten*: ten queries at once, in one session that shares arrangements, and each in a session of its own (a tenth of the
  scale, because ten copies of the tables must fit into memory). Left out if `--queries` names some.

Every answer is compared with DuckDB's after the changes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
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
from everview.sql.select.compiler import Compiler
from everview.sql.text import statement_reader

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


def declare(db: ev.Session) -> None:
    """The tables, empty, without the columns nobody reads."""
    schema = (HERE / "schema.sql").read_text()
    for column in UNREAD:
        schema = schema.replace(f",\n    {column} text NOT NULL", "").replace(f", {column} text NOT NULL", "")
    db.sql(schema)


def session(data: Data, names: list[str]) -> tuple[ev.Session, dict[str, float]]:
    """A session with some of the tables loaded, and the CPU seconds each took."""
    db = ev.connect(history=1)
    declare(db)
    return db, {name: cpu(table(db, name).insert, data[name]) for name in names}


def table(db: ev.Session, name: str) -> ev.Table:
    found = db[name]
    assert isinstance(found, ev.Table)
    return found


def cpu(action: Callable[..., Any], *arguments: Any) -> float:
    """CPU seconds of a call."""
    start = time.process_time()
    action(*arguments)
    return time.process_time() - start


def changed(db: ev.Session, data: Data, name: str, view: ev.View | None = None) -> dict[str, Any]:
    """Median CPU milliseconds of transactions that change some rows of a table; of those of one row that change a view,
    too.
    """
    rng = np.random.default_rng(5)
    found: dict[str, Any] = {}
    for size, count in SIZES:
        size = min(size, data[name].num_rows // 2)
        seconds, seen = [], []
        for _ in range(count // 2):
            rows = data[name].take(rng.choice(data[name].num_rows, size, replace=False))
            given: Any = rows if size > 1 else [tuple(row.values()) for row in rows.to_pylist()]
            for change in (table(db, name).delete, table(db, name).insert):
                seconds.append(cpu(change, given))
                if view is not None and size == 1 and view.changes(since=db.time - 1):
                    seen.append(seconds[-1])
        found[f"change_{size}_ms"] = _median_ms(seconds)
        if seen:
            found["seen"] = {"transactions": len(seen), "of": len(seconds), "change_1_ms": _median_ms(seen)}
    return found


def _median_ms(seconds: list[float]) -> float:
    return round(1000 * float(np.median(seconds)), 4)


def planning_ms(db: ev.Session, text: str) -> float:
    """Reading and planning, without building operators."""

    def once() -> None:
        (statement,) = statement_reader.statements(text)
        source = statement.source()
        Compiler(db, source).query(statement_reader.parsed(source), {}, None)

    return round(1000 * min(cpu(once) for _ in range(3)), 2)


def bag(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    """Rows to compare: numbers to nine digits."""
    numbers = (int, float, Decimal)
    return sorted(tuple(f"{float(v):.9g}" if isinstance(v, numbers) else str(v) for v in row) for row in rows)


@dataclass
class Loaded:
    """Both engines with the same tables, and the CPU seconds each table took to load."""

    data: Data
    db: ev.Session
    oracle: duckdb.DuckDBPyConnection
    load: dict[str, float]
    oracle_load: dict[str, float]


def loaded(data: Data) -> Loaded:
    oracle = duckdb.connect()
    oracle.execute("SET threads = 1")

    def into_duckdb(name: str) -> None:
        oracle.register("given", data[name])
        oracle.execute(f"CREATE TABLE {name} AS SELECT * FROM given")

    oracle_load = {name: cpu(into_duckdb, name) for name in data}
    db, load = session(data, list(TABLES))
    return Loaded(data, db, oracle, load, oracle_load)


def measure(both: Loaded, name: str, text: str) -> dict[str, Any]:
    """One query: DuckDB's time, installing, changing, and whether the answer is right after all."""
    db, oracle, read = both.db, both.oracle, tables_of(text)
    duck = min(cpu(lambda: oracle.execute(text).fetchall()) for _ in range(3))
    planning = planning_ms(db, text)
    install = cpu(db.sql, f"CREATE VIEW {name} AS {text}")
    view = db[name]
    assert isinstance(view, ev.View)
    before = db.stats()["bytes"]
    initial, duck_initial = install + sum(both.load[t] for t in read), duck + sum(both.oracle_load[t] for t in read)
    result: dict[str, Any] = {
        "query": name,
        "planning_ms": planning,
        "duckdb_cpu_s": round(duck, 4),
        "install_cpu_s": round(install, 4),
        "initial_over_duckdb": round(initial / duck_initial, 2),
        **changed(db, both.data, max(read, key=lambda t: both.data[t].num_rows), view),
    }
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
    both = changed(shared, data, "lineitem")
    size = shared.stats()["bytes"]
    shared.close()
    alone: dict[str, float] = {}
    alone_bytes, alone_change = 0, dict.fromkeys(both, 0.0)
    for name, text in texts.items():
        db, own_load = session(data, tables_of(text))
        alone[name] = sum(own_load.values()) + cpu(db.sql, f"CREATE VIEW {name} AS {text}")
        alone_bytes += db.stats()["bytes"]
        for key, value in changed(db, data, "lineitem").items():
            alone_change[key] += value
        db.close()
    return {
        "shared": {
            "load_cpu_s": round(sum(load.values()), 3),
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
    parser.add_argument("--queries", default="", help="only these, with commas between")
    options = parser.parse_args()
    scale = 0.01 if options.quick else options.scale
    chosen = {n: t for n, t in queries().items() if not options.queries or n in options.queries.split(",")}
    small = generated(scale / 10)
    warm, _ = session(small, list(TABLES))  # nothing measured includes a compiler
    for name, text in chosen.items():
        warm.sql(f"CREATE VIEW {name} AS {text}")
    warm.close()
    both = loaded(generated(scale))
    report: dict[str, Any] = {
        "benchmark": "tpch",
        "scale": scale,
        "load_cpu_s": round(sum(both.load.values()), 3),
        "duckdb_load_cpu_s": round(sum(both.oracle_load.values()), 3),
        "tables_mb": round(both.db.stats()["bytes"] / 1e6, 1),
        "queries": [],
    }
    for name, text in chosen.items():
        report["queries"].append(measure(both, name, text))
        print(report["queries"][-1], file=sys.stderr, flush=True)
    both.db.close()
    if not options.queries:
        report["ten"] = ten(small)
    assert all(q["right"] for q in report["queries"]), [q for q in report["queries"] if not q["right"]]
    common.report(report, options)


if __name__ == "__main__":
    main()
