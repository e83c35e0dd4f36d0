"""Catalog entries: each operation that shaped a session's dataflow, in serialisable form.

A plan is stored with the Python functions it uses, each of them once, with the first plan that uses it.
`everview.session.names.entry_compaction` reduces a log to what still exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from everview.codes.limits import written
from everview.codes.type_declarations import data_type
from everview.errors import StoreError
from everview.plan import nodes as plan
from everview.plan.multiway import Choice
from everview.plan.serialisation import Functions, freeze, thaw
from everview.session.names.constraint_rules import NO_RULE, Rule
from everview.store import records
from everview.types import DataType

Columns = tuple[tuple[str, DataType], ...]


@dataclass(frozen=True)
class TableMade:
    """A base table; `id` is that of its plan node, `label` the name of its operator if it differs from the table's."""

    name: str
    columns: Columns
    key: tuple[int, ...]
    id: int
    label: str = ""


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
    why: str = ""  # the plan was chosen automatically
    calls: tuple[str, ...] = ()  # functions written in SQL that it calls
    rules: tuple[str, ...] = ()  # rules that parts of the plan come from: a digest, a space, the text
    text: tuple[str, ...] = ()  # of a CREATE VIEW (`Relation.text`)


@dataclass(frozen=True)
class PlanChanged:
    """A join is built by another plan. `node` is a union of two: the join as declared, and as built."""

    node: plan.Union
    why: str = ""
    time: int = 0

    @property
    def join(self) -> plan.Node:
        """The join as declared."""
        return self.node.inputs[0]

    @property
    def target(self) -> plan.Node:
        """The join as built."""
        return self.node.inputs[1]


@dataclass(frozen=True)
class ConstraintMade(ViewMade):
    """A constraint of a table: the hidden view that enforces it (`everview.session.changes.constraints`)."""

    rule: Rule = NO_RULE


@dataclass(frozen=True)
class FollowerMade:
    """A clock follower (`everview.session.clock`): its kind, its table, and the clock's reading `now`. `node` projects
    the table to the expressions it needs; `id` is that of its own table, or -1.
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
        """Another table or view in which it looks up rows, if any."""
        return str(self.sides[0]) if self.kind == "Lookup" else ""

    @property
    def owner(self) -> bool:
        """Whether it belongs to the table rather than to views."""
        return self.kind in ("Expiring", "Aging table", "Watermark")


@dataclass(frozen=True)
class Collected:
    """Objects that no view reads any more were removed."""


@dataclass(frozen=True)
class IndexMade:
    """A further arrangement of a view (or table), for look-ups by other columns; `name` is optional."""

    view: str
    keys: tuple[int, ...]
    name: str = ""


@dataclass(frozen=True)
class IndexDropped:
    """A named index was dropped."""

    name: str


@dataclass(frozen=True)
class TableAltered:
    """A table got other columns or another key. `node`, over the old table, computes its rows; `id` and `label` are
    those of the new table's node and operator. The views that read it are rebuilt over it, except those that are `gone`
    with a column.
    """

    name: str
    node: plan.Node
    columns: Columns
    key: tuple[int, ...]
    id: int
    label: str
    gone: tuple[str, ...] = ()


@dataclass(frozen=True)
class Renamed:
    """A table or view was renamed."""

    old: str
    new: str


@dataclass(frozen=True)
class ColumnsRenamed:
    """The columns of a table or view were renamed."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Commented:
    """A comment on a table, view or column; an empty text removes it."""

    name: str
    column: str
    text: str


@dataclass(frozen=True)
class DefaultSet(Commented):
    """The rule for a column's missing values, as `text` (`everview.session.changes.defaults`); an empty text removes
    it.
    """


@dataclass(frozen=True)
class SequenceMade:
    """A sequence of numbers; `owner` is the column ("table", "column") that it belongs to, if any."""

    name: str
    start: int
    step: int
    least: int
    most: int
    cycle: bool = False
    owner: tuple[str, ...] = ()


@dataclass(frozen=True)
class SequenceDropped:
    """A sequence was dropped."""

    name: str


@dataclass(frozen=True)
class TypeMade:
    """A named type was created; `rules`: a domain, as it was written."""

    name: str
    type: DataType
    rules: str = ""


@dataclass(frozen=True)
class TypeDropped:
    """A named type was dropped."""

    name: str


@dataclass(frozen=True)
class TableDropped:
    """A table was dropped with the views that read it."""

    name: str


@dataclass(frozen=True)
class ViewDropped:
    """A view was dropped."""

    name: str


@dataclass(frozen=True)
class FunctionMade:
    """A function written in SQL: (name, type) of its parameters, its return type, its body and the dialect."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    returns: str
    body: str
    strict: bool = False
    dialect: str = "postgres"
    defaults: tuple[str, ...] = ()
    """the expressions of the last parameters, if they are left out"""
    rows: bool = False
    """whether it gives rows"""
    columns: tuple[tuple[str, str], ...] = ()
    """(name, type) of the rows; one without a name for values; none if they are those of the table `returns`"""


@dataclass(frozen=True)
class FunctionDropped:
    """A function written in SQL was dropped."""

    name: str


@dataclass(frozen=True)
class AccessSet:
    """A role, or the rights on an object (`session.rights.roles`), as JSON; an empty text removes it."""

    kind: str
    name: str
    value: str


Entry = (
    AccessSet
    | FunctionMade
    | FunctionDropped
    | TypeMade
    | TypeDropped
    | TableMade
    | TableAltered
    | Renamed
    | ColumnsRenamed
    | Commented
    | FollowerMade
    | ViewMade
    | PlanChanged
    | ConstraintMade
    | DefaultSet
    | SequenceMade
    | SequenceDropped
    | IndexMade
    | IndexDropped
    | TableDropped
    | ViewDropped
    | Collected
)

_KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(Entry)}


def encode(entry: Entry, functions: Functions) -> bytes:
    """Serialise an entry as a record: JSON, plus its plan and the functions that no earlier plan uses.

    >>> made = TableMade("t", (("x", data_type(int | None)),), (), 0)
    >>> decode(encode(made, Functions()), "here", Functions()) == made
    True
    """
    header: dict[str, Any] = {"entry": type(entry).__name__, **vars(entry)}
    if isinstance(entry, ConstraintMade):
        header["rule"] = entry.rule.written()
    parts: list[bytes] = []
    if isinstance(entry, TypeMade):
        header["type"] = repr(entry.type)
    if isinstance(entry, (TableMade, TableAltered)):
        header["columns"] = [[name, written(declared)] for name, declared in entry.columns]
    if isinstance(entry, (ViewMade, PlanChanged, FollowerMade, TableAltered)):
        parts.append(freeze(entry.node, functions))
        new = list(functions.unwritten())
        header["node"] = [name for name, _ in new]
        parts += [data for _, data in new]
    return records.encode(header, parts)


def decode(data: Any, where: str, functions: Functions) -> Entry:
    """Parse an entry's record; new functions are added to `functions`."""
    header, parts = records.decode(data, where)
    name = header.pop("entry")
    if name not in _KINDS:
        raise StoreError("E_VERSION", f"{where} was written by another version of Everview: {name}", "open it there")
    kind = _KINDS[name]
    known = {k: tuple(v) if isinstance(v, list) else v for k, v in header.items()}
    if kind is FunctionMade:
        for part in ("parameters", "columns"):
            known[part] = tuple((name, declared) for name, declared in known.get(part, ()))
    if kind is TypeMade:
        known["type"] = data_type(known["type"])
    if kind in (TableMade, TableAltered):
        known["columns"] = tuple((name, data_type(declared)) for name, declared in known["columns"])
    if kind is ConstraintMade:
        known["rule"] = Rule.read(known["rule"])
    if kind in (ViewMade, ConstraintMade, PlanChanged, FollowerMade, TableAltered):
        for used, function in zip(known["node"], parts[1:], strict=True):
            functions.read(used, bytes(function))
        known["node"] = thaw(bytes(parts[0]), functions)
    entry: Entry = kind(**known)
    return entry
