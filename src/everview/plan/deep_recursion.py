"""Functions of plans of any depth, computed once for each node.

A plan is a graph, not a tree: `c.union_all(c)` reads one node twice, and thirty of those in a row are thirty nodes and
a billion paths. It can also be deep: a program that adds filters in a loop makes a chain of thousands, more than
Python's stack holds. Functions over all nodes of a plan are therefore written in one of two ways:

    drive      a recursive function as a generator, which *yields* what it depends on and is sent the results:
               it needs no stack, and computes each result once
    Staged     a memoised recursive function: before a deep plan it is called for the nodes at every fortieth level,
               lowest first, so that it never recurses deeper than that

Traversals of all nodes in any order need neither (`Node.walk`, `everview.plan.check.postorder`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, MutableMapping
from functools import wraps
from typing import Any, Generic, TypeVar

from everview.plan.nodes import Loop, Node

Answer = TypeVar("Answer")
Question = TypeVar("Question", bound=Hashable)

STAGE = 40
"""Levels of a plan that a recursive function may descend at once; each is a handful of Python frames."""


def drive(
    step: Callable[..., Generator[Question, Any, Answer]], question: Question, known: MutableMapping[Question, Answer]
) -> Answer:
    """The result for a key: `step` yields the keys it depends on. Results are memoised in `known`.

    >>> def total(n):
    ...     return n + (yield n - 1) if n else 0
    >>> drive(total, 10_000, {})
    50005000
    """
    if question in known:
        return known[question]
    todo = [(question, step(question))]
    answer: Any = None
    while todo:
        asked, generator = todo[-1]
        try:
            wanted = generator.send(answer)
        except StopIteration as done:
            answer = known[asked] = done.value
            todo.pop()
            continue
        if wanted in known:
            answer = known[wanted]
        else:
            todo.append((wanted, step(wanted)))
            answer = None
    return known[question]


def of_node(step: Callable[[Node], Generator[Node, Any, Answer]]) -> Callable[[Node], Answer]:
    """A function of a node whose `step` may request the results of other nodes; cached per node.

    >>> from everview.plan.nodes import Negate, Table
    >>> from everview.types import INT
    >>> @of_node
    ... def signs(node):
    ...     return 1 + (yield node.child) if isinstance(node, Negate) else 0
    >>> node = Table(0, (INT,))
    >>> for _ in range(5000):
    ...     node = Negate(node)
    >>> signs(node)
    5000
    """
    known = _InNodes(f"_deep_{step.__name__}")

    @wraps(step)
    def answer(node: Node) -> Answer:
        found: Answer = drive(step, node, known)
        return found

    return answer


class _InNodes(dict[Node, Any]):
    """Results that live as long as their nodes (nodes are compared by identity here)."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __contains__(self, node: object) -> bool:
        return self.name in node.__dict__

    def __getitem__(self, node: Node) -> Any:
        return node.__dict__[self.name]

    def __setitem__(self, node: Node, answer: Any) -> None:
        node.__dict__[self.name] = answer


@of_node
def height(node: Node) -> Generator[Node, int, int]:
    """The length of the longest path downwards."""
    most = 0
    for child in node.children():
        most = max(most, (yield child))
    return most + 1


def stages(node: Node, known: Callable[[Node], bool]) -> Iterator[Node]:
    """The nodes below at every fortieth level, lowest first, down to known ones; not those inside loops.

    >>> from everview.plan.nodes import Negate, Table
    >>> from everview.types import INT
    >>> node = Table(0, (INT,))
    >>> for _ in range(250):
    ...     node = Negate(node)
    >>> [height(n) for n in stages(node, lambda n: False)]
    [40, 80, 120, 160, 200, 240]
    """
    if height(node) <= STAGE:
        return
    found: list[Node] = []
    seen: set[int] = {id(node)}
    todo = [node]
    while todo:
        for child in todo.pop().children():
            if id(child) in seen or isinstance(child, Loop) or height(child) < STAGE or known(child):
                continue
            seen.add(id(child))
            todo.append(child)
            if height(child) % STAGE == 0:
                found.append(child)
    yield from sorted(found, key=height)


class Staged(Generic[Answer]):
    """A memoised recursive function of nodes: distant nodes are computed first.

    >>> from everview.plan.nodes import Negate, Table
    >>> from everview.types import INT
    >>> found = {}
    >>> def signs(node):
    ...     if id(node) not in found:
    ...         found[id(node)] = 1 + staged(node.child) if isinstance(node, Negate) else 0
    ...     return found[id(node)]
    >>> staged = Staged(signs, lambda node: id(node) in found)
    >>> node = Table(0, (INT,))
    >>> for _ in range(5000):
    ...     node = Negate(node)
    >>> staged(node)
    5000
    """

    def __init__(self, function: Callable[[Node], Answer], known: Callable[[Node], bool]) -> None:
        self._function = function
        self._known = known
        self._nested = 0

    def __call__(self, node: Node) -> Answer:
        if self._nested % (STAGE // 2) == 0:
            for below in stages(node, self._known):
                self(below)
        self._nested += 1
        try:
            return self._function(node)
        finally:
            self._nested -= 1


def settled(node: Node) -> Node:
    """The node, with its hash and types computed step by step, which avoids deep recursion later."""
    hash(node)
    if not isinstance(node, Loop):
        _ = node.types
    return node
