"""The rows of constraints, defaults and sequences: what `\\d` says below the columns, and what ORMs reflect.

A foreign key is only told where the table that it refers to exists for whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from everview.server.pg.catalog.names import quoted_name
from everview.session.changes.defaults import ALWAYS, IDENTITY, IDENTITY_ALWAYS, Missing
from everview.session.names.constraint_rules import (
    CASCADE,
    CHECK,
    FOREIGN_KEY,
    NO_ACTION,
    SET_DEFAULT,
    SET_NULL,
    UNIQUE,
    Rule,
    shown,
)
from everview.session.names.entries import SequenceMade
from everview.sql.ddl import schemas

if TYPE_CHECKING:
    from everview.server.pg.catalog.contents import Contents, Numbers, RelationPicture

_ACTIONS = {NO_ACTION: "a", CASCADE: "c", SET_NULL: "n", SET_DEFAULT: "d"}

Place = dict[str, Any]
"""Where a table is, in the terms of information_schema."""


def places(names: Sequence[str], one: RelationPicture) -> list[int]:
    """The numbers of some columns."""
    return [1 + [c.name for c in one.columns].index(name) for name in names]


def array_of(numbers: Sequence[int]) -> str:
    """Numbers as an array is written.

    >>> array_of([1, 2])
    '{1,2}'
    """
    return "{" + ",".join(map(str, numbers)) + "}"


def add_key(out: Contents, one: RelationPicture, kind: str, number: int, relation: int, index: int, name: str,
            columns: Sequence[str], text: str, space: int, place: Place, **more: Any) -> None:  # fmt: skip
    """The rows of any constraint: `number` is its own, `relation` the table's, `index` that of the index behind it."""
    out.constraints[number] = text
    row = {"confrelid": 0, "confupdtype": " ", "confdeltype": " ", "confmatchtype": " ", **more}
    out.pg("pg_constraint", oid=number, conname=name, connamespace=space, contype=kind, condeferrable=0,
           condeferred=0, convalidated=1, conrelid=relation, contypid=0, conindid=index, conparentid=0, conislocal=1,
           coninhcount=0, connoinherit=int(kind != "c"), conkey=array_of(places(columns, one)), **row)  # fmt: skip
    bound = {"constraint_catalog": place["table_catalog"], "constraint_schema": one.schema, "constraint_name": name}
    words = {"p": "PRIMARY KEY", "u": "UNIQUE", "f": "FOREIGN KEY", "c": "CHECK"}[kind]
    out.info("table_constraints", constraint_type=words, is_deferrable="NO", initially_deferred="NO", enforced="YES",
             **bound, **place)  # fmt: skip
    if kind in "pu":
        out.info("constraint_table_usage", **bound, **place)
    for at, column in enumerate(columns, 1):
        if kind != "c":
            out.info("key_column_usage", column_name=column, ordinal_position=at,
                     position_in_unique_constraint=at if kind == "f" else None, **bound, **place)  # fmt: skip
        if kind != "f":
            out.info("constraint_column_usage", column_name=column, **bound, **place)


def add_rules(
    out: Contents,
    one: RelationPicture,
    oid: int,
    others: Mapping[str, RelationPicture],
    numbers: Numbers,
    space: int,
    place: Place,
) -> None:
    """The constraints of a table; `others` are the tables that exist, by name."""
    generated = {f"{one.name}_{name}_generated" for name, missing in one.defaults if missing.kind == ALWAYS}
    for rule in one.rules:
        if rule.name in generated:
            continue  # it keeps a generated column, which says so itself
        number = numbers.of("constraint", one.schema, one.name, rule.name, one.made)
        given = (out, one), (number, oid)
        if rule.kind == UNIQUE:
            add_key(*given[0], "u", *given[1], numbers.index(one, rule.name), rule.name, rule.columns,
                    f"UNIQUE ({', '.join(map(quoted_name, rule.columns))})", space, place)  # fmt: skip
        elif rule.kind == CHECK:
            add_key(*given[0], "c", *given[1], 0, rule.name, rule.columns, f"CHECK (({shown(rule.text)}))", space,
                    place, conbin=shown(rule.text))  # fmt: skip
            out.info("check_constraints", constraint_catalog=place["table_catalog"], constraint_schema=one.schema,
                     constraint_name=rule.name, check_clause=f"({shown(rule.text)})")  # fmt: skip
        elif rule.other in others:
            _foreign_key(out, one, rule, (number, oid), others[rule.other], numbers, space, place)


def _foreign_key(out: Contents, one: RelationPicture, rule: Rule, oids: tuple[int, int], other: RelationPicture,
                 numbers: Numbers, space: int, place: Place) -> None:  # fmt: skip
    keys = {tuple(other.columns[c].name for c in i.columns): i.name for i in other.indexes if i.unique}
    key = next((name for columns, name in keys.items() if {*columns} == {*rule.other_columns}), "")
    actions: dict[str, Any] = {
        "confupdtype": _ACTIONS[rule.on_update],
        "confdeltype": _ACTIONS[rule.on_delete],
        "confmatchtype": "s",
    }
    add_key(out, one, "f", *oids, numbers.index(other, key) if key else 0, rule.name, rule.columns,
            _declared(rule, other), space, place, confrelid=numbers.relation(other),
            confkey=array_of(places(rule.other_columns, other)), **actions)  # fmt: skip
    bound = {"constraint_catalog": place["table_catalog"], "constraint_schema": one.schema}
    out.info("referential_constraints", constraint_name=rule.name,
             unique_constraint_catalog=place["table_catalog"], unique_constraint_schema=other.schema,
             unique_constraint_name=key, match_option="NONE", update_rule=rule.on_update.upper(),
             delete_rule=rule.on_delete.upper(), **bound)  # fmt: skip
    for column in rule.other_columns:
        out.info("constraint_column_usage", table_catalog=place["table_catalog"], table_schema=other.schema,
                 table_name=other.name, column_name=column, constraint_name=rule.name, **bound)  # fmt: skip


def _declared(rule: Rule, other: RelationPicture) -> str:
    """A foreign key exactly as PostgreSQL writes it: SQLAlchemy reads it by a pattern."""
    here, there = (", ".join(map(quoted_name, columns)) for columns in (rule.columns, rule.other_columns))
    table = ".".join(map(quoted_name, other.label.split(".")))
    said = f"FOREIGN KEY ({here}) REFERENCES {table}({there})"
    for when, action in (("UPDATE", rule.on_update), ("DELETE", rule.on_delete)):
        said += f" ON {when} {action.upper()}" if action != NO_ACTION else ""
    return said


def trigger_tables(relations: Sequence[RelationPicture]) -> set[str]:
    """Tables for which psql asks for foreign keys, because in PostgreSQL these are triggers."""
    keys = [(r, rule) for r in relations for rule in r.rules if rule.kind == FOREIGN_KEY]
    return {r.label for r, _ in keys} | {rule.other for _, rule in keys}


def add_default(out: Contents, numbers: Numbers, oid: int, number: int, missing: Missing) -> dict[str, Any]:
    """The rows of a column's default; gives what they add to that of its attribute."""
    if missing.is_identity:
        return {"attidentity": "a" if missing.forced else "d"}
    out.pg("pg_attrdef", oid=numbers.of("default", oid, number), adrelid=oid, adnum=number, adbin=missing.text,
           adsrc=missing.text)  # fmt: skip
    return {"atthasdef": 1, "attgenerated": "s" if missing.kind == ALWAYS else ""}


def told_default(missing: Missing | None) -> dict[str, Any]:
    """The same for information_schema.columns."""
    plain: dict[str, Any] = {"column_default": None, "is_identity": "NO", "is_generated": "NEVER"}
    if missing is None:
        return plain
    if missing.is_identity:
        said = {IDENTITY: "BY DEFAULT", IDENTITY_ALWAYS: "ALWAYS"}[missing.kind]
        return {**plain, "is_identity": "YES", "identity_generation": said}
    if missing.kind == ALWAYS:
        return {**plain, "is_generated": "ALWAYS", "generation_expression": missing.text}
    return {**plain, "column_default": missing.text}


def add_sequence(out: Contents, made: SequenceMade, numbers: Numbers, spaces: Mapping[str, int], database: str,
                 user: str, shared: dict[str, Any]) -> None:  # fmt: skip
    """The rows of a sequence; `shared` is what a row of pg_class always has."""
    schema, _, name = made.name.rpartition(".")
    schema = schema or schemas.PUBLIC
    oid = numbers.of("sequence", schema, name)
    out.names[oid] = schema, name
    out.pg("pg_class", oid=oid, relname=name, relnamespace=spaces[schema], relam=0, relkind="S", relhasindex=0,
           relnatts=3, **shared)  # fmt: skip
    out.pg("pg_sequence", seqrelid=oid, seqtypid=20, seqstart=made.start, seqincrement=made.step, seqmax=made.most,
           seqmin=made.least, seqcache=1, seqcycle=int(made.cycle))  # fmt: skip
    out.pg("pg_sequences", schemaname=schema, sequencename=name, sequenceowner=user, data_type="bigint",
           start_value=made.start, min_value=made.least, max_value=made.most, increment_by=made.step,
           cycle=int(made.cycle), cache_size=1)  # fmt: skip
    out.info("sequences", sequence_catalog=database, sequence_schema=schema, sequence_name=name, data_type="bigint",
             numeric_precision=64, start_value=str(made.start), minimum_value=str(made.least),
             maximum_value=str(made.most), increment=str(made.step),
             cycle_option="YES" if made.cycle else "NO")  # fmt: skip
