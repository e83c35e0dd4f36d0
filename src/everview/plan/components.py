"""Dependency order of mutually recursive definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def components(reads: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Strongly connected groups of names, dependencies first (Tarjan). Iterative, so chains may be of any length.

    >>> components({"a": ["b"], "b": ["c", "b"], "c": ["b", "d"], "d": []})
    [['d'], ['b', 'c'], ['a']]
    >>> len(components({str(i): [str(i + 1)] if i < 5000 else [] for i in range(5001)}))
    5001
    """
    found: list[list[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: dict[str, None] = {}
    entered: list[tuple[str, Iterator[str]]] = []

    def enter(name: str) -> None:
        number[name] = low[name] = len(number)
        path[name] = None
        entered.append((name, iter(reads[name])))

    def leave(name: str) -> None:
        entered.pop()
        if entered:
            parent = entered[-1][0]
            low[parent] = min(low[parent], low[name])
        if low[name] == number[name]:
            group: list[str] = []
            while not group or group[-1] != name:
                group.append(path.popitem()[0])
            found.append(group[::-1])

    for start in reads:
        if start not in number:
            enter(start)
        while entered:
            name, others = entered[-1]
            other = next(others, None)
            if other is None:
                leave(name)
            elif other not in number:
                enter(other)
            elif other in path:
                low[name] = min(low[name], number[other])
    return found
