"""A relation of one row, for what has a value without any rows: `SELECT 1`, and `count(*)` of nothing.

Plans have no constant node; this is a base table with one row, made when a session first needs it. The row enters
in the step that installs the table, so that no time passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.expr.resolve import Column
from everview.plan import nodes as plan
from everview.table import Table
from everview.types import INT

if TYPE_CHECKING:
    from everview.session import Session

NAME = "everview.one_row"
"""The table's name; DML and DROP refuse it."""


def one_row(session: Session) -> plan.Node:
    """A plan that always has one row, of one column.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> one_row(db).types, db.time, db[NAME].rows()
    ((int,), 0, [(1,)])
    """
    found = session._tables.get(NAME)
    if found is None:
        with session._lock:
            session._catch_up()
            node = plan.Table(session._node_ids, (INT,), (0,))
            session._node_ids += 1
            found = Table(session, NAME, [Column("one", INT)], node, (0,))
            found._arrangement = session._add_table(node, (0,), NAME, session._history, [(1,)])
            session._tables[NAME] = found
    return found._node
