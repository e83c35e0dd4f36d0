"""Four TPC-H queries here and in Pathway: loading, the answer, then single changes.

    python benchmarks/against_pathway.py --python PYTHON [--scale 0.1]

PYTHON is one that has `pathway` installed; the project's has not. Both read the same CSV files, with the columns that
the query reads and without the last ten rows of lineitem, which come one at a time afterwards. Pathway takes its rows
one by one from a connector in Python, as it takes changes (`pathway_tpch.py`); here they are loaded once as Arrow
tables and once one by one, as tuples. Parsing the files is not measured. Both have one thread to compute with.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import common
import pyarrow as pa
import pyarrow.csv as pc
import tpch
from sqlglot import exp, parse_one

import everview as ev

QUERIES = ("q01", "q03", "q05", "q06")
CHANGES = 10


def columns_read(text: str, data: tpch.Data) -> tpch.Data:
    """The tables of a query with the columns that it reads."""
    names = {c.name for c in parse_one(text, read="postgres").find_all(exp.Column)}
    return {t: data[t].select([c for c in data[t].column_names if c in names]) for t in tpch.tables_of(text)}


def here(text: str, data: tpch.Data, *, by_row: bool) -> dict[str, Any]:
    """CPU seconds of loading and of the view over it, median CPU milliseconds of single changes, the answer."""
    db = ev.connect(history=1)
    first = {t: rows.slice(0, rows.num_rows - (CHANGES if t == "lineitem" else 0)) for t, rows in data.items()}
    given: dict[str, Any] = {t: _tuples(rows) if by_row else rows for t, rows in first.items()}
    for name, rows in data.items():
        db.sql(f"CREATE TABLE {name} ({', '.join(f'{f.name} {_type(f.type)} NOT NULL' for f in rows.schema)})")
    load = sum(tpch.cpu(tpch.table(db, name).insert, rows) for name, rows in given.items())
    view = tpch.cpu(db.sql, f"CREATE VIEW answer AS {text}")
    last = _tuples(data["lineitem"])[-CHANGES:]
    changes = sorted(tpch.cpu(tpch.table(db, "lineitem").insert, [row]) for row in last)
    found = {
        "load_and_query_cpu_s": round(load + view, 3),
        "load_cpu_s": round(load, 3),
        "change_1_cpu_ms": round(1000 * changes[CHANGES // 2], 4),
        "answer": db["answer"].rows(),
    }
    db.close()
    return found


def _tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return "text" if pa.types.is_string(kind) else "date" if pa.types.is_date(kind) else "int"


def there(python: str, name: str, data: tpch.Data) -> dict[str, Any]:
    """The same in Pathway."""
    with tempfile.TemporaryDirectory() as folder:
        for table, rows in data.items():
            pc.write_csv(rows, Path(folder) / f"{table}.csv")
        script = Path(__file__).with_name("pathway_tpch.py")
        done = subprocess.run([python, script, name, folder], check=True, capture_output=True, text=True, timeout=600)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def same(ours: list[tuple[Any, ...]], theirs: list[list[Any]]) -> bool:
    """Whether answers agree, to nine digits: sums are decimals here and floats there. Groups are in the same order by
    what is no fraction.
    """

    def ordered(rows: Any) -> list[list[Any]]:
        split = [[float(v) if isinstance(v, (float, Decimal)) else str(v) for v in row] for row in rows]
        return sorted(split, key=lambda row: [v for v in row if isinstance(v, str)])

    pairs = [(a, b) for x, y in zip(ordered(ours), ordered(theirs), strict=True) for a, b in zip(x, y, strict=True)]
    return all(math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) else a == b for a, b in pairs)


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor")
    parser.add_argument("--python", required=True, help="a Python that has pathway")
    options = parser.parse_args()
    data = tpch.generated(0.01 if options.quick else options.scale)
    found = []
    for name in QUERIES:
        text = tpch.queries()[name].partition("ORDER BY")[0]
        mine = columns_read(text, data)
        here(text, {t: rows.slice(0, 100) for t, rows in mine.items()}, by_row=False)  # nothing measured compiles
        arrow, rows = (here(text, mine, by_row=by_row) for by_row in (False, True))
        other = there(options.python, name, mine)
        right = same(arrow.pop("answer"), other["answer"]) and same(rows.pop("answer"), other.pop("answer"))
        times = round(other["load_and_query_cpu_s"] / rows["load_and_query_cpu_s"], 1)
        result = {"query": name, "arrow": arrow, "rows": rows, "pathway": other, "times_as_fast": times, "right": right}
        print(result, file=sys.stderr, flush=True)
        found.append(result)
    assert all(q["right"] for q in found), found
    common.report({"benchmark": "against_pathway", "scale": options.scale, "queries": found}, options)


if __name__ == "__main__":
    main()
