"""Serialises plans, for catalogs on disk and for other processes.

A plan is written node by node, children first, so that deep plans need no deep recursion and shared parts stay shared.
It is data (`everview.plan.node_records`): reading one creates nodes of known kinds and runs nothing. Python functions
are written by name: equal plans must stay equal after reading, and two views that use one function (nodes compare
functions by `==`) must get the same object. `Functions` has the names.

A function of an importable module is stored as its name, any other (a lambda, one of `__main__`) as its code, both as
pickles; those are unpickled only if trusted (`everview.plan.trust`). For processes on other machines
(`Functions(travel=True)`) importable means installed: for a script's own modules, which only its directory has, the
code is sent.
"""

from __future__ import annotations

import json
import pickle
import sys
import sysconfig
import types
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import Any

from everview.errors import StoreError
from everview.expr.nodes import Expr, Udf
from everview.plan import legacy
from everview.plan.digest import children_first, meaning
from everview.plan.node_records import Placed, calls_inside, is_ours, read_node, refused, wrapper, written_node
from everview.plan.nodes import Node
from everview.plan.trust import NOBODY, Function, Missing, Trust, defined, name_of, untrusted, wrote
from everview.store import records


class Functions:
    """The functions of a catalog's plans, by name and by identity.

    >>> known = Functions()
    >>> known.name(len), known.name(max), known.name(len), [name for name, _ in known.unwritten()]
    ('f0', 'f1', 'f0', ['f0', 'f1'])
    """

    trust: Trust

    def __init__(self, *, travel: bool = False, like: Functions | None = None, trust: Trust = NOBODY) -> None:
        """`travel`: for processes that lack this one's modules. `like`: another catalog of the same session, in which a
        function has the same code, and one code is the same function. `trust`: whose code may be run.
        """
        self._travel = travel
        self.trust = trust if like is None else like.trust
        self._code: dict[Function, bytes] = {} if like is None else like._code
        self._coded: dict[bytes, Function] = {} if like is None else like._coded
        self._missing: list[Missing] = [] if like is None else like._missing
        self._names: dict[Function, str] = {}
        self._functions: dict[str, Function] = {}
        self._written = 0
        self.old = False
        """whether something was read in an old format"""

    def name(self, function: Function) -> str:
        """The function's name, a new one if necessary."""
        if function not in self._names:
            name = f"f{len(self._functions)}"  # functions of the same code were read under several names
            self._names[function] = name
            self._functions[name] = function
        return self._names[function]

    def unwritten(self) -> Iterator[tuple[str, bytes]]:
        """The functions named since the last call, as bytes."""
        names = list(self._functions)[self._written :]
        for name in names:
            function = self._functions[name]
            if function not in self._code:
                self._code[function] = _written(function, self._travel)
            yield name, self._code[function]
        self._written = len(self._functions)

    def go_back(self, count: int) -> None:
        """Keep only the first `count` functions: the operation that added the others failed."""
        for name in list(self._functions)[count:]:
            function = self._functions.pop(name)
            self._names.pop(function, None)
            self._code.pop(function, None)  # what it refers to may have changed when it is added again
        self._written = min(self._written, count)

    def __len__(self) -> int:
        return len(self._functions)

    def read(self, name: str, data: bytes) -> None:
        """Read a function from its bytes if it was supplied or may be run; otherwise it is `Missing`."""
        data = bytes(data)
        if data[: len(records.MAGIC)] != records.MAGIC:  # an old format
            data = legacy.described(data, self.trust, described)
        function = self._coded[data] if data in self._coded else self._resolved(data)
        self._functions[name] = function
        self._names[function] = name
        self._coded[data] = function
        if isinstance(function, Missing) and function not in self._missing:
            self._missing.append(function)
        if function not in self.trust.given.values():  # otherwise it may have changed, and is written as it is
            self._code[function] = data
        self._written = len(self._functions)

    def _resolved(self, data: bytes) -> Function:
        header, (code,) = records.decode(data, "a function")
        name, module = str(header["function"]), str(header["module"])
        found = self.trust.find(name)
        if found is not None:
            return found
        found = defined(name, module)
        if found is not None and meaning(found) == header["meaning"]:
            return found
        if not self.trust.allows(bytes(code)):
            names = (str(header[k]) for k in ("function", "called", "module", "meaning"))
            return Missing(*names)
        try:
            function: Function = pickle.loads(code)
        except Exception as error:
            raise StoreError(
                "E_FUNCTION",
                f"a Python function that a view uses cannot be loaded: {type(error).__name__}: {error}",
                "make its module importable from here, under the name it had",
            ) from error
        return function

    def missing(self) -> list[Missing]:
        """The functions that were not supplied."""
        return [f for f in self._missing if f.function is None]

    def require(self, where: str) -> None:
        """Refuse to continue without them."""
        missing = self.missing()
        if missing:
            raise untrusted(where, missing)

    def give(self, function: Function) -> None:
        """Supply a function in place of a missing one with the same code."""
        missing = self.missing()
        if missing and not isinstance(function, Missing):
            said = meaning(function)
            for each in missing:
                if each.meaning == said:
                    each.function = function

    def known(self, name: str) -> Function:
        """The function of a name in a catalog."""
        if name not in self._functions:
            raise refused(f"there is no function {name!r}")
        return self._functions[name]

    def replace(self, function: Function, other: Function) -> None:
        """Rebind a function's name."""
        self._functions[self._names[function]] = other

    def canonical(self, function: Function) -> Function:
        """The representative of all functions with this code: readers of a catalog cannot distinguish them."""
        if function not in self._code:
            try:
                self._code[function] = _written(function, self._travel)
            except StoreError:  # writing it will be refused
                return function
        return self._coded.setdefault(self._code[function], function)

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]


def described(function: Function, code: bytes) -> bytes:
    """The record of a function: its name, behaviour and pickle."""
    header = {
        "function": name_of(function),
        "module": str(getattr(function, "__module__", "")),
        "meaning": meaning(function),
    }
    header["called"] = str(getattr(function, "__name__", ""))
    return records.encode(header, [code])


def _written(function: Function, travel: bool) -> bytes:
    code = _pickled(function, travel)
    wrote(code)
    return described(function, code)


def _pickled(function: Function, travel: bool) -> bytes:
    import cloudpickle

    if travel:
        with suppress(Exception), _by_value(_own_modules()):  # by name, if their modules hold what cannot be pickled
            return bytes(cloudpickle.dumps(function))
    try:
        return bytes(cloudpickle.dumps(function))
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise StoreError(
            "E_FUNCTION",
            f"the Python function {name} cannot be saved: {error}",
            "it must not hold open files, locks, sessions and the like: make those inside it, or in its module",
        ) from error


def _own_modules() -> list[types.ModuleType]:
    """The modules of this process that are not installed: the program's own files."""
    library = sysconfig.get_path("stdlib")
    own = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or library
        installed = file.startswith(library) or "site-packages" in file or "dist-packages" in file
        top = name.partition(".")[0]
        if not installed and top not in ("__main__", "everview") and name == getattr(module, "__name__", ""):
            own.append(module)
    return own


@contextmanager
def _by_value(modules: list[types.ModuleType]) -> Iterator[None]:
    """Let cloudpickle write the definitions of these modules as code."""
    import cloudpickle

    new = [m for m in modules if m.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in new:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in new:
            cloudpickle.unregister_pickle_by_value(module)


def freeze(node: Node, functions: Functions) -> bytes:
    """Serialise a plan; its functions get names in `functions`.

    >>> from everview.plan import nodes as plan
    >>> from everview.types import INT
    >>> node = plan.FlatMap(plan.Table(0, (INT,)), lambda x: [x], (INT,))
    >>> known = Functions()
    >>> thaw(freeze(node, known), known) == node
    True
    """
    places: dict[int, int] = {}
    written: list[Any] = []
    try:
        for each in children_first(node):
            parts: list[Placed] = [*calls_inside(each), each]
            for part in parts:
                if id(part) not in places:
                    places[id(part)] = len(written)
                    written.append(written_node(part, places, functions.name))
        return json.dumps(written, separators=(",", ":"), allow_nan=False).encode()
    except RecursionError:
        raise StoreError(
            "E_DEPTH", "an expression is nested too deeply to be saved", "compute it in several steps, column by column"
        ) from None


def canonical(node: Node, functions: Functions) -> Node:
    """The plan with all functions of the same code replaced by one.

    >>> from everview.plan import nodes as plan
    >>> from everview.types import INT
    >>> known = Functions()
    >>> one, other = (plan.FlatMap(plan.Table(0, (INT,)), lambda x: [x], (INT,)) for _ in range(2))
    >>> one == other, canonical(one, known) == canonical(other, known)
    (False, True)
    """
    found = {f for each in children_first(node) for f in functions_of(each)}
    if all(functions.canonical(f) is f for f in found):
        return node
    named = Functions()
    data = freeze(node, named)
    for function in found:
        named.replace(function, functions.canonical(function))
    return thaw(data, named)


def thaw(data: bytes, functions: Functions) -> Node:
    """Deserialise a plan."""
    if data[:1] != b"[":  # an old format
        return legacy.thaw(data, functions)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise refused(f"it is not JSON: {error}") from None
    if not isinstance(found, list) or not found:
        raise refused("there are no nodes")
    nodes: list[Placed] = []
    for each in found:
        node = read_node(each, nodes, functions.known)
        hash(node)  # cached in the node: computed step by step, this avoids deep recursion later
        if isinstance(node, Expr):
            node.columns()
        nodes.append(node)
    if not isinstance(nodes[-1], Node):
        raise refused("it ends with an expression")
    return nodes[-1]


def functions_of(node: Node) -> Iterator[Function]:
    """The Python functions that a node itself refers to."""
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        if field.name == "function":
            yield from _given(value)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Expr):
                yield from (f for e in each.walk() if isinstance(e, Udf) for f in _given(e.function))


def _given(function: Function) -> Iterator[Function]:
    """The user's function inside a wrapper."""
    inside = getattr(function, "function", None) if wrapper(function) else function
    if inside is not None and not is_ours(inside):
        yield inside
