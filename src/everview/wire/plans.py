"""Collections as data: a plan over tables and views by name.

In the client's plan a table or view of the server is a `Table` node with a client-side number. The names for the
numbers are sent with the plan, and the server substitutes its own nodes. The columns that the client assumes must
exist, with these types; otherwise the server refuses the plan.

Functions are not sent: a server runs no code of its clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from everview.errors import InputError, PlanError, StoreError
from everview.plan import nodes as plan
from everview.plan.serialisation import Functions, freeze, functions_of, thaw
from everview.plan.substitute import substituted
from everview.types import DataType, Kind

LONGEST = 4 * 1024 * 1024
"""Maximum length of a plan."""


def written(node: plan.Node, names: Mapping[int, str]) -> dict[str, Any]:
    """A plan as data; `names` are those of its tables and views, by the client's numbers."""
    for each in node.walk():
        if next(functions_of(each), None) is not None:
            raise InputError(
                "E_FUNCTION",
                "a plan with Python functions cannot be sent to a server",
                "write it with expressions or SQL; the server's own program may use functions",
            )
    used = {str(n.id): names[n.id] for n in node.walk() if isinstance(n, plan.Table)}
    return {"plan": freeze(node, Functions()).decode(), "names": used}


def read(data: Any, known: Mapping[str, plan.Node]) -> plan.Node:
    """Read a plan over the server's relations of these names."""
    text, names = data.get("plan"), data.get("names")
    if not isinstance(text, str) or not isinstance(names, dict) or not 0 < len(text) <= LONGEST or text[0] != "[":
        raise InputError("E_MESSAGE", "a plan cannot be read", "send what everview's client makes")
    try:
        node = thaw(text.encode(), Functions())
    except (StoreError, RecursionError) as error:
        raise PlanError("E_MESSAGE", f"a plan cannot be read: {error}", "send what everview's client makes") from None
    theirs: dict[plan.Node, plan.Node] = {}
    for each in node.walk():
        if isinstance(each, plan.Table):
            name = names.get(str(each.id))
            if not isinstance(name, str) or name not in known:
                raise PlanError("E_NAME", f"no table or view is called {name!r}", "it was dropped, or never made")
            if not _same(known[name].types, each.types):
                raise PlanError("E_SCHEMA", f"{name!r} has other columns now", "build the collection again")
            theirs[each] = known[name]
    return substituted(node, theirs)


def _same(mine: tuple[DataType, ...], theirs: tuple[DataType, ...]) -> bool:
    return mine == theirs


def written_type(declared: DataType) -> list[Any]:
    """A type as data.

    >>> type_of(written_type(DataType("decimal", scale=2)))
    decimal(2)
    """
    items = [written_type(t) for t in declared.items]
    return [declared.kind, declared.nullable, declared.scale, items, list(declared.names), declared.width]


def type_of(data: Any) -> DataType:
    """Parse a type, possibly from an untrusted client.

    >>> type_of(["int", "yes", 0, [], [], 0])
    Traceback (most recent call last):
    everview.errors.InputError: [E_MESSAGE] ['int', 'yes', 0, [], [], 0] is not a type
      hint: is the client as new as the server?
    """
    try:
        kind, nullable, scale, items, names, width = data
        inner, labels = tuple(type_of(i) for i in items), tuple(names)
        fits = kind in get_args(Kind) and type(nullable) is bool and all(type(n) is str for n in labels)
        fits = fits and type(scale) is int and type(width) is int
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise InputError("E_MESSAGE", f"{str(data)[:60]} is not a type", "is the client as new as the server?")
    return DataType(kind, nullable, scale, inner, labels, width)
