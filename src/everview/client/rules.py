"""Rules of a Datalog program on a server: the result of `db.datalog`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from everview.client.relations import ClientView
from everview.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from everview.client.session import ClientSession


class ClientRules:
    """Rules on a server: `rules.reach` is the view."""

    def __init__(self, session: ClientSession, names: list[str], text: str) -> None:
        self._session = session
        self._names = names
        self._text_of = text

    def __getattr__(self, name: str) -> ClientView:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> ClientView:
        if name not in self._names:
            raise InputError("E_RELATION", f"there is no relation {name}", did_you_mean(name, self._names))
        found: ClientView = self._session[name]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __repr__(self) -> str:
        return self._text_of

    def drop(self) -> None:
        """Drop the views."""
        for name in reversed(self._names):
            self._session[name].drop()
