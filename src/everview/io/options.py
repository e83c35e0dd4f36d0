"""Rejects options by their names in other libraries, and suggests ours.

Python only reports an unknown keyword as unexpected. Users of pandas, polars, DuckDB and Spark use their names; those
are few, and are recognised.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from everview.errors import InputError, did_you_mean

ELSEWHERE = {
    "delim": "delimiter",
    "sep": "delimiter",
    "separator": "delimiter",
    "quotechar": "quote",
    "quote_char": "quote",
    "names": "header",
    "columns": "header",
    "has_header": "header",
    "na_values": "null",
    "null_values": "null",
    "nullstr": "null",
    "nullValue": "null",
    "follow": "tail",
    "sort": "order",
}
"""Options of other libraries, and their names here."""

NOT_OF_FILES = {
    "schema": 'give it to the source: db.source(name, ..., schema={"column": type})',
    "dtype": 'give types to the source: db.source(name, ..., schema={"column": type})',
    "key": 'give it to the source: db.source(name, ..., key="id")',
    "mode": 'give it to the source or sink: db.source(name, ..., mode="snapshot")',
    "encoding": "files are read as UTF-8: convert them first",
    "compression": "it is told by the ending of the name: .gz",
}
"""Options that belong elsewhere."""

Made = TypeVar("Made", bound=Callable[..., Any])


def known_options(function: Made) -> Made:
    """Make a function refuse unknown keywords with an error of ours.

    >>> import everview as ev
    >>> try:
    ...     ev.io.csv("x.csv", sep=";")
    ... except ev.InputError as error:
    ...     print(error)
    [E_OPTION] csv has no option sep
      hint: it is called delimiter here: csv(path, delimiter=';')
    """
    signature = inspect.signature(function)
    known = [p.name for p in signature.parameters.values() if p.kind is not inspect.Parameter.POSITIONAL_ONLY]
    name = getattr(function, "__name__", "")

    @functools.wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        for option, value in options.items():
            if option not in known:
                raise InputError("E_OPTION", f"{name} has no option {option}", _hint(name, option, value, known))
        try:
            signature.bind(*args, **options)
        except TypeError as error:
            raise InputError("E_OPTION", f"{name}: {error}", f"write {name}(path, option=...)") from None
        return function(*args, **options)

    return cast(Made, checked)


def _hint(function: str, option: str, value: Any, known: list[str]) -> str:
    if option in NOT_OF_FILES:
        return NOT_OF_FILES[option]
    here = ELSEWHERE.get(option)
    if here in known:
        return f"it is called {here} here: {function}(path, {here}={value!r})"
    return did_you_mean(option, [n for n in known if n != "path"])
