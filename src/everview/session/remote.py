"""Rows that are encoded where they are: the session's part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everview.runtime.base import RemoteRows, RemoteTarget
from everview.session.clock.lifetimes import RowTTL

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table


def encode_remote(core: Core, table: Table, rows: Any, fitting: Any, place: str, how: str) -> RemoteRows | None:
    """Encode a source's rows where they are; None if they must be brought here.

    Some clock followers need to see every row; so does a batch, which may change the table further.
    """
    followers = core.clock.agenda.of(table)
    if core.transactions.queued is not None or not all(f.takes(how) for f in followers):
        return None
    until = next((f.until for f in followers if isinstance(f, RowTTL)), None)
    settle = core.clock.settle if followers else lambda: 0
    return core.runtime.encode_remote(RemoteTarget(table, fitting, place, how, until, settle), rows)
