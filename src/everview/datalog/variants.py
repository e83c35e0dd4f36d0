"""Types with several forms (algebraic data types), in Soufflé's syntax:

    .type Shape = Circle { radius: number } | Box { width: number, height: number } | Nothing {}
    .type List = Nil {} | Cons { head: number, tail: List }

`$Circle(3)` constructs a value; with unbound variables, `$Circle(R)` is a pattern, which matches circles and
destructures them. A value is stored as JSON, `["Circle", 3]`: an array of the form's name and its fields. It is
therefore one code whatever is inside, a type may contain itself, and SQL and Python can read it without knowing the
type.

Hazard: types exist only in the program's text. A column of such values has type json, and two types with equally named
forms and the same fields would be indistinguishable; duplicate form names are refused within a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from everview.datalog.syntax import Aggregate, Apply, Declaration, Place, Program, SumType, Term, Variant, mapped
from everview.errors import did_you_mean
from everview.expr import functions, nodes
from everview.types import BOOL, FLOAT, INT, STR, DataType

FIELDS = {
    "number": "int",
    "unsigned": "int",
    "int": "int",
    "float": "float",
    "symbol": "str",
    "str": "str",
    "bool": "bool",
}
"""Types allowed for fields, besides those of the program."""

DOCUMENT = "json"
"""The storage type of such values."""


def declared(name: str, forms: Sequence[tuple[str, tuple[Any, ...], Place]], place: Place) -> SumType:
    """A declared type."""
    found: dict[str, tuple[str, ...]] = {}
    for form, fields, at in forms:
        if form in found:
            raise at.error("E_DUPLICATE", f"{name} has two forms called {form}", "give each its own name")
        for field, kind in fields:
            if kind is None:
                raise at.error("E_TYPE", f"the field {field} of {form} has no type", f"{field}: number")
        found[form] = tuple(kind for _, kind in fields)
    return SumType(name, found, place)


def resolved(program: Program, types: Sequence[SumType]) -> Program:
    """The program with the field types at every `$Form(...)`, all of which must be declared."""
    names = _names(types)
    forms: dict[str, tuple[str, ...]] = {}
    for one in types:
        for form, fields in one.forms.items():
            if form in forms:
                raise one.place.error("E_DUPLICATE", f"two types have a form called {form}", "give each its own name")
            forms[form] = tuple(_field(kind, names, one.place) for kind in fields)

    def typed(thing: Any) -> Any:
        if not isinstance(thing, Variant):
            return thing
        fields = forms.get(thing.tag)
        if fields is None:
            hint = did_you_mean(thing.tag, forms) or f".type T = {thing.tag} {{ x: number }} | ..."
            raise thing.place.error("E_TYPE", f"no type has a form called {thing.tag}", hint)
        if len(fields) != len(thing.args):
            what = f"{thing.tag} has {len(fields)} fields, not {len(thing.args)}"
            raise thing.place.error("E_ARITY", what, f"${thing.tag}({', '.join('_' for _ in fields)})")
        return replace(thing, fields=fields)

    def all_of(things: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(mapped(thing, typed) for thing in things)

    done = Program(replace(rule, head=all_of(rule.head), body=all_of(rule.body)) for rule in program)
    done.dominance = [
        replace(d, lower=all_of(d.lower), upper=all_of(d.upper), body=all_of(d.body)) for d in program.dominance
    ]
    done.declared = {name: _about(one, names) for name, one in program.declared.items()}
    return done


def _names(types: Sequence[SumType]) -> set[str]:
    names: set[str] = set()
    for one in types:
        if one.name in names or one.name in FIELDS:
            raise one.place.error("E_DUPLICATE", f"type {one.name} already exists", "choose another name")
        names.add(one.name)
    return names


def _field(kind: str, names: set[str], place: Place) -> str:
    if kind in names:
        return DOCUMENT
    if kind not in FIELDS:
        raise place.error("E_TYPE", f"there is no type {kind} for a field", did_you_mean(kind, [*names, *FIELDS]))
    return FIELDS[kind]


def _about(declaration: Declaration, names: set[str]) -> Declaration:
    """A declaration with the storage type of its columns."""
    types = tuple(DOCUMENT if kind in names else kind for kind in declaration.types)
    return replace(declaration, types=types)


# ------------------------------------------------------------------------------------------- values


def within(term: Term) -> Iterator[Variant]:
    """The outermost variant values that a term constructs."""
    if isinstance(term, Variant):
        yield term
    elif isinstance(term, Apply):
        for arg in term.args:
            yield from within(arg)
    elif isinstance(term, Aggregate) and term.arg is not None:
        yield from within(term.arg)


def check(wanted: str, have: DataType, place: Place) -> None:
    """Check that a field gets its declared type."""
    if have.kind != wanted and (wanted, have.kind) != ("float", "int"):
        what = "a value of a declared type" if wanted == DOCUMENT else wanted
        raise place.error("E_TYPE", f"the field holds {what}, but this is {have.optional(False)!r}", "convert it")


def has_form(pattern: Variant, value: nodes.Expr) -> nodes.Expr:
    """Whether a value has the pattern's form."""
    if value.type.kind != DOCUMENT:
        what = f"${pattern.tag} is asked for, and this is {value.type!r}"
        raise pattern.place.error("E_TYPE", what, "only values of declared types have forms")
    tag = functions.call("json_get_text", value, nodes.Literal(INT, 0))
    return functions.call("eq", tag, nodes.Literal(STR, pattern.tag))


def items(pattern: Variant, value: nodes.Expr) -> list[nodes.Expr]:
    """The fields of a value that has the pattern's form."""
    return [_item(kind, value, nodes.Literal(INT, i)) for i, kind in enumerate(pattern.fields, 1)]


_SCALARS = {"int": INT, "float": FLOAT, "bool": BOOL}


def _item(kind: str, value: nodes.Expr, at: nodes.Expr) -> nodes.Expr:
    if kind == "str":
        return functions.call("json_get_text", value, at)
    found = functions.call("json_get", value, at)
    return found if kind == DOCUMENT else functions.cast(found, _SCALARS[kind])
