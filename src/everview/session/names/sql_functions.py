"""Functions written in SQL: stored as text, with the views and functions that call them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from everview.language.relation import relation_of
from everview.session.changes.turns import reads
from everview.session.names.entries import FunctionDropped, FunctionMade

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.names.definitions import Definitions


class SqlFunctions:
    """The functions of CREATE FUNCTION ... LANGUAGE SQL."""

    def __init__(self, core: Core, definitions: Definitions) -> None:
        self._core = core
        self._catalog = core.catalog
        self._definitions = definitions

    @reads
    def add(self, made: FunctionMade) -> None:
        """Create a function written in SQL, or replace one: it stays its owner's, and granted."""
        self._core.transactions.refuse_supposed("functions cannot be made")
        self._core.runtime.backing.check_writable(f"function {made.name!r} cannot be made")
        if made.name in self._catalog.sql_functions:
            self._core.access.may_own("function", made.name)
        self._core.access.may_create(made.name)
        rights = self._core.access.rights.get(("function", made.name))
        if made.name in self._catalog.sql_functions:
            self._forget(made.name)
        self._catalog.note(made, then=lambda: self._catalog.sql_functions.update({made.name: made}))
        if rights is None:
            self._core.access.made("function", made.name)
        else:
            self._core.access.set_rights("function", made.name, rights)

    @reads
    def drop(self, name: str) -> None:
        """Drop a function and the views that call it."""
        self._core.transactions.refuse_supposed("functions cannot be dropped")
        self._core.runtime.backing.check_writable(f"function {name!r} cannot be dropped")
        self._core.access.may_own("function", name)
        self._core.access.refuse_read(f"{name}()")
        self._core.access.may_take_along(u for u in self.users_of(name) if u in self._catalog.views)
        for user in self.users_of(name):
            if user in self._catalog.views:
                self._definitions.views.drop(self._catalog.views[user])
            elif user in self._catalog.sql_functions:
                self.drop(user)
        if name in self._catalog.sql_functions:
            self._forget(name)

    def _forget(self, name: str) -> None:
        functions = self._catalog.sql_functions
        self._catalog.note(FunctionDropped(name), then=lambda: functions.__delitem__(name))
        self._core.access.forget("function", name)

    def users_of(self, function: str) -> list[str]:
        """Views that call a function written in SQL, and functions whose text contains its name."""
        views = [
            name
            for name, view in self._catalog.views.items()
            if function in relation_of(relation_of(view).source).calls
        ]
        word = re.compile(rf"\b{re.escape(function)}\s*\(", re.IGNORECASE)
        others = [f.name for f in self._catalog.sql_functions.values() if f.name != function and word.search(f.body)]
        return sorted([*views, *others])
