"""A hash of a plan's meaning: equal for equivalent definitions in any process, and only for those.

The hash covers everything in a plan: kinds of nodes, expressions, types, constants, options, and Python functions. A
function counts by its name and code, its closure, and the plain constants and functions of its module that it refers
to. (Of a function in an installed or importable module only its own code counts, not the internals of its library.)

It has two uses. When a program declares a view again, the digest decides whether it is the existing view. And the state
of an operator on disk is found by the plan it was created for (`everview.dataflow.identity`). Different plans must
therefore not share a digest; two digests for one plan only cost a recomputation.

Hazards: values are described by how pickling takes them apart, so an object that changes when used (a cache in a
closure) has another digest afterwards. `_digest` and `_outline` are cached in the node for as long as it lives.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from everview.expr.nodes import Expr, field_names
from everview.plan.nodes import Node
from everview.plan.trust import Function, Missing, name_of
from everview.types import DataType

_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(...))


def digest(node: Node) -> str:
    """A hash of a plan's meaning, the same in every run of a program; functions count by their code.

    >>> from everview.plan import nodes as plan
    >>> from everview.types import INT
    >>> def doubled():
    ...     return plan.FlatMap(plan.Table(0, (INT,)), lambda x: [2 * x], (INT,))
    >>> digest(doubled()) == digest(doubled()), doubled() == doubled()
    (True, False)
    """
    return _hashed(node, "_digest", _Describer(code=True))


def outline(node: Node) -> str:
    """The same with functions by name alone: for processes that received them from one another."""
    return _hashed(node, "_outline", _Describer(code=False))


def canonical_text(value: Any, *, code: bool = True) -> str:
    """A text that is equal for values with the same meaning: plans, expressions, types and their contents."""
    return _Describer(code).text(value, ())


def meaning(function: Function) -> str:
    """A hash of a function's behaviour."""
    if isinstance(function, Missing):
        return function.meaning
    return hashed(_Describer(code=True).text(function, ()))


def hashed(*texts: str) -> str:
    """One short text for several.

    >>> hashed("a", "b") == hashed("ab", "")
    False
    """
    found = hashlib.blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()


def children_first(node: Node) -> list[Node]:
    """The node and all below it, each once, after its inputs."""
    found: list[Node] = []
    seen: set[int] = set()
    todo: list[tuple[Node, bool]] = [(node, False)]
    while todo:
        each, ready = todo.pop()
        if ready:
            found.append(each)
        elif id(each) not in seen:
            seen.add(id(each))
            todo.append((each, True))
            todo.extend((child, False) for child in each.children() if id(child) not in seen)
    return found


def _hashed(node: Node, kept: str, describer: _Describer) -> str:
    if kept not in node.__dict__:
        for each in children_first(node):  # avoids deep recursion for deep plans
            if kept not in each.__dict__:
                parts = (describer.field(each, name, ()) for name in field_names(type(each)))
                each.__dict__[kept] = hashed(type(each).__name__, *parts)
    return str(node.__dict__[kept])


class _Final(str):
    """A text that is already final."""

    __slots__ = ()


class _Describer:
    """Describes values; `code`: functions by their code."""

    def __init__(self, code: bool) -> None:
        self._code = code

    def field(self, value: Any, name: str, inside: tuple[int, ...]) -> str:
        """The text of a field of a node or an expression; a function may be `Missing`."""
        if name == "function":
            function = getattr(value, name)
            return meaning(function) if self._code else name_of(function)
        return self.text(getattr(value, name), inside)

    def text(self, value: Any, inside: tuple[int, ...]) -> str:
        """`inside`: the values being described, to detect cycles."""
        if isinstance(value, Node):
            return digest(value) if self._code else outline(value)
        if isinstance(value, _Final):
            return value
        if isinstance(value, Expr):
            return self._expression(value)
        if type(value) in _PLAIN:
            return f"{type(value).__name__} {value!r}"
        if id(value) in inside:
            return f"itself {inside.index(id(value))}"
        inside = (*inside, id(value))
        if isinstance(value, (set, frozenset)):
            return f"{{{', '.join(sorted(self.text(v, inside) for v in value))}}}"
        return f"({', '.join(self.text(part, inside) for part in self._parts(value, inside))})"

    def _expression(self, value: Expr) -> str:
        """A hash of an expression, cached in it and computed bottom-up: expressions share parts and may be deep."""
        kept = "_digest" if self._code else "_outline"
        todo = [value]
        while kept not in value.__dict__:
            each = todo[-1]
            below = [c for c in each.children() if kept not in c.__dict__]
            if below:
                todo += below
            else:
                parts = (self.field(each, name, ()) for name in field_names(type(each)))
                each.__dict__[kept] = hashed(type(each).__name__, *parts)
                todo.pop()
        return str(value.__dict__[kept])

    def _parts(self, value: Any, inside: tuple[int, ...]) -> list[Any]:
        """The components of a value."""
        if isinstance(value, (list, tuple)):
            return [type(value).__name__, *value]
        if isinstance(value, dict):
            return [part for item in value.items() for part in item]
        if isinstance(value, types.FunctionType):
            return self._function(value) if self._code else [value.__qualname__]
        if isinstance(value, types.CodeType):
            names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars, value.co_flags)
            return [value.co_code, *names, *value.co_consts]
        if isinstance(value, (types.BuiltinFunctionType, type, types.ModuleType)):
            return [getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__)]
        if isinstance(value, types.MethodType):
            return [value.__func__, value.__self__ if self._code else type(value.__self__)]
        if isinstance(value, functools.partial):
            return [value.func, value.args, value.keywords] if self._code else [value.func]
        if isinstance(value, DataType):  # later fields count only if set
            said = [f for f in fields(value) if f.name not in ("names", "width") or getattr(value, f.name)]
            return [type(value), *(_Final(self.text(getattr(value, f.name), inside)) for f in said)]
        if is_dataclass(value):
            said = [f for f in fields(value) if "later" not in f.metadata or getattr(value, f.name)]
            return [type(value), *(_Final(self.field(value, f.name, inside)) for f in said)]
        return [type(value), *(self._reduced(value) if self._code else ())]

    def _function(self, function: types.FunctionType) -> list[Any]:
        parts = [function.__qualname__, function.__code__, function.__defaults__, function.__kwdefaults__]
        parts += [_cell(c) for c in function.__closure__ or ()]
        if function.__module__ == "__main__":  # it is stored with what it refers to, as if that were part of it
            parts += [part for item in sorted(_named(function)) for part in (item, function.__globals__[item])]
        return parts

    @staticmethod
    def _reduced(value: Any) -> list[Any]:
        """What pickling extracts from any other value; its text, if it cannot be pickled."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:
            return [str(repr(value))]
        if isinstance(reduced, str):
            return [reduced]
        return [list(part) if isinstance(part, Iterator) else part for part in reduced]


def _named(function: types.FunctionType) -> set[str]:
    """The plain constants and functions of its module that a function refers to, including nested functions."""
    names: set[str] = set()
    todo = [function.__code__]
    while todo:
        code = todo.pop()
        names |= set(code.co_names)
        todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    known = function.__globals__
    return {n for n in names if isinstance(known.get(n, ...), (*_PLAIN[:-1], types.FunctionType))}


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
