"""Attributes: facts (entity, attribute, value), following goebel-2019 §5 and §14.6.

An attribute is a table of two columns, `e` and `v`, under the attribute's name; SQL and collections see it as that.
Conversely, a table with a key shows each of its columns as an attribute `table/column`. The effect of asserting a fact
twice is the attribute's *semantics*:

    distinct    a fact holds or does not: asserting it again changes nothing, retracting it once ends it (the default)
    one         an entity has one value: a new one replaces the old
    raw         a bag: facts are counted

An attribute with *sources* records who asserted what, in the table `attribute/said`, and is a view of that: each source
asserts and retracts its own facts and cannot retract another's. Across sources the semantics mean

    distinct    a fact holds while any source asserts it
    one         an entity has the last asserted value; if its source retracts it, the one before that
    raw         the bags add up

and removing a source removes its facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from everview.errors import InputError, did_you_mean
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.session.core import core_of
from everview.session.table import Table
from everview.session.view import View

if TYPE_CHECKING:
    from everview.session.session import Session

KEYS: dict[str, Any] = {"distinct": ("e", "v"), "one": "e", "raw": None}

SAID = "/said"
"""Suffix of the table that holds an attribute's facts by source."""

SAID_KEYS: dict[str, Any] = {"distinct": ("source", "e", "v"), "one": ("source", "e"), "raw": None}

_FORMS = 'give (entity, attribute, value), ("retract", entity, attribute, value) or {"id": entity, attribute: value}'


def attribute(session: Session, name: str, value: Any, entity: Any, semantics: str, sources: bool) -> Table | View:
    """Implements `Session.attribute`."""
    if not isinstance(semantics, str) or semantics not in KEYS:
        raise InputError("E_RANGE", f"there are no {semantics!r} semantics", did_you_mean(semantics, KEYS))
    name = _spelled(name)
    if not sources:
        return session.table(name, {"e": entity, "v": value}, key=KEYS[semantics])
    order = {"said": int} if semantics == "one" else {}
    schema = {"source": str, "e": entity, "v": value, **order}
    said = session.table(f"{name}{SAID}", schema, key=SAID_KEYS[semantics])
    return session.view(name, _merged(said, semantics))


def _merged(said: Table, semantics: str) -> Collection:
    """The union of all sources."""
    if semantics == "one":
        return said.group_by("e").top(1, by=said.said.desc()).select("e", "v")
    facts = said.select("e", "v")
    return facts.distinct() if semantics == "distinct" else facts


def transact(session: Session, changes: Iterable[Any], source: str | None) -> None:
    """Implements `Session.transact`."""
    if source is not None:
        _check_source(source)
    if not isinstance(changes, Iterable) or isinstance(changes, (str, bytes, Mapping)):
        raise InputError("E_FACT", f"{changes!r} is not a list of facts", _FORMS)
    steps = [step for change in changes for step in _steps(change)]
    tables = [_attribute(session, name, source) for _, _, name, _ in steps]
    with session.transaction():
        for (sign, *fact, value), table in zip(steps, tables, strict=True):
            row = _row(session, table, fact[0], value, source)
            if sign > 0:
                (table.upsert if relation_of(table).key else table.insert)([row])
            else:
                _retract(session, table, row)


def _check_source(source: Any) -> None:
    if not isinstance(source, str):
        raise InputError("E_TYPE", f"{source!r} is not the name of a source", "give a string")


def retract_source(session: Session, source: str) -> None:
    """Implements `Session.retract_source`."""
    _check_source(source)
    core = core_of(session)
    code = core.interner.text_id(source)
    with session.transaction():
        for name, table in core.catalog.tables.items():
            if name.endswith(SAID) and relation_of(table).columns[0].name == "source":
                gone = [row for row in core.transactions.present(table, None) if row[0] == code]
                if gone:
                    core.transactions.stage(table, gone, -1)


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
    raise InputError("E_FACT", f"{change!r} is not a fact", _FORMS)


def _spelled(name: Any) -> str:
    if not isinstance(name, str):
        raise InputError("E_FACT", f"{name!r} is not an attribute", _FORMS)
    return name.removeprefix(":")


def _attribute(session: Session, name: str, source: str | None) -> Table:
    """The table of an attribute's facts."""
    tables = core_of(session).catalog.tables
    said = tables.get(f"{name}{SAID}")
    if said is not None:
        return said
    known = {n: t for n, t in tables.items() if [c.name for c in relation_of(t).columns] == ["e", "v"]}
    if name not in known:
        names = [*known, *(n.removesuffix(SAID) for n in tables if n.endswith(SAID))]
        hint = did_you_mean(name, names) if names else f'declare it first: db.attribute("{name}", str)'
        raise InputError("E_ATTRIBUTE", f"there is no attribute {name!r}", hint)
    if source is not None:
        raise InputError(
            "E_SOURCE",
            f"attribute {name!r} does not remember who said what",
            f'declare it with sources: db.attribute("{name}", ..., sources=True)',
        )
    return known[name]


def _row(session: Session, table: Table, entity: Any, value: Any, source: str | None) -> tuple[Any, ...]:
    """A fact as a row of its table; an increasing number records the order."""
    width = len(relation_of(table).columns)
    if width == 2:
        return entity, value
    row = (source or "", entity, value)
    return row if width == 3 else (*row, _moment(session))


def _moment(session: Session) -> int:
    """An increasing number, also within one transaction and after a restart."""
    transactions = core_of(session).transactions
    assert transactions.staged is not None
    time = session.time + 1 + len(transactions.queued or ())
    return (time << 24) + len(transactions.staged)


def _retract(session: Session, table: Table, fact: tuple[Any, ...]) -> None:
    """Retract a fact; an absent one is ignored, except that a bag cannot go below zero."""
    if not relation_of(table).key:
        table.delete([fact])
        return
    row = relation_of(table).codec.encode_row(fact)
    core = core_of(session)
    for there in core.transactions.present(table, [tuple(row[c] for c in relation_of(table).key)]):
        if there[:3] == row[:3]:  # all but when it was said
            core.transactions.stage(table, [there], -1)
