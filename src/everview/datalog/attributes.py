"""Attributes: facts (entity, attribute, value), as goebel-2019 §5 and §14.6 want them.

An attribute is a table of two columns, `e` and `v`, under the attribute's name; SQL and collections see it as that, and
a table with a key shows each of its columns as an attribute `table/column` in return. What it means to say a fact twice
is the attribute's *semantics*:

    distinct    a fact holds or does not: asserting it again changes nothing, retracting it once ends it (the default)
    one         an entity has one value: a new one replaces the old
    raw         a bag: facts are counted
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from everview.errors import InputError, did_you_mean
from everview.table import Table

if TYPE_CHECKING:
    from everview.session import Session

KEYS: dict[str, Any] = {"distinct": ("e", "v"), "one": "e", "raw": None}

_FORMS = 'give (entity, attribute, value), ("retract", entity, attribute, value) or {"id": entity, attribute: value}'


def attribute(session: Session, name: str, value: Any, entity: Any, semantics: str) -> Table:
    """See `Session.attribute`."""
    if semantics not in KEYS:
        raise InputError("E_RANGE", f"there are no {semantics!r} semantics", did_you_mean(semantics, KEYS))
    return session.table(_spelled(name), {"e": entity, "v": value}, key=KEYS[semantics])


def transact(session: Session, changes: Iterable[Any]) -> None:
    """See `Session.transact`."""
    steps = [step for change in changes for step in _steps(change)]
    tables = [_attribute(session, name) for _, _, name, _ in steps]
    with session._lock, session.transaction():
        for (sign, entity, _, value), table in zip(steps, tables, strict=True):
            if sign > 0:
                table.insert([(entity, value)])
            else:
                _retract(session, table, entity, value)


def _steps(change: Any) -> list[tuple[int, Any, str, Any]]:
    """A change as (+1 or -1, entity, attribute, value) for each fact."""
    if isinstance(change, Mapping):
        facts = {_spelled(k): v for k, v in change.items()}
        if "id" not in facts:
            raise InputError("E_FACT", f"{change!r} does not say whose facts these are", 'add "id": entity')
        entity = facts.pop("id")
        return [(1, entity, name, value) for name, value in facts.items()]
    if isinstance(change, tuple | list):
        if len(change) == 3:
            return [(1, change[0], _spelled(change[1]), change[2])]
        signs = {"assert": 1, "add": 1, "db/add": 1, "retract": -1, "db/retract": -1}
        if len(change) == 4 and isinstance(change[0], str) and _spelled(change[0]) in signs:
            return [(signs[_spelled(change[0])], change[1], _spelled(change[2]), change[3])]
    raise InputError("E_FACT", f"{change!r} is no fact", _FORMS)


def _spelled(name: Any) -> str:
    if not isinstance(name, str):
        raise InputError("E_FACT", f"{name!r} is no attribute", _FORMS)
    return name.removeprefix(":")


def _attribute(session: Session, name: str) -> Table:
    known = {n: t for n, t in session._tables.items() if [c.name for c in t._columns] == ["e", "v"]}
    if name not in known:
        hint = did_you_mean(name, known) if known else f'declare it first: db.attribute("{name}", str)'
        raise InputError("E_ATTRIBUTE", f"there is no attribute {name!r}", hint)
    return known[name]


def _retract(session: Session, table: Table, entity: Any, value: Any) -> None:
    """End a fact; one that does not hold stays so, except that a bag cannot hold fewer than none."""
    if not table._key:
        table.delete([(entity, value)])
        return
    row = table._codec.encode_row((entity, value))
    if row in session._present(table, [tuple(row[c] for c in table._key)]):
        session._stage(table, [row], -1)
