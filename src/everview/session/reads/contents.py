"""What tables and views have in common: materialised rows that can be read and displayed.

A query is not materialised (`everview.language.hints` has the error); a table's or view's contents are complete at
`db.time`.

    len(v), v.count()       how many            v.rows(), for row in v       all of them, as tuples
    v.head(5)               some of them        v.to_arrow(), to_pandas()    all of them, as columns
    print(v), v.show(50)    to look at          v                            in a notebook: a table

Bags are unordered: `head` and `show` return rows in the order of the underlying index, which is stable while nothing
changes.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from everview.errors import EverviewError
from everview.language.collection import Collection
from everview.session.reads import rendering
from everview.session.reads.snapshot import Snapshot, check_rows

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from everview.session.core import Core
    from everview.session.relations import KeptRelation

Row = tuple[Any, ...]


class Contents(Collection):
    """A collection with materialised rows: a `Table` or a `View`."""

    _core: Core
    _relation: KeptRelation

    def _now(self) -> Snapshot:
        """The current contents."""
        raise NotImplementedError

    def rows(self) -> list[Row]:
        """All rows, repeated by multiplicity, in no particular order, complete at `db.time`."""
        return self._now().rows()

    def head(self, n: int = 5) -> list[Row]:
        """Some rows, at most n, in unspecified order; see `top` for the first by a column.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> t.insert([(3,), (1,), (2,)])
        >>> t.head(2)
        [(1,), (2,)]
        """
        return self._now().head(n)

    def count(self) -> int:
        """The number of rows, counted with multiplicity; the same as `len`. For a count that is kept up to date, use
        `db.view("n", c.agg(n=ev.count()))`.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> t.insert([(1,), (1,)])
        >>> t.count(), len(t)
        (2, 2)
        """
        return len(self)

    def show(self, n: int = rendering.DEFAULT_ROWS) -> None:
        """Print the name, columns and at most n rows; `print(v)` does so with 20.

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
        """The Arrow PyCapsule interface, which lets `polars.DataFrame(v)`, `duckdb.sql("FROM v")` and others read the
        rows directly."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self._now())

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows())

    # display

    def __str__(self) -> str:
        return self._text(rendering.DEFAULT_ROWS)

    def _text(self, n: int) -> str:
        """Name, columns and rows as text; a view that cannot be read shows the reason."""
        try:
            now = self._now()
            total = len(now)
            first = f"{self._relation.kind} {self._relation.label}: {rendering.counted(total)} at time {now.time}"
            return f"{first}\n{now.text(n)}"
        except EverviewError as error:
            columns = ", ".join(f"{c.name} {c.type!r}" for c in self._relation.columns)
            return f"{self._relation.kind} {self._relation.label} ({columns})\n{error}"

    def _repr_html_(self) -> str:
        try:
            name = html.escape(f"{self._relation.kind} {self._relation.label}")
            return f"<p><b>{name}</b></p>{self._now()._repr_html_()}"
        except EverviewError as error:  # more readable in a notebook than a traceback
            return f"<p>{html.escape(str(error))}</p>"
