"""Tables and views of a server, in a client: the values of `db["name"]`.

They are collections, from which queries are built as usual; `db.view` sends the plan. Their columns are as of the
request: after an ALTER, request the table again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everview.client.results import ClientResult, ClientWhyNot, Row, derivations, expression
from everview.errors import InputError
from everview.expr.resolve import Column
from everview.language.collection import Collection
from everview.plan import nodes as plan
from everview.why.probability import Probability
from everview.wire.plans import type_of
from everview.wire.values import plain, rows_of, rows_written, value_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from everview.client.session import ClientSession
    from everview.why.derivation import Derivation, Witnesses
    from everview.why.expression import Expression

SHOWN = 20
"""Rows that are printed."""


class Contents:
    """Rows of a table or view, now or at a time."""

    _session: ClientSession
    _name: str

    def _at(self) -> dict[str, Any]:
        return {"name": self._name}

    def _ask(self, what: str, **given: Any) -> dict[str, Any]:
        """A request about this relation."""
        return self._session._call(what, {**self._at(), **given})[0]

    def _read(self, *, arrow: bool = False) -> tuple[dict[str, Any], list[pa.Table]]:
        return self._session._call("rows", {**self._at(), "arrow": arrow})

    def rows(self) -> list[Row]:
        """All rows, repeated by multiplicity, in no particular order."""
        return ClientResult(*self._read()).rows()

    def counts(self) -> dict[Row, int]:
        """Each distinct row with its multiplicity."""
        head = self._ask("counts")
        return dict(zip(rows_of(head["rows"]), head["counts"], strict=True))

    def head(self, n: int = 5) -> list[Row]:
        """Some rows, at most n."""
        if not isinstance(n, int) or isinstance(n, bool) or n < 0:
            raise InputError("E_TYPE", f"head({n!r})", "give a number of rows")
        return self.rows()[:n]

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        return self._read(arrow=True)[1][0]

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars frame."""
        return ClientResult(*self._read()).to_polars()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self._ask("count")["count"])

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows())


class ClientSnapshot(Contents):
    """Contents at an earlier time, as long as the server's history reaches back."""

    def __init__(self, session: ClientSession, name: str, time: int) -> None:
        self._session = session
        self._name = name
        self.time = time
        len(self)  # an unreadable time is reported at once

    def _at(self) -> dict[str, Any]:
        return {"name": self._name, "at": self.time}


class ClientRelation(Contents, Collection):
    """The base class of tables and views."""

    _kind = "view"

    def __init__(self, session: ClientSession, described: dict[str, Any]) -> None:
        columns = [Column(name, type_of(kind)) for name, kind in described["columns"]]
        key = tuple(described["key"])
        number = session._number(described["name"], columns)
        node = plan.Table(number, tuple(c.type for c in columns), key)
        Collection.__init__(self, node, columns, session, label=described["name"])
        self._session = session
        self._name = described["name"]
        self._key = key

    def count(self) -> int:
        """The number of rows."""
        return len(self)

    def show(self, n: int = SHOWN) -> None:
        """Print name, columns and some rows."""
        print(self._text(n))

    def __str__(self) -> str:
        return self._text(SHOWN)

    def _text(self, n: int) -> str:
        return str(self._ask("text", rows=n)["text"])

    def as_of(self, time: int) -> ClientSnapshot:
        """The contents at an earlier time."""
        return ClientSnapshot(self._session, self._name, time)

    def lookup(self, key: Any) -> list[Row]:
        """Rows with this key: of the `index_by` columns, the declared key, or the first column(s)."""
        return rows_of(self._ask("lookup", key=plain(key))["rows"])

    def changes(self, since: int) -> list[tuple[Row, int, int]]:
        """[(row, time, diff), ...] for all times after `since`, in time order."""
        head = self._ask("changes", since=since)
        return list(zip(rows_of(head["rows"]), head["times"], head["diffs"], strict=True))

    def subscribe(
        self, function: Callable[[Any], Any] | None = None, *, snapshot: bool = True, granularity: float = 0.0
    ) -> Any:
        """Call a function with the changes of each complete time, after the current contents (unless `snapshot=False`),
        in a thread of the client. Also a decorator. Changes within `granularity` seconds are consolidated. Returns a
        function that unsubscribes. A broken connection is re-established without losing changes.
        """
        if function is None:
            return lambda f: self.subscribe(f, snapshot=snapshot, granularity=granularity)
        if not callable(function):
            raise InputError("E_TYPE", f"{function!r} cannot be called", "subscribe a function of a Batch")
        return self._session._follow({"view": self._name}, function, snapshot, granularity)

    def stats(self) -> dict[str, Any]:
        """Rows, time, and the arrangements in use."""
        found: dict[str, Any] = self._session._value("stats", {"name": self._name}, "stats")
        return found


class ClientTable(ClientRelation):
    """A base table of a server."""

    _kind = "table"

    def insert(self, rows: Any) -> None:
        """Add rows: tuples or dicts in a list, an Arrow table, a pandas or polars frame, or columns in a dict."""
        self._session._change("insert", self._name, rows)

    def delete(self, rows: Any = None, *, keys: Any = None) -> None:
        """Delete rows, each as often as it is given; or those with these `keys`."""
        if (rows is None) == (keys is None):
            raise InputError("E_TYPE", "delete takes rows, or keys", "write delete(rows) or delete(keys=[...])")
        if keys is None:
            self._session._change("delete", self._name, rows)
        else:
            self._session._stage({"how": "delete keys", "name": self._name, "keys": [plain(k) for k in keys]})

    def upsert(self, rows: Any) -> None:
        """Insert rows into a table with a key, replacing those with the same keys."""
        if not self._key:
            raise InputError("E_NO_KEY", f"table {self._name!r} has no key", 'declare one: db.table(..., key="column")')
        self._session._change("upsert", self._name, rows)

    def clear(self) -> None:
        """Delete all rows."""
        self._session._stage({"how": "clear", "name": self._name})

    def drop(self, *, cascade: bool = False) -> None:
        """Remove the table; views that read it must be dropped first, or with it."""
        self._ask("drop", cascade=cascade)


class ClientView(ClientRelation):
    """A view of a server."""

    def drop(self) -> None:
        """Drop the view."""
        self._ask("drop")

    def errors(self) -> list[tuple[str, int]]:
        """[(error, number of rows), ...] now; empty when all is well."""
        head = self._ask("errors")
        return [(text, n) for text, n in head["errors"]]

    def explain(self) -> str:
        """The plan, and the state maintained for it."""
        return str(self._ask("explain")["text"])

    def why(self, row: Any, *, all: int | None = None, time: int | None = None) -> Derivation | Witnesses:
        """Why a row is here; `all=k` returns up to k explanations."""
        return derivations(self._ask("why", row=plain(row), all=all, at=time), all is not None)

    def why_not(self, row: Any, *, time: int | None = None) -> ClientWhyNot:
        """Why a row is not here."""
        return ClientWhyNot(self._ask("why_not", row=plain(row), at=time))

    def trust(self, row: Any, *, without: Any) -> bool:
        """Whether a row would still be here without some rows of tables: `without` names tables, or maps tables to
        rows. Functions cannot be sent: a server runs no Python of its clients.
        """
        return bool(self._ask("trust", row=plain(row), without=plain(without))["holds"])

    def probability(self, row: Any, chances: dict[str, Any], *, nodes: int = 100_000) -> Probability:
        """The probability of a row if rows of tables may be missing: by table, as one number or by row."""
        found = self._ask("probability", row=plain(row), chances=plain(chances), nodes=nodes)
        return Probability(found["lower"], found["upper"])

    def provenance(self, row: Any) -> Expression:
        """The expression of a row, in a view created with `provenance=`; a copy, which needs no server."""
        return expression(self._ask("provenance", row=plain(row if isinstance(row, tuple | list) else (row,))))

    def provenances(self) -> dict[Row, Expression]:
        """All rows of a view created with `provenance=`, without that column, and their expressions."""
        found = self._ask("provenance", row=None)["expressions"]
        return {value_of(row): expression(said) for row, said in found}


def sent_rows(rows: Any, tables: list[pa.Table]) -> Any:
    """Rows for the server: the number of an attached table, or the rows as JSON."""
    table = arrow_of(rows)
    if table is None:
        return rows_written(rows)
    tables.append(table)
    return len(tables) - 1


def arrow_of(rows: Any) -> pa.Table | None:
    """A table of any library as an Arrow table; None if rows are not a table."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    library = type(rows).__module__.partition(".")[0]
    if library == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False)
    if library != "numpy" and hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if isinstance(rows, dict):
        try:
            return pa.table({name: list(values) for name, values in rows.items()})
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(
                "E_TYPE", f"these are not columns: {error}", "give a list for each, equally long"
            ) from None
    return None
