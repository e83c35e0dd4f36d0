"""Immutable lists and dictionaries: the Python values of arrays, structs, maps and JSON.

They equal plain lists and dictionaries and are hashable, as rows must be. To change one, copy it with `list(x)` or
`dict(x)`.

`JSON_NULL` is a top-level JSON null, where None would be SQL's NULL. Inside lists and objects null is None.
"""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    kind = "list" if isinstance(self, list) else "dict"
    raise TypeError(f"a value of the database cannot be changed; change a copy: {kind}(x)")


class FrozenList(list[Any]):
    """An immutable list.

    >>> FrozenList([1, 2]) == [1, 2], {FrozenList([1, 2])} == {FrozenList([1, 2])}
    (True, True)
    """

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return FrozenList, (list(self),)

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse


class FrozenDict(dict[Any, Any]):
    """An immutable dictionary.

    >>> hash(FrozenDict({"a": 1, "b": 2})) == hash(FrozenDict({"b": 2, "a": 1}))
    True
    """

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return FrozenDict, (dict(self),)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


class JsonNull:
    """The type of a top-level JSON null."""

    _only: JsonNull | None = None

    def __new__(cls) -> JsonNull:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "null"

    def __reduce__(self) -> Any:
        return JsonNull, ()


JSON_NULL = JsonNull()
"""A top-level JSON null."""


def frozen(value: Any) -> Any:
    """A value with immutable lists, tuples and dictionaries.

    >>> frozen({"a": [1]})
    {'a': [1]}
    """
    if isinstance(value, (list, tuple)):
        return FrozenList(map(frozen, value))
    if isinstance(value, dict):
        return FrozenDict({key: frozen(item) for key, item in value.items()})
    return value
