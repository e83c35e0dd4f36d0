"""Components: rules written once and instantiated under several names.

    .comp Closure<step> {                     rules over a relation given later
        path(X, Y) :- step(X, Y).
        path(X, Z) :- path(X, Y), step(Y, Z).
    }
    .init roads = Closure<road>               roads.path is the closure of road
    .init wires = Closure<wire>
    .comp Loops<step> : Closure<step> { loop(X) :- path(X, X). }

`.init` copies the rules. Relations that the component defines or declares, or for which rules are given from outside
under the instance's name (`roads.path(1, 2).`), get the instance's name as a prefix; other relations it reads keep
their names, or are parameters. A component may extend another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from everview.datalog.syntax import Atom, Body, Declaration, Dominance, Place, Program, Rule, mapped
from everview.errors import did_you_mean


@dataclass(frozen=True)
class Component:
    """Named statements with relation parameters, and possibly a base component."""

    name: str
    params: tuple[str, ...]
    base: tuple[str, tuple[str, ...]] | None
    statements: tuple[Any, ...]
    place: Place


@dataclass(frozen=True)
class Instance:
    """A copy of a component under a name of its own."""

    name: str
    of: str
    params: tuple[str, ...]
    place: Place


def component(place: Place, parts: list[Any], flat: Callable[[list[Any]], list[Any]]) -> Component:
    """A component from its parse tree: names are texts, parameters lists of texts, all else statements."""
    head: list[tuple[str, tuple[str, ...]]] = []
    rest: list[Any] = []
    for part in parts:
        if isinstance(part, str):
            head.append((part, ()))
        elif isinstance(part, list) and part and all(isinstance(p, str) for p in part):
            head[-1] = (head[-1][0], tuple(part))
        else:
            rest.append(part)
    name, params = head[0]
    return Component(name, params, head[1] if len(head) > 1 else None, tuple(flat(rest)), place)


def expanded(statements: Iterable[Any]) -> Program:
    """The program with instances expanded."""
    statements = list(statements)
    known: dict[str, Component] = {}
    for statement in statements:
        if isinstance(statement, Component):
            if statement.name in known:
                raise statement.place.error("E_NAME", f"there are two components {statement.name}", "rename one")
            known[statement.name] = statement
    given = {name for s in statements for name in _defines(s)}
    program = Program()
    for statement in statements:
        if not isinstance(statement, Component):
            _add(program, [statement] if not isinstance(statement, Instance) else _copied(statement, known, given, ()))
    return program


def _add(program: Program, statements: Iterable[Any]) -> None:
    for statement in statements:
        if isinstance(statement, Rule):
            program.append(statement)
        elif isinstance(statement, Dominance):
            program.dominance.append(statement)
        else:
            if statement.name in program.declared:
                raise statement.place.error("E_NAME", f"{statement.name} is declared twice", "say it once")
            program.declared[statement.name] = statement


def _copied(instance: Instance, known: Mapping[str, Component], given: set[str], within: tuple[str, ...]) -> list[Any]:
    """The statements of an instance, under its name."""
    statements = _statements(instance.of, instance.params, instance.place, known, within)
    own = {name for s in statements for name in _defines(s)}
    inner = tuple(s.name for s in statements if isinstance(s, Instance))

    def named(name: str) -> str:
        mine = name in own or f"{instance.name}.{name}" in given or name.split(".")[0] in inner
        return f"{instance.name}.{name}" if mine else name

    found: list[Any] = []
    for statement in statements:
        renamed = _renamed(statement, named)
        if isinstance(statement, Instance):
            found += _copied(renamed, known, given, (*within, instance.of))
        else:
            found.append(renamed)
    return found


def _statements(
    name: str, params: tuple[str, ...], place: Place, known: Mapping[str, Component], within: tuple[str, ...]
) -> list[Any]:
    """The statements of a component and its bases, for these parameters."""
    if name not in known:
        raise place.error("E_COMPONENT", f"there is no component {name}", did_you_mean(name, known))
    if name in within:
        raise place.error("E_COMPONENT", f"the component {name} contains itself", "take one of them away")
    component = known[name]
    if len(params) != len(component.params):
        wants = f"{name}<{', '.join(component.params)}>" if component.params else name
        raise place.error("E_ARITY", f"{name} has {len(component.params)} parameters, not {len(params)}", wants)
    meant = dict(zip(component.params, params, strict=True))

    def named(other: str) -> str:
        return meant.get(other, other)

    found: list[Any] = []
    if component.base is not None:
        base, given = component.base
        found += _statements(base, tuple(map(named, given)), component.place, known, (*within, name))
    return found + [_renamed(statement, named) for statement in component.statements]


def _defines(statement: Any) -> list[str]:
    return [statement.name] if isinstance(statement, Rule | Declaration) else []


def _renamed(statement: Any, named: Callable[[str], str]) -> Any:
    if isinstance(statement, Instance):
        return replace(statement, name=_within(statement.name, named), params=tuple(map(named, statement.params)))
    if isinstance(statement, Declaration | Component):
        return replace(statement, name=named(statement.name))
    return replace(statement, name=named(statement.name), body=_body(statement.body, named))


def _within(name: str, named: Callable[[str], str]) -> str:
    """The name of an instance inside another."""
    return named(f"{name}.").removesuffix(".")


def _body(body: Body, named: Callable[[str], str]) -> Body:
    def change(thing: Any) -> Any:
        return replace(thing, name=named(thing.name)) if isinstance(thing, Atom) else thing

    return tuple(mapped(literal, change) for literal in body)
