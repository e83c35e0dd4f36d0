"""Lists and dictionaries that stay as they are: what arrays, structs, maps and JSON are in Python.

They equal plain lists and dictionaries, and can stand in a set or be keys of a dictionary, as rows must. Changing one
is refused: `list(x)` or `dict(x)` makes a copy that can be changed.

`JSON_NULL` is JSON's null where it stands alone; None is SQL's NULL there. Inside lists and objects null is None.
"""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    kind = "list" if isinstance(self, list) else "dict"
    raise TypeError(f"a value of the database cannot be changed; change a copy: {kind}(x)")


class FrozenList(list[Any]):
    """A list that cannot be changed.

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
    """A dictionary that cannot be changed.

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
    """JSON's null, standing alone."""

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
"""JSON's null as a value of its own."""


def frozen(value: Any) -> Any:
    """A value whose lists, tuples and dictionaries cannot be changed.

    >>> frozen({"a": [1]})
    {'a': [1]}
    """
    if isinstance(value, (list, tuple)):
        return FrozenList(map(frozen, value))
    if isinstance(value, dict):
        return FrozenDict({key: frozen(item) for key, item in value.items()})
    return value
