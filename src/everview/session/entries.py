"""The entries of a catalog: each thing that made a session's dataflow what it is, in a form that can be kept.

A plan is frozen with the Python functions it uses, each of them once, with the first plan that does. `surviving` leaves
out what was dropped later, which is what a checkpoint keeps of a history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from everview.codes.declare import data_type
from everview.errors import StoreError
from everview.plan import nodes as plan
from everview.plan.frozen import Functions, freeze, thaw
from everview.plan.multiway import Choice
from everview.store import records
from everview.types import DataType

Columns = tuple[tuple[str, DataType], ...]


@dataclass(frozen=True)
class TableMade:
    """A base table; `id` is its plan node's."""

    name: str
    columns: Columns
    key: tuple[int, ...]
    id: int


@dataclass(frozen=True)
class ViewMade:
    """A view, installed when `time` was the last complete time; `history` is None for the session's."""

    name: str
    node: plan.Node
    columns: tuple[str, ...]
    index: tuple[int, ...]
    history: int | None
    time: int
    plan: Choice | None = None
    meaning: str = ""  # digest of the definition
    why: str = ""  # the plan was chosen, if nobody asked for it
    calls: tuple[str, ...] = ()  # functions written in SQL that it calls


@dataclass(frozen=True)
class FollowerMade:
    """Something that follows the clock (`everview.session.temporal`): of which kind, of which table, and when the
    clock showed `now`. `node` projects the table to the expressions it needs; `id` is that of its own table, -1 if it
    has none.
    """

    kind: str
    table: str
    node: plan.Node
    sides: tuple[Any, ...]
    size: int
    partition: tuple[int, ...]
    id: int
    now: int

    @property
    def looks_at(self) -> str:
        """Another table or view that it looks rows up in, if it does."""
        return str(self.sides[0]) if self.kind == "Lookup" else ""

    @property
    def owner(self) -> bool:
        """Whether it belongs to the table rather than to views."""
        return self.kind in ("Expiring", "Aging table", "Watermark")


@dataclass(frozen=True)
class Collected:
    """What no view read any more went."""


@dataclass(frozen=True)
class IndexMade:
    """A further arrangement of a view, for lookups by other columns."""

    view: str
    keys: tuple[int, ...]


@dataclass(frozen=True)
class TableDropped:
    """A table went, and the views that read it."""

    name: str


@dataclass(frozen=True)
class ViewDropped:
    """A view went."""

    name: str


@dataclass(frozen=True)
class FunctionMade:
    """A function written in SQL: (name, type) of its parameters, what it gives, its body and the dialect of that."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    returns: str
    body: str
    strict: bool = False
    dialect: str = "postgres"


@dataclass(frozen=True)
class FunctionDropped:
    """A function written in SQL went."""

    name: str


Entry = (
    FunctionMade
    | FunctionDropped
    | TableMade
    | FollowerMade
    | ViewMade
    | IndexMade
    | TableDropped
    | ViewDropped
    | Collected
)

_KINDS: dict[str, Any] = {
    c.__name__: c
    for c in (
        FunctionMade,
        FunctionDropped,
        TableMade,
        FollowerMade,
        ViewMade,
        IndexMade,
        TableDropped,
        ViewDropped,
        Collected,
    )
}


def encode(entry: Entry, functions: Functions) -> bytes:
    """An entry as a record: JSON, and with a plan also that, and the functions that it is the first to use.

    >>> made = TableMade("t", (("x", data_type(int | None)),), (), 0)
    >>> decode(encode(made, Functions()), "here", Functions()) == made
    True
    """
    header: dict[str, Any] = {"entry": type(entry).__name__, **vars(entry)}
    parts: list[bytes] = []
    if isinstance(entry, TableMade):
        header["columns"] = [[name, repr(declared)] for name, declared in entry.columns]
    if isinstance(entry, (ViewMade, FollowerMade)):
        parts.append(freeze(entry.node, functions))
        new = list(functions.unwritten())
        header["node"] = [name for name, _ in new]
        parts += [data for _, data in new]
    return records.encode(header, parts)


def decode(data: Any, where: str, functions: Functions) -> Entry:
    """An entry from its record; new functions are added to `functions`."""
    header, parts = records.decode(data, where)
    name = header.pop("entry")
    if name not in _KINDS:
        raise StoreError("E_VERSION", f"{where} was written by another version of Everview: {name}", "open it there")
    kind = _KINDS[name]
    known = {k: tuple(v) if isinstance(v, list) else v for k, v in header.items()}
    if kind is FunctionMade:
        known["parameters"] = tuple((name, declared) for name, declared in known["parameters"])
    if kind is TableMade:
        known["columns"] = tuple((name, data_type(declared)) for name, declared in known["columns"])
    if kind in (ViewMade, FollowerMade):
        for used, function in zip(known["node"], parts[1:], strict=True):
            functions.read(used, bytes(function))
        known["node"] = thaw(bytes(parts[0]), functions)
    entry: Entry = kind(**known)
    return entry


def surviving(entries: Iterable[tuple[Entry, bytes]]) -> list[tuple[Entry, bytes]]:
    """The entries (each with its record) without what was dropped later.

    >>> surviving([(IndexMade("w", (0,)), b""), (IndexMade("v", (1,)), b""), (ViewDropped("v"), b"")])
    [(IndexMade(view='w', keys=(0,)), b'')]
    """
    kept: list[tuple[Entry, bytes]] = []
    for entry, data in entries:
        if isinstance(entry, ViewDropped):
            kept = [e for e in kept if _view(e[0]) != entry.name]
        elif isinstance(entry, FunctionDropped):
            kept = [e for e in kept if not (isinstance(e[0], FunctionMade) and e[0].name == entry.name)]
        elif isinstance(entry, TableDropped):
            gone = _gone_with([e for e, _ in kept], entry.name)
            kept = [e for e in kept if e[0] not in gone]
        elif not isinstance(entry, Collected):
            kept.append((entry, data))
    read = {n.id for e, _ in kept if isinstance(e, ViewMade) for n in e.node.walk() if isinstance(n, plan.Table)}
    return [e for e in kept if not isinstance(e[0], FollowerMade) or e[0].owner or e[0].id in read]


def _view(entry: Entry) -> str | None:
    return entry.name if isinstance(entry, ViewMade) else entry.view if isinstance(entry, IndexMade) else None


def _gone_with(entries: list[Entry], table: str) -> set[Entry]:
    """A table's entry, and those of what follows it and of the views that read it."""
    made: set[Entry] = {e for e in entries if isinstance(e, TableMade) and e.name == table}
    made |= {e for e in entries if isinstance(e, FollowerMade) and (e.table == table or e.looks_at == table)}
    ids = {e.id for e in made if isinstance(e, (TableMade, FollowerMade))}
    views = {
        e.name
        for e in entries
        if isinstance(e, ViewMade) and any(isinstance(n, plan.Table) and n.id in ids for n in e.node.walk())
    }
    return made | {e for e in entries if _view(e) in views}
