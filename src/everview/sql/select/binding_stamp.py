"""What binding a statement depends on, besides its text and the current user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everview.sql.statements import Statements


def binding_stamp(sql: Statements) -> tuple[Any, ...]:
    """A value that changes whenever the same text, of the same user, may be bound to something else: definitions,
    rights, and settings of the connection.
    """
    core = sql.core
    definitions = core.catalog.meaning, core.catalog.rearranged, core.access.version
    return *definitions, sql.role, core.zone, core.search_path, sql.dialect, sql.plan, sql.way
