"""Plans as bytes: for catalogues on disk and for other processes.

A plan is written node by node, children first, so that deep plans need no deep recursion and what a plan shares stays
shared. Python functions in it are not written with it but named: equal plans must stay equal after reading, and two
views that use one function (nodes compare functions by `==`) must find one function again. `Functions` has the names.

A function of an importable module is written as its name, any other (a lambda, one of `__main__`) as its code, by
cloudpickle; reading such bytes runs code, so only read what you trust. For processes on other machines (`Functions(
travel=True)`) importable means installed: of a script's own modules, which only its directory has, the code is sent.
"""

from __future__ import annotations

import io
import pickle
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import Any

import cloudpickle

from everview.errors import StoreError
from everview.expr.nodes import Expr, Udf
from everview.plan.digest import children_first
from everview.plan.nodes import Node

Function = Callable[..., Any]


class Functions:
    """The functions of a catalogue's plans, by name and by themselves.

    >>> known = Functions()
    >>> known.name(len), known.name(max), known.name(len), [name for name, _ in known.unwritten()]
    ('f0', 'f1', 'f0', ['f0', 'f1'])
    """

    def __init__(self, *, travel: bool = False, like: Functions | None = None) -> None:
        """`travel`: for processes that lack this one's modules. `like`: another catalogue of the same session, in which
        a function has the same code, and one code is the same function.
        """
        self._travel = travel
        self._code: dict[Function, bytes] = {} if like is None else like._code
        self._coded: dict[bytes, Function] = {} if like is None else like._coded
        self._names: dict[Function, str] = {}
        self._functions: dict[str, Function] = {}
        self._written = 0

    def name(self, function: Function) -> str:
        """The function's name, a new one if it is new."""
        if function not in self._names:
            name = f"f{len(self._functions)}"  # functions of the same code were read under several names
            self._names[function] = name
            self._functions[name] = function
        return self._names[function]

    def unwritten(self) -> Iterator[tuple[str, bytes]]:
        """The functions that got names since this was last asked, as bytes."""
        names = list(self._functions)[self._written :]
        for name in names:
            function = self._functions[name]
            if function not in self._code:
                self._code[function] = _pickled(function, self._travel)
            yield name, self._code[function]
        self._written = len(self._functions)

    def go_back(self, count: int) -> None:
        """Forget the functions after the first `count`: what they were for did not happen."""
        for name in list(self._functions)[count:]:
            function = self._functions.pop(name)
            self._names.pop(function, None)
            self._code.pop(function, None)  # what it refers to may have changed when it comes again
        self._written = min(self._written, count)

    def __len__(self) -> int:
        return len(self._functions)

    def read(self, name: str, data: bytes) -> None:
        """Learn a function from its bytes."""
        try:
            data = bytes(data)
            function = self._coded[data] if data in self._coded else pickle.loads(data)
        except Exception as error:
            raise StoreError(
                "E_FUNCTION",
                f"a Python function that a view uses cannot be loaded: {type(error).__name__}: {error}",
                "make its module importable from here, under the name it had",
            ) from error
        self._functions[name] = function
        self._names[function] = name
        self._coded[data], self._code[function] = function, data
        self._written = len(self._functions)

    def replace(self, function: Function, other: Function) -> None:
        """Let a function's name mean another one from now on."""
        self._functions[self._names[function]] = other

    def canonical(self, function: Function) -> Function:
        """The function that has this one's code: whoever reads a catalogue cannot tell such functions apart."""
        if function not in self._code:
            try:
                self._code[function] = _pickled(function, self._travel)
            except StoreError:  # it will be refused if it has to be written
                return function
        return self._coded.setdefault(self._code[function], function)

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]


def _pickled(function: Function, travel: bool) -> bytes:
    if travel:
        with suppress(Exception), _by_value(_own_modules()):  # as names, if their modules hold what cannot travel
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
    """The modules of this process that are not installed: the files of the program itself."""
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
    """Have cloudpickle write what these modules define as code."""
    new = [m for m in modules if m.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in new:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in new:
            cloudpickle.unregister_pickle_by_value(module)


class _Writer(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles one node; other nodes and functions become names."""

    def __init__(self, file: io.BytesIO, places: dict[int, int], functions: Functions) -> None:
        super().__init__(file)
        self.places = places
        self.functions = functions
        self.node: Node | None = None
        self.named: set[int] = set()

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, Node) and value is not self.node:
            return self.places[id(value)]
        if id(value) in self.named:
            return self.functions.name(value)
        return None


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, nodes: list[Node], functions: Functions) -> None:
        super().__init__(file)
        self.nodes = nodes
        self.functions = functions

    def persistent_load(self, name: Any) -> Any:
        return self.functions[name] if isinstance(name, str) else self.nodes[name]


def freeze(node: Node, functions: Functions) -> bytes:
    """A plan as bytes; its functions get names in `functions`.

    >>> from everview.plan import nodes as plan
    >>> from everview.types import INT
    >>> node = plan.FlatMap(plan.Table(0, (INT,)), lambda x: [x], (INT,))
    >>> known = Functions()
    >>> thaw(freeze(node, known), known) == node
    True
    """
    file = io.BytesIO()
    places: dict[int, int] = {}
    for place, each in enumerate(children_first(node)):
        writer = _Writer(file, places, functions)
        writer.node = each
        writer.named = {id(f) for f in _functions_of(each)}
        writer.dump(each)
        places[id(each)] = place
    return file.getvalue()


def canonical(node: Node, functions: Functions) -> Node:
    """The plan with one function in the place of all that have the same code.

    >>> from everview.plan import nodes as plan
    >>> from everview.types import INT
    >>> known = Functions()
    >>> one, other = (plan.FlatMap(plan.Table(0, (INT,)), lambda x: [x], (INT,)) for _ in range(2))
    >>> one == other, canonical(one, known) == canonical(other, known)
    (False, True)
    """
    found = {f for each in children_first(node) for f in _functions_of(each)}
    if all(functions.canonical(f) is f for f in found):
        return node
    named = Functions()
    data = freeze(node, named)
    for function in found:
        named.replace(function, functions.canonical(function))
    return thaw(data, named)


def thaw(data: bytes, functions: Functions) -> Node:
    """A plan from its bytes."""
    file = io.BytesIO(data)
    nodes: list[Node] = []
    while file.tell() < len(data):
        node = _Reader(file, nodes, functions).load()
        hash(node)  # kept in the node: made step by step, no deep recursion comes later
        nodes.append(node)
    return nodes[-1]


def _functions_of(node: Node) -> Iterator[Function]:
    """The Python functions that a node itself names."""
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        if field.name == "function":
            yield value
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Expr):
                yield from (e.function for e in each.walk() if isinstance(e, Udf))
