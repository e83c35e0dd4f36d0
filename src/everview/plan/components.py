"""Which definitions read each other: the order in which they can be built."""

from __future__ import annotations


def components(reads: dict[str, list[str]]) -> list[list[str]]:
    """Groups of names that read each other, those that are read first (Tarjan).

    >>> components({"a": ["b"], "b": ["c", "b"], "c": ["b", "d"], "d": []})
    [['d'], ['b', 'c'], ['a']]
    """
    found: list[list[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        path.append(name)
        for other in reads[name]:
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in path:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            at = path.index(name)
            found.append(path[at:])
            del path[at:]

    for name in reads:
        if name not in number:
            visit(name)
    return found
