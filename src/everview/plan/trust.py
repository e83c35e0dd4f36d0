"""Trust: which Python functions in a catalog may be run.

Everything else in a directory is data (`everview.plan.serialisation`); a function is code, and so is the pickle that it
is stored as. It is only unpickled if one of these holds:

- this process has written that very pickle itself, or
- the program supplied a function of that name: `everview.connect(..., functions=[f, g])`; then that one runs, or
- its main module defines, at its top level, a function of that name with the same code; then that one runs, or
- the program trusts the writer of the directory: `trust=True`.

Otherwise it is `Missing`: known by its name and a hash of its code, and a placeholder for the function in plans. State
computed with it can be read; the first step that would call it is refused. A program that declares its views again
thereby supplies their functions (`Functions.give`).
"""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from everview.errors import InputError, StoreError

Function = Callable[..., Any]

_written: set[bytes] = set()
"""Hashes of the pickles created by this process."""

LAMBDA = "<lambda>"


def name_of(function: Function) -> str:
    """The qualified name of a function in its module.

    >>> name_of(len), name_of(print)
    ('len', 'print')
    """
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def defined(name: str, module: str) -> Function | None:
    """The function of that name at the top level of the program's main module."""
    found = vars(sys.modules["__main__"]).get(name) if module == "__main__" else None
    return found if isinstance(found, types.FunctionType) and found.__module__ == "__main__" else None


def wrote(code: bytes) -> None:
    """Record a pickle created by this process."""
    _written.add(hashlib.sha256(code).digest())


@dataclass(frozen=True)
class Trust:
    """What a program allows a directory to run: what it has supplied, or `everything`."""

    everything: bool = False
    given: Mapping[str, Function] = field(default_factory=dict)
    where: str = "the directory"

    @classmethod
    def of(cls, trust: Any, functions: Any, where: str) -> Trust:
        """From the options of `everview.connect`.

        >>> Trust.of(False, [len], "here").given
        {'len': <built-in function len>}
        """
        if not isinstance(trust, bool):
            raise InputError("E_OPTION", f"trust is {trust!r}", "give True or False")
        if isinstance(functions, Mapping):
            given = dict(functions)
        elif isinstance(functions, Iterable):
            given = {name_of(f): f for f in functions}
        else:
            given = {"": functions}
        for name, function in given.items():
            if not isinstance(name, str) or not callable(function):
                raise InputError("E_OPTION", f"functions={functions!r}", "give functions, or a dict of them by name")
        return cls(trust, given, where)

    def allows(self, code: bytes) -> bool:
        """Whether a pickle may be unpickled."""
        return self.everything or hashlib.sha256(code).digest() in _written

    def find(self, name: str) -> Function | None:
        """The supplied function of this name; lambdas have none."""
        last = name.rpartition(".")[2]
        return None if last == LAMBDA else self.given.get(name) or self.given.get(last)


NOBODY = Trust()
EVERYBODY = Trust(everything=True)


class Missing:
    """A function that has not been supplied."""

    def __init__(self, name: str, called: str, module: str, meaning: str) -> None:
        self.__qualname__ = name
        if called:  # not every callable has a name
            self.__name__ = called
        self.module = module
        self.meaning = meaning
        self.function: Function | None = None

    def __call__(self, *args: Any, **more: Any) -> Any:
        if self.function is None:
            raise untrusted("a view", [self])
        return self.function(*args, **more)

    def __repr__(self) -> str:
        return f"{self.module}.{self.__qualname__}"


def untrusted(where: str, missing: Iterable[Missing]) -> StoreError:
    """Return the error for functions that were not supplied."""
    names = ", ".join(sorted({repr(m) for m in missing}))
    return StoreError(
        "E_TRUST",
        f"{where} uses Python functions that this program has not given: {names}",
        "give them, everview.connect(..., functions=[f, ...]), or declare the views that use them again before "
        "anything else; or, if you trust whoever wrote the directory, everview.connect(..., trust=True) runs the code "
        "in it",
    )


def old_format(where: str) -> StoreError:
    """Return the error for catalogs in the pickle format."""
    return StoreError(
        "E_FORMAT",
        f"{where} was written by an older Everview, whose catalogue is code that would be run",
        "if you trust whoever wrote it, open it once with everview.connect(..., trust=True), which writes it anew",
    )
