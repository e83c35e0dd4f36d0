"""The rights of an inner session, which holds relations about another one (`ev`).

Who is let in sees all of it: the relations have no owners or policies. But statements run there on behalf of somebody,
whom the outer session may keep from files and the like, and they can only read: what `ev` tells comes from the session
itself. So an inner session asks the outer one about everything that is not about its own relations.

Hazard: acting for nobody (`WHO` is None) is how the relations are filled. Statements must act for somebody, if only
for the program (`on_behalf`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from everview.session.rights.access import Access, forbidden
from everview.session.rights.principal import WHO, Principal, acting
from everview.session.rights.roles import QUOTAS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from everview.session.core import Core
    from everview.session.table import Table

PROGRAM = Principal("everview", free=True)
"""The program that the outer session belongs to."""


class InnerAccess(Access):
    """Lets everybody read, nobody change, and the outer session decide the rest."""

    def __init__(self, core: Core, outer: Core) -> None:
        super().__init__(core)
        self._outer = outer

    def is_free(self, who: Principal | None) -> bool:
        """Everything in here is visible to whoever is let in."""
        return True

    def acting(self) -> None:
        """Nobody is restricted to a part of it."""
        return None

    def may_manage(self, what: str, *, look: bool = False) -> None:
        """Files and the like are the outer session's."""
        self._outer.access.may_manage(what, look=look)

    def may_change(self, table: Table, rows: Any, diff: int) -> None:
        """Refuse every statement that changes rows."""
        raise forbidden("ev tells what the session does, so it can only be read")

    def check_rows(self, count: int) -> None:
        """Quotas are the outer session's; whoever has some may look at them all."""
        if count > len(QUOTAS):
            self._outer.access.check_rows(count)

    def made(self, kind: str, name: str, bound: Mapping[str, Any] | None = None, reads: Iterable[str] = ()) -> None:
        """Views in here belong to nobody."""


def enclosed(inner: Core, outer: Core) -> None:
    """Subject an inner session's statements to the rights of the outer one."""
    inner.access = InnerAccess(inner, outer)
    inner.may_use_files = outer.may_use_files


def on_behalf() -> AbstractContextManager[None]:
    """Act for the current user; for the program, if there is none."""
    return acting(WHO.get() or PROGRAM)
