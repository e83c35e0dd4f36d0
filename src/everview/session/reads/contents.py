"""What tables and views have in common: rows that are there, to be read and looked at.

A query has none (`everview.language.mistakes` says so); a table's and a view's are complete at `db.time`.

    len(v), v.count()       how many            v.rows(), for row in v       all of them, as tuples
    v.head(5)               some of them        v.to_arrow(), to_pandas()    all of them, as columns
    print(v), v.show(50)    to look at          v                            in a notebook: a table

Bags have no order: `head` and `show` give rows in the order of the index that holds them, the same each time as long as
nothing changes.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from everview.errors import EverviewError
from everview.language.collection import Collection
from everview.session.reads import shown
from everview.session.reads.snapshot import Snapshot, check_rows

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from everview.session.core import Core
    from everview.session.relations import KeptRelation

Row = tuple[Any, ...]


class Contents(Collection):
    """A collection whose rows are there; a `Table` or a `View`."""

    _core: Core
    _relation: KeptRelation

    def _now(self) -> Snapshot:
        """The present contents."""
        raise NotImplementedError

    def rows(self) -> list[Row]:
        """All rows, repeated by multiplicity, in no particular order, complete at `db.time`."""
        return self._now().rows()

    def head(self, n: int = 5) -> list[Row]:
        """Some rows, at most n; which ones is not said, see `top` for the first by something.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> t.insert([(3,), (1,), (2,)])
        >>> t.head(2)
        [(1,), (2,)]
        """
        return self._now().head(n)

    def count(self) -> int:
        """How many rows there are, repeated ones as often as they are there; the same as `len`. For a count that is
        kept up to date, `db.view("n", c.agg(n=ev.count()))`.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> t.insert([(1,), (1,)])
        >>> t.count(), len(t)
        (2, 2)
        """
        return len(self)

    def show(self, n: int = shown.ROWS) -> None:
        """Print name, columns and some rows, at most n; `print(v)` does so with 20.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> fruit = db.table("fruit", {"name": str, "pieces": int})
        >>> fruit.insert([("fig", 12), ("pear", 3), ("plum", 40)])
        >>> fruit.show(2)
        table fruit: 3 rows at time 1
        name  pieces
        str      int
        ----  ------
        fig       12
        pear       3
        ... and 1 more
        """
        check_rows("show", n)
        print(self._text(n))

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        return self._now().to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        return self._now().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars frame."""
        return self._now().to_polars()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """What lets `polars.DataFrame(v)`, `duckdb.sql("FROM v")` and others take the rows as they are."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self._now())

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows())

    # looking at it

    def __str__(self) -> str:
        return self._text(shown.ROWS)

    def _text(self, n: int) -> str:
        """Name, columns and rows; a view that cannot be read says why."""
        try:
            now = self._now()
            total = len(now)
            first = f"{self._relation.kind} {self._relation.label}: {shown.counted(total)} at time {now.time}"
            return f"{first}\n{now.text(n)}"
        except EverviewError as error:
            columns = ", ".join(f"{c.name} {c.type!r}" for c in self._relation.columns)
            return f"{self._relation.kind} {self._relation.label} ({columns})\n{error}"

    def _repr_html_(self) -> str:
        try:
            name = html.escape(f"{self._relation.kind} {self._relation.label}")
            return f"<p><b>{name}</b></p>{self._now()._repr_html_()}"
        except EverviewError as error:  # a notebook shows them better than a traceback
            return f"<p>{html.escape(str(error))}</p>"
