"""Reads catalogs in their old format: pickles.

Only for programs that trust the writer, so that a directory can be opened and rewritten. Reading one runs whatever code
is in it.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everview.errors import StoreError
from everview.plan.trust import Trust, old_format

if TYPE_CHECKING:
    from everview.plan.nodes import Node
    from everview.plan.serialisation import Functions


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, nodes: list[Node], functions: Functions) -> None:
        super().__init__(file)
        self.nodes = nodes
        self.functions = functions

    def persistent_load(self, name: Any) -> Any:
        return self.functions.known(name) if isinstance(name, str) else self.nodes[name]


def thaw(data: bytes, functions: Functions) -> Node:
    """Deserialise a plan."""
    permit(functions.trust)
    file = io.BytesIO(data)
    nodes: list[Node] = []
    while file.tell() < len(data):
        node = _Reader(file, nodes, functions).load()
        hash(node)
        nodes.append(node)
    functions.old = True
    return nodes[-1]


def described(data: bytes, trust: Trust, write: Callable[[Any, bytes], bytes]) -> bytes:
    """A function in the current format."""
    permit(trust)
    try:
        return write(pickle.loads(data), data)
    except Exception as error:
        raise StoreError(
            "E_FUNCTION",
            f"a Python function that a view uses cannot be loaded: {type(error).__name__}: {error}",
            "make its module importable from here, under the name it had",
        ) from error


def command(data: bytes, functions: Functions) -> Any:
    """A command of shards in the old format."""
    permit(functions.trust)
    functions.old = True
    return pickle.loads(data)


def permit(trust: Trust) -> None:
    """Refuse to run untrusted code."""
    if not trust.everything:
        raise old_format(trust.where)
