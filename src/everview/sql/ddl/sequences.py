"""CREATE, ALTER and DROP SEQUENCE, and the sequences that serial and identity columns own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import TokenType, exp

from everview.codes.digits import whole_number
from everview.errors import did_you_mean
from everview.session.names.entries import SequenceDropped, SequenceMade
from everview.sql.ddl import schemas
from everview.sql.dml import omitted_columns, volatile_functions
from everview.sql.scalar.names import spelled
from everview.sql.text import consumed_parts
from everview.sql.text.error_positions import Source
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.sql.ddl.declarations import Declared
    from everview.sql.statements import Do, Statements

LARGEST = 2**63 - 1


def declared(node: exp.Expr, source: Source) -> SequenceMade:
    """Parse START, INCREMENT, MINVALUE, MAXVALUE and CYCLE."""
    step = _whole(node.args.get("increment"), 1, source)
    if step == 0:
        raise source.error(node, "E_RANGE", "a sequence cannot go on by 0", "INCREMENT BY 1")
    least = _whole(node.args.get("minvalue"), 1 if step > 0 else -LARGEST, source)
    most = _whole(node.args.get("maxvalue"), LARGEST if step > 0 else -1, source)
    start = _whole(node.args.get("start"), least if step > 0 else most, source)
    options = [str(getattr(o, "name", o)).upper() for o in node.args.get("options") or []]
    cycle = bool(node.args.get("cycle")) or "CYCLE" in options
    for option in options:
        if option not in ("CYCLE", "NO CYCLE", "NO MINVALUE", "NO MAXVALUE"):
            raise source.refuse(node, f"{option} is not supported in a sequence")
    for part in ("cache", "this", "on_null"):  # caching of numbers makes no difference
        if isinstance(said := node.args.get(part), exp.Expr):
            consumed_parts.understood(said)
    if not least <= start <= most:
        raise source.error(node, "E_RANGE", f"START {start} is not between {least} and {most}")
    return SequenceMade("", start, step, least, most, cycle)


def _whole(node: Any, otherwise: int, source: Source) -> int:
    if node is None or isinstance(node, bool):
        return otherwise
    sign = -1 if isinstance(node, exp.Neg) else 1
    inside = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(inside, exp.Literal) or inside.is_string or not inside.name.isdecimal():
        raise source.error(node, "E_TYPE", "a sequence takes whole numbers", "START WITH 1")
    return sign * whole_number(inside.name)


def of_column(sql: Statements, found: Declared, column: str, made: SequenceMade) -> str:
    """A sequence owned by a column; returns its name."""
    base, number = f"{found.label}_{column}_seq", 0
    taken = {*sql.core.catalog.sequences, *(s.name for s in found.sequences)}
    mine = sql.core.catalog.sequences.get(base)
    while (name := f"{base}{number or ''}") in taken and not (mine and mine.owner == (found.label, column)):
        number += 1
    found.sequences.append(replace(made, name=name, owner=(found.label, column)))
    return name


def create(sql: Statements, node: exp.Create, source: Source) -> Do:
    """CREATE SEQUENCE [IF NOT EXISTS] s [START n] [INCREMENT BY n] ..."""
    name = schemas.new_name(sql, node.this, source)
    properties = node.args.get("properties")
    made = SequenceMade("", 1, 1, 1, LARGEST)
    for item in properties.expressions if properties is not None else []:
        if not isinstance(item, exp.SequenceProperties):
            raise source.refuse(item, f"{item.sql('postgres')} is not supported in CREATE SEQUENCE")
        made = declared(item, source)
    there = name in sql.core.catalog.sequences
    optional = bool(node.args.get("exists"))
    if (there and not optional) or name in sql.session:
        raise source.error(node, "E_NAME", f"the name {name} is taken", "choose another, or DROP it first")
    if there:
        source.notes.skipped.append(f"the sequence {name} already exists: it is left as it is")
    return lambda: None if there else sql.core.definitions.remarks.add(replace(made, name=name))


def alter(sql: Statements, words: Words) -> None:
    """ALTER SEQUENCE [IF EXISTS] s RESTART [WITH n]"""
    optional = words.next_is("IF", "EXISTS")
    at = words.at
    known = sql.core.catalog.sequences
    name = spelled(words.name("a sequence"), known)
    if name not in known or _is_hidden(sql, known[name]):
        if optional:
            return
        if sql.core.access.acting() is not None:
            raise volatile_functions.missing(sql, name)
        words.at = at
        raise words.error(f"there is no sequence {name}", did_you_mean(name, known), "E_NAME")
    sql.core.access.may_number("UPDATE", known[name])
    words.need("RESTART")
    words.next_is("WITH")
    made = known[name]
    number, at = made.start, words.at
    if words.at < len(words.tokens):
        sign = -1 if words.next_is("-") else 1
        text = words.take("a number", TokenType.NUMBER)
        if not text.isdecimal():
            words.at = at
            raise words.error(f"a sequence takes whole numbers, not {text}", "RESTART WITH 1", "E_TYPE")
        number = sign * whole_number(text)
    words.end()
    if not made.least <= number <= made.most:
        words.at = at
        raise words.error(f"{number} is not between {made.least} and {made.most}", code="E_RANGE")
    if not sql.dry:
        sql.core.defaults.put(name, number - made.step)
        sql.core.transactions.commit_empty()


def _is_hidden(sql: Statements, made: SequenceMade) -> bool:
    """Whether the current user sees neither a sequence nor the table whose column it numbers."""
    access = sql.core.access
    numbers = bool(made.owner) and access.sees("relation", made.owner[0])
    return not numbers and not access.sees("sequence", made.name)


def drop(sql: Statements, node: exp.Drop, source: Source) -> Do:
    """DROP SEQUENCE [IF EXISTS] s, t [CASCADE]"""
    sql.core.access.may_manage("make or drop types and sequences")
    known = sql.core.catalog.sequences
    optional, cascade = bool(node.args.get("exists")), bool(node.args.get("cascade"))
    found: list[str] = []
    for target in node.args.get("tables") or [node.this]:
        name = spelled(schemas.written(target), known)
        if name not in known:
            if optional:
                source.notes.skipped.append(f"there is no sequence {name}: nothing is dropped")
                continue
            raise source.error(target, "E_NAME", f"there is no sequence {name}", did_you_mean(name, known))
        users = [
            f"{t}.{c}"
            for (t, c), text in sql.core.catalog.defaults.items()
            if name in omitted_columns.sequences(sql, text)
        ]
        if users and not cascade:
            what = f"the sequence {name} is used by {', '.join(users)}"
            raise source.error(target, "E_IN_USE", what, "drop those defaults first")
        if users:
            raise source.refuse(target, "CASCADE would take defaults away", "ALTER COLUMN ... DROP DEFAULT first")
        found.append(name)
    consumed_parts.understood(node)

    def do() -> None:
        for name in found:
            sql.core.definitions.remarks.add(SequenceDropped(name))
            sql.core.defaults.forget(name)

    return do
