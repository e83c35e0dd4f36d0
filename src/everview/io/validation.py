"""Validation of arguments of sources, sinks and runs.

An invalid option is refused where it is given, by name, rather than later by some library. File system errors (an
unreachable path, a directory that is a file) become our errors through `reaching`. The same goes for user-defined
sources and sinks: an invalid return value is refused with the name of the method (`answered`).

Hazard: exceptions *raised* by a user-defined source or sink are passed through, because they belong to the caller.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from everview.errors import EverviewError, InputError
from everview.store.folder_names import encodable, is_path


def path_of(given: Any) -> str:
    """A path as text.

    >>> path_of(b"in")
    Traceback (most recent call last):
        ...
    everview.errors.InputError: [E_FILE] b'in' is not a path
      hint: give a file, a directory, a pattern or a URI, as a text or a pathlib.Path
    """
    text = given
    if isinstance(given, os.PathLike):
        text = os.fspath(given)
    if not isinstance(text, str) or not is_path(text):
        raise InputError(
            "E_FILE",
            f"{given!r} is not a path",
            "give a file, a directory, a pattern or a URI, as a text or a pathlib.Path",
        )
    return text


def text_option(option: str, given: Any, example: str) -> str:
    """An option that is a text, and not an empty one."""
    if not isinstance(given, str) or not given or not encodable(given):
        raise InputError("E_OPTION", f"{option}={given!r} is not a usable string", f"give a string such as {example}")
    return given


def sign_option(option: str, given: Any) -> str:
    """An option that is one sign of ASCII, and no line break."""
    if not isinstance(given, str) or len(given) != 1 or not given.isascii() or given in "\r\n\0":
        raise InputError(
            "E_OPTION", f"{option}={given!r}: it must be one sign", f'give one of ASCII, like {option}=";"'
        )
    return given


def flag_option(option: str, given: Any) -> bool:
    """A Boolean option."""
    if not isinstance(given, bool):
        raise InputError("E_OPTION", f"{option}={given!r} says neither yes nor no", "give True or False")
    return given


def choice_option(option: str, given: Any, known: Sequence[str], code: str = "E_OPTION") -> str:
    """An option with fixed choices."""
    if not isinstance(given, str) or given not in known:
        words = " or ".join(f'{option}="{word}"' for word in known)
        raise InputError(code, f"{option}={given!r} is not known", f"use {words}")
    return given


def names_option(option: str, given: Any) -> tuple[str, ...]:
    """An option that is one name or several."""
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError("E_OPTION", f"{option}={given!r} names no columns", f'say {option}="a" or {option}=["a", "b"]')
    return tuple(names)


def schema_option(given: Any) -> Mapping[str, Any] | None:
    """Names and types of columns, or None."""
    if given is not None and not isinstance(given, Mapping):
        raise InputError("E_SCHEMA", f"schema={given!r} does not say columns", 'give schema={"column": type, ...}')
    return given


@contextmanager
def reaching(
    what: str, code: str = "E_FILE", hint: str = "is the path right, and may it be read and written?"
) -> Iterator[None]:
    """Convert file system errors into ours."""
    try:
        yield
    except EverviewError:
        raise
    except (OSError, pa.ArrowException, ValueError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(code, f"{what}: {said[:300]}", hint) from error


def answered(who: str, method: str, answer: Any, kinds: type | tuple[type, ...], wanted: str) -> Any:
    """Check the type of a value returned by a user-defined source or sink."""
    if not isinstance(answer, kinds) or (isinstance(answer, bool) and bool not in _tuple(kinds)):
        raise InputError("E_ANSWER", f"{who}: {method}() answered {answer!r}", f"{method}() must answer {wanted}")
    return answer


def lacks(who: Any, method: str, code: str, hint: str = "define it") -> InputError:
    """Return the error for a method that a user-defined source or sink lacks."""
    return InputError(code, f"{type(who).__name__} has no {method}()", hint)


def _tuple(kinds: type | tuple[type, ...]) -> tuple[type, ...]:
    return kinds if isinstance(kinds, tuple) else (kinds,)
