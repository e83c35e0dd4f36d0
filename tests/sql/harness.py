"""Queries as views, against DuckDB from scratch: the same random changes to both, the same answers after each.

A `.slt` file is a header comment and blocks, parted by blank lines:

    query [name]            installed as a view; compared with DuckDB after every batch
    SELECT ...
    ----                    what follows is what DuckDB is asked, where it must be asked differently
    SELECT ...

    error E_CODE 2:8        must be refused with that code at that line and column, and with a text that holds
    the text                the next line
    SELECT ...

All files use the tables of `SCHEMA`, filled by `Changes`: few distinct values, many NULLs and duplicates; table `z`
stays empty for some batches.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

import everview as ev
from everview.session.local_shards import local_shards

SCHEMA = {
    "t": "a int, b int, s text, x double, m decimal(9,2), d date, p boolean",
    "u": "a int, c int, s text",
    "v": "a int not null, c int not null",
    "e": "src int not null, dst int not null, w int not null",
    "z": "a int, b int",
}


@dataclass(frozen=True)
class Block:
    """One block of a file."""

    kind: str
    args: tuple[str, ...]
    text: str
    line: int

    @property
    def name(self) -> str:
        return f"line{self.line}"

    @property
    def ours(self) -> str:
        return self.text.split("\n----\n")[0]

    @property
    def theirs(self) -> str:
        return self.text.split("\n----\n")[-1]


def blocks(path: Path) -> list[Block]:
    """The blocks of a file, without comments."""
    found: list[Block] = []
    lines = path.read_text().split("\n")
    start = 0
    for i, line in enumerate([*lines, ""]):
        if line.strip():
            continue
        chunk = [c for c in lines[start:i] if not c.startswith("#")]
        if chunk:
            kind, *args = chunk[0].split()
            found.append(Block(kind, tuple(args), "\n".join(chunk[1:]), start + 1))
        start = i + 1
    return found


class Changes:
    """Random rows of the tables, and batches of inserts and deletes of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in SCHEMA}

    def _maybe(self, value: Any, chance: float = 0.25) -> Any:
        return None if self.random.random() < chance else value

    def _row(self, table: str) -> tuple[Any, ...]:
        r = self.random
        small = r.randint(-2, 5)
        if table == "t":
            return (
                self._maybe(small),
                self._maybe(r.randint(0, 9)),
                self._maybe(r.choice(["", "a", "ab", "Abc", "b%c", "pear", "fig", " x "])),
                self._maybe(r.choice([0.0, -1.5, 2.25, 3.0, 1e3])),
                self._maybe(Decimal(r.randint(-500, 500)) / 100),
                self._maybe(dt.date(1994, 1, 1) + dt.timedelta(days=r.randint(-40, 800))),
                self._maybe(r.random() < 0.5),
            )
        if table == "u":
            return self._maybe(small), self._maybe(r.randint(0, 4)), self._maybe(r.choice(["a", "ab", "fig", "kiwi"]))
        if table == "v":
            return small, r.randint(0, 3)
        if table == "e":
            return r.randint(0, 7), r.randint(0, 7), r.randint(1, 5)
        return self._maybe(small), self._maybe(small)

    def batches(self, count: int) -> Iterator[dict[str, tuple[list[Any], list[Any]]]]:
        """(rows to delete, rows to insert) by table; a few, then many, then deletes down to nothing."""
        for step in range(count):
            changes: dict[str, tuple[list[Any], list[Any]]] = {}
            last = step == count - 1
            for table, rows in self.rows.items():
                gone = [] if table == "e" and not last else self.random.sample(rows, len(rows) // 3)
                gone = list(rows) if last and table != "t" else gone
                amount = 0 if last or (table == "z" and step < 2) else {"t": 12, "e": 5}.get(table, 7)
                new = [self._row(table) for _ in range(amount)]
                new += [self.random.choice(new)] * 2 if new else []
                for row in gone:
                    rows.remove(row)
                rows.extend(new)
                changes[table] = (gone, new)
            yield changes


class Oracle:
    """DuckDB with the same tables."""

    def __init__(self) -> None:
        self.db = duckdb.connect()
        self.db.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'; SET threads = 1")
        for name, columns in SCHEMA.items():
            self.db.execute(f"CREATE TABLE {name} ({columns})")

    def load(self, rows: dict[str, list[tuple[Any, ...]]]) -> None:
        for name, values in rows.items():
            self.db.execute(f"DELETE FROM {name}")
            if values:
                marks = ", ".join("?" * len(values[0]))
                self.db.executemany(f"INSERT INTO {name} VALUES ({marks})", values)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        return self.db.execute(text).fetchall()


def session(shards: int = 0, db: ev.Session | None = None) -> ev.Session:
    """A session (this one, if given) with the tables; `shards`: on so many, in this process."""
    if db is None:
        db = local_shards(shards=shards) if shards else ev.connect()
    for name, columns in SCHEMA.items():
        db.sql(f"CREATE TABLE {name} ({columns})")
    return db


def differences(
    db: ev.Session, queries: list[Block], seed: int, batches: int, install_after: int = 0
) -> dict[str, str]:
    """What goes wrong with each query when all are views of one session (made after so many batches) and share what
    they can; closes the session.
    """
    oracle = Oracle()
    found: dict[str, str] = {}
    changes = Changes(seed)
    for step, batch in enumerate(changes.batches(batches)):
        if step == install_after:
            found |= _installed(db, queries)
        apply(db, batch)
        if step < install_after:
            continue
        oracle.load(changes.rows)
        for block in queries:
            if block.name not in found:
                try:
                    problem = difference(db[block.name].rows(), oracle.rows(block.theirs))
                except Exception as error:
                    problem = f"{type(error).__name__}: {error}"
                if problem:
                    found[block.name] = f"after batch {step + 1}: {problem}"
    db.close()
    return found


def _installed(db: ev.Session, queries: list[Block]) -> dict[str, str]:
    """Make views of queries; gives why some could not be."""
    found: dict[str, str] = {}
    for block in queries:
        try:
            db.sql(f"CREATE VIEW {block.name} AS {block.ours}")
        except Exception as error:
            found[block.name] = f"cannot be installed: {type(error).__name__}: {error}"
    return found


def apply(db: ev.Session, changes: dict[str, tuple[list[Any], list[Any]]]) -> None:
    """One batch as one transaction."""
    with db.transaction():
        for name, (gone, new) in changes.items():
            table = db[name]
            assert isinstance(table, ev.Table)
            if gone:
                table.delete(gone)
            if new:
                table.insert(new)


def bag(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Rows as a multiset, with numbers of all kinds comparable."""
    return Counter(tuple(_plain(v) for v in row) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return tuple((k, _plain(v)) for k, v in value.items())
    if isinstance(value, ev.Interval):
        return value.timedelta() if not value.months else str(value)
    if isinstance(value, bool) or value is None or isinstance(value, (str, bytes)):
        return value
    if isinstance(value, (float, int, Decimal)):
        number = float(value)
        return number if math.isnan(number) or math.isinf(number) or number == 0 else float(f"{number:.9g}")
    return value


def difference(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> str:
    """What differs, for people; empty if nothing does."""
    a, b = bag(ours), bag(theirs)
    if a == b:
        return ""
    return f"only here: {dict(a - b)}; only in DuckDB: {dict(b - a)}"
