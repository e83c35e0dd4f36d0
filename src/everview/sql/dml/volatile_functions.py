"""Volatile functions: nextval, currval, gen_random_uuid, random.

Nothing maintained can depend on them, so views refuse them. In one-off execution (DEFAULT, the VALUES of an INSERT, a
SELECT without FROM), each call is replaced by its value before the statement is bound.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.digits import whole_number
from everview.errors import InputError, did_you_mean
from everview.sql.scalar.names import spelled
from everview.sql.text import consumed_parts, statement_reader, tokens
from everview.sql.text.error_positions import Source

if TYPE_CHECKING:
    from everview.sql.statements import Statements

NAMES = frozenset({"nextval", "currval", "lastval", "setval", "gen_random_uuid", "uuid_generate_v4", "random"})

ARGUMENTS = {"nextval": (1, 1), "currval": (1, 1), "setval": (2, 3)}
"""Their numbers of arguments; others take none."""

EXAMPLES = {name: f"{name}()" for name in NAMES} | {
    "nextval": "nextval('t_id_seq')",
    "currval": "currval('t_id_seq')",
    "setval": "setval('t_id_seq', 5)",
}

_NEXTVAL = re.compile(r"nextval\('([^']+)'(?:::regclass)?\)", re.IGNORECASE)


_MENTIONED = re.compile("|".join(sorted(NAMES)), re.IGNORECASE)


def mentioned(text: str) -> bool:
    """Whether a text may have such calls."""
    return _MENTIONED.search(text) is not None


def numbers(text: str) -> bool:
    """Whether a text may move a sequence on."""
    return re.search("nextval|setval|next value", text, re.IGNORECASE) is not None


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return {"Uuid": "gen_random_uuid", "Rand": "random", "NextValueFor": "nextval"}.get(type(node).__name__, "")


def calls(tree: exp.Expr) -> list[exp.Expr]:
    """The calls in a tree, without marking parts as read."""
    return [n for n in tree.walk() if _name(n) in NAMES]


def is_volatile(tree: exp.Expr) -> bool:
    """Whether an expression is volatile."""
    return bool(calls(tree))


def only_nextval(text: str) -> str | None:
    """The sequence, if a text is nothing but its next number.

    >>> only_nextval("nextval('t_id_seq'::regclass)")
    't_id_seq'
    """
    found = _NEXTVAL.fullmatch(text.strip())
    return None if found is None else found.group(1)


def sequence(sql: Statements, name: str) -> str:
    """A sequence as spelled on creation."""
    known = sql.core.catalog.sequences
    exact = spelled(name.strip('"').removeprefix("public."), known)
    if exact not in known:
        raise missing(sql, name)
    return exact


def missing(sql: Statements, name: str) -> InputError:
    """The error for a sequence that does not exist, or not for the current user."""
    access = sql.core.access
    if (who := access.acting()) is not None:
        return access.refused("USAGE", "sequence", name, who)
    return InputError("E_NAME", f"there is no sequence {name}", did_you_mean(name, sql.core.catalog.sequences))


_NEEDED = {"nextval": "USAGE", "currval": "SELECT", "setval": "UPDATE"}


def _check_rights(sql: Statements, call: exp.Expr) -> None:
    """Refuse a call, written in a statement, of a sequence that the current user may not use."""
    privilege = _NEEDED.get(_name(call))
    if privilege is not None and sql.core.access.acting() is not None:
        _check_count(_name(call), call)
        sql.core.access.may_number(privilege, sql.core.catalog.sequences[sequence(sql, _argument(sql, call))])


def sequences_of(sql: Statements, tree: exp.Expr) -> set[str]:
    """The sequences that an expression uses."""
    named = [_argument(sql, call) for call in calls(tree) if _name(call) in ARGUMENTS]
    return {spelled(name.strip('"').removeprefix("public."), sql.core.catalog.sequences) for name in named}


def replaced(sql: Statements, tree: exp.Expr) -> exp.Expr:
    """A tree with the calls replaced by their values."""
    return _with(tree, lambda call: _valued(sql, call))


def stood_in(sql: Statements, tree: exp.Expr) -> exp.Expr:
    """A tree with the calls replaced by sample values of the same types."""
    return _with(tree, lambda call: _example(sql, call), lambda call: _check_rights(sql, call))


def _with(tree: exp.Expr, made: object, check: Callable[[exp.Expr], None] = lambda call: None) -> exp.Expr:
    for call in calls(tree):
        check(call)
        words = tokens.words_of(call)
        new = made(call)  # type: ignore[operator]
        consumed_parts.understood(call)
        new.meta[tokens.STOOD_FOR] = words
        if call is tree:
            return new  # type: ignore[no-any-return]
        call.replace(new)
    return tree


def _example(sql: Statements, call: exp.Expr) -> exp.Expr:
    name = _name(call)
    _check_count(name, call)
    if name in ("nextval", "currval", "setval"):
        found = sequence(sql, _argument(sql, call))
        if name == "setval":
            _setting(sql, call, found, example=True)
    if name in ("gen_random_uuid", "uuid_generate_v4"):
        return exp.cast(exp.Literal.string(str(uuid.UUID(int=0))), "uuid")
    return exp.Literal.number("1e0") if name == "random" else exp.Literal.number(1)


def _check_count(name: str, call: exp.Expr) -> None:
    """Refuse a call with more or fewer arguments than it takes."""
    given = len([node for node in call.iter_expressions() if isinstance(node, exp.Expr)])
    least, most = ARGUMENTS.get(name, (0, 0))
    if not least <= given <= most:
        takes = f"{least} or {most} arguments" if least != most else f"{most} argument{'s' * (most != 1)}"
        raise InputError("E_ARITY", f"{name} takes {takes}, not {given}", f"for example {EXAMPLES[name]}")


def _argument(sql: Statements, call: exp.Expr) -> str:
    """The name that is given, in quotes, with ::regclass or without, or by the column that owns the sequence."""
    given = call.expressions[0] if call.expressions else call.args.get("this")
    while isinstance(given, exp.Cast):
        given = given.this
    if isinstance(given, exp.Anonymous) and given.name.lower() == "pg_get_serial_sequence":
        return _owned(sql, [part.name for part in given.expressions if part.is_string])
    if not isinstance(given, exp.Literal) or not given.is_string:
        raise InputError("E_PARAMETER", "a sequence is named in quotes", "nextval('t_id_seq')")
    return given.name


def _owned(sql: Statements, column: list[str]) -> str:
    """pg_get_serial_sequence('table', 'column')"""
    owned = {tuple(n.lower() for n in made.owner): made.name for made in sql.core.catalog.sequences.values()}
    found = owned.get(tuple(n.strip('"').removeprefix("public.").lower() for n in column))
    if found is None:
        raise InputError(
            "E_NAME", f"no sequence goes with the column {'.'.join(column)}", "name the sequence in quotes"
        )
    return found


def _valued(sql: Statements, call: exp.Expr) -> exp.Expr:
    name, defaults = _name(call), sql.core.defaults
    _check_count(name, call)
    if name in ("gen_random_uuid", "uuid_generate_v4"):
        return exp.cast(exp.Literal.string(str(uuid.uuid4())), "uuid")
    if name == "random":
        return exp.Literal.number(f"{random.random():.17e}")
    if name == "lastval":
        return _number(sql.last_sequence and defaults.given_here(sql.last_sequence), "lastval")
    found = sequence(sql, _argument(sql, call))
    if name == "nextval":
        sql.last_sequence = found
        return _number(defaults.next(found)[0], found)
    if name == "currval":
        return _number(defaults.given_here(found), found)
    new, called = _setting(sql, call, found)
    if new is None:  # as in PostgreSQL, nothing is set
        return exp.Null()
    defaults.put(found, new if called else new - sql.core.catalog.sequences[found].step)
    return _number(new, found)


def _setting(sql: Statements, call: exp.Expr, name: str, example: bool = False) -> tuple[int | None, bool]:
    """The arguments of setval: a number, and whether it counts as already returned. The number may be a query's, or
    NULL: setval('t_id_seq', (SELECT max(id) FROM t)).
    """
    given, *more = call.expressions[1:]
    made = sql.core.catalog.sequences[name]
    new = _whole(sql, given, made.start if example else None)
    if more and not isinstance(more[0], exp.Boolean):
        raise InputError("E_TYPE", f"setval takes true or false, not {more[0].sql()}", "setval('t_id_seq', 5, false)")
    if new is not None and not made.least <= new <= made.most:
        raise InputError("E_RANGE", f"{new} is not between {made.least} and {made.most}, the range of {name}")
    return new, not more or bool(more[0].this)


def _whole(sql: Statements, given: exp.Expr, example: int | None) -> int | None:
    """An integer, literal or computed now; only bound in a dry run."""
    inner, sign = given, 1
    while isinstance(inner, exp.Neg | exp.Paren):
        sign, inner = -sign if isinstance(inner, exp.Neg) else sign, inner.this
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.name.isdecimal():
        return sign * whole_number(inner.name)
    if calls(given):
        raise InputError("E_UNSUPPORTED", "such a call inside of setval is not supported", EXAMPLES["setval"])
    text = f"SELECT {given.copy().sql('postgres')}"
    source = sql.placed(Source(text))
    tree = statement_reader.parsed(source)
    query, compiler = consumed_parts.whole(tree, source, lambda: sql.bound(tree, source))
    if query.node.types[query.context].kind != "int":
        raise InputError("E_TYPE", f"setval takes a whole number, not {text.removeprefix('SELECT ')}", "cast it: ::int")
    if example is not None:
        return example
    value: int | None = sql.answer(query, compiler).rows()[0][0]
    return value


def _number(value: int | str | None, what: str) -> exp.Expr:
    if not isinstance(value, int):
        raise InputError("E_NOT_COMPUTED", f"{what} has not given a number here yet", "call nextval first")
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def settled(sql: Statements, node: exp.Expr, source: Source, *, example: bool) -> bool:
    """Replace a statement's volatile calls by values, where allowed; return whether there were any."""
    found = calls(node) if mentioned(source.text) and not isinstance(node, exp.Create) else []  # DEFAULT is a text
    if not found:
        return False
    if isinstance(node, exp.Select) and node.args.get("from_") is not None:
        _ask_before(node)
    asked_once = isinstance(node, exp.Select) and node.args.get("from_") is None
    for call in found:
        inside = call.find_ancestor(exp.Values)
        if not asked_once and not (
            isinstance(node, exp.Insert) and inside is not None and call.find_ancestor(exp.Select) is None
        ):
            raise source.refuse(
                call,
                f"{_name(call)} gives another value each time: it cannot be kept or repeated here",
                "use it in VALUES, in a DEFAULT, or in a SELECT without FROM",
            )
        _check_rights(sql, call)
        made = _example(sql, call) if example else _valued(sql, call)
        made.meta[tokens.STOOD_FOR] = tokens.words_of(call)
        call.replace(made)
    return True


def _ask_before(node: exp.Select) -> None:
    """SELECT setval('s', max(id)) FROM t: evaluate the query's single value first, as in setval('s', (SELECT max(id)
    FROM t))."""
    outputs = [e.this if isinstance(e, exp.Alias) else e for e in node.expressions]
    if len(outputs) != 1 or _name(outputs[0]) != "setval" or len(outputs[0].expressions) < 2:
        return
    call, output = outputs[0], node.expressions[0]
    given = call.expressions[1]
    if given.find(exp.AggFunc) is None or node.args.get("group") is not None:
        return  # there may be several rows
    inside = exp.Select(**{part: dict.get(node.args, part) for part in dict(node.args)})
    inside.set("expressions", [given.copy()])
    call.set("expressions", [call.expressions[0], exp.Subquery(this=inside), *call.expressions[2:]])
    for part in list(node.args):
        if part != "expressions":
            node.set(part, None)
    node.set("expressions", [output])
