"""Metadata that builds no operators: named types, comments, defaults, sequences, roles and rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.session.changes.turns import reads
from everview.session.names.entries import (
    AccessSet,
    Commented,
    DefaultSet,
    SequenceDropped,
    SequenceMade,
    TypeDropped,
    TypeMade,
)

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.names.definitions import Definitions

Remark = TypeMade | TypeDropped | Commented | SequenceMade | SequenceDropped | AccessSet
"""Entries that build no operators"""


class Metadata:
    """Stores and notes metadata."""

    def __init__(self, core: Core, definitions: Definitions) -> None:
        self._core = core
        self._catalog = core.catalog
        self._definitions = definitions

    @reads
    def add(self, entry: Remark) -> None:
        """Store a named type, a comment, a default, a sequence, a role, or the rights on an object."""
        if isinstance(entry, Commented):
            self._core.access.may_own("relation", entry.name)
        elif isinstance(entry, SequenceMade) and entry.owner:
            self._core.access.may_own("relation", entry.owner[0])
        elif isinstance(entry, (TypeMade, TypeDropped, SequenceMade, SequenceDropped)):
            self._core.access.may_manage("make or drop types and sequences")
        self._core.changing()
        self._core.transactions.refuse_supposed("roles, rights, types, comments and sequences are not changed")
        self._core.runtime.backing.check_writable("this cannot be said")
        if isinstance(entry, SequenceMade) and entry.name not in self._catalog.sequences:
            self._core.defaults.begin(entry.name)
        self._catalog.note(entry, then=lambda: self.keep(entry))

    def keep(self, entry: Remark) -> None:
        if isinstance(entry, AccessSet):
            self._core.access.apply(entry)
        elif isinstance(entry, TypeMade):
            if entry.rules:
                self._core.domains[entry.name] = entry.rules
            else:
                self._core.types[entry.name] = entry.type
        elif isinstance(entry, TypeDropped):
            self._core.types.pop(entry.name, None)
            self._core.domains.pop(entry.name, None)
        elif isinstance(entry, SequenceMade):
            self._catalog.sequences[entry.name] = entry
        elif isinstance(entry, SequenceDropped):
            self._catalog.sequences.pop(entry.name, None)
            self._core.access.forget("sequence", entry.name)
        else:
            remarks = self._catalog.defaults if isinstance(entry, DefaultSet) else self._catalog.comments
            remarks[entry.name, entry.column] = entry.text
            if not entry.text:
                del remarks[entry.name, entry.column]

    def forget(self, name: str) -> None:
        """Drop the comments and defaults of a table or view."""
        for remarks in (self._catalog.comments, self._catalog.defaults):
            for about in [a for a in remarks if a[0] == name]:
                del remarks[about]
