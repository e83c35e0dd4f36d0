"""Write docs/reference.md from the docstrings of the public names: `make docs`.

A test compares the page with what this script would write, so the reference cannot fall behind the code.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import everview
from everview.expr.functions import FUNCTIONS
from everview.expr.language import Expression

PAGE = Path(__file__).with_name("reference.md")
INTRODUCTION = """\
# Reference

Every public name of `everview`, from its docstring; then those of `everview.io`, `graph`, `notebook` and `spark`.
Written by `make docs`; do not edit by hand.
"""
PARTS = ("io", "graph", "notebook", "spark")
"""Parts of the package with public names of their own."""


def reference() -> str:
    """The whole page."""
    names = sorted(everview.__all__, key=str.lower)
    own = (line for name in names for line in _entry(name, getattr(everview, name)))
    parts = (line for part in PARTS for line in _part(part))
    return "\n".join([INTRODUCTION, *own, *_expressions(), *parts])


def _part(part: str) -> Iterator[str]:
    """The names of a part of the package, each with its path: `everview.io.csv`."""
    module = getattr(everview, part)
    yield f"## `everview.{part}`\n"
    yield _text(module).split("\n\n")[0].strip() + "\n"
    for name in sorted(_public(module), key=str.lower):
        yield from _entry(f"{part}.{name}", getattr(module, name))


def _public(module: Any) -> list[str]:
    return list(getattr(module, "__all__", ()))


def _expressions() -> Iterator[str]:
    yield "## Expressions\n"
    yield "Columns and literals combine with `+ - * / // % **`, comparisons, `& | ~`, and these methods:\n"
    yield "| method | meaning |\n|---|---|"
    for name in sorted(n for n in dir(Expression) if not n.startswith("_")):
        meaning = FUNCTIONS[name].doc if name in FUNCTIONS else (inspect.getdoc(getattr(Expression, name)) or "")
        yield f"| `{name}` | {meaning.split(chr(10))[0].replace('|', chr(92) + '|')} |"
    yield "\nWhat each means for NULL, overflow, time zones and the like: the docstring of `everview.expr.functions`.\n"


def _entry(name: str, thing: Any) -> Iterator[str]:
    yield f"## {_heading(name, thing)}\n"
    yield _text(thing)
    if inspect.isclass(thing):
        for member_name, member in _members(thing):
            yield f"### {_heading(f'{name}.{member_name}', member)}\n"
            yield _text(member)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of the class and of the parts it is made of (those that have no page of their own),
    in the order of their sources.
    """
    seen = set()
    for part in cls.__mro__:
        if part is not cls and (hasattr(everview, part.__name__) or not part.__module__.startswith("everview.")):
            continue
        for name, member in vars(part).items():
            if name not in seen and not name.startswith("_") and (callable(member) or isinstance(member, property)):
                seen.add(name)
                yield name, member


def _heading(name: str, thing: Any) -> str:
    if inspect.isclass(thing) or not callable(thing):
        return f"`{name}`"
    try:
        parameters = [p for p in inspect.signature(thing).parameters.values() if p.name != "self"]
    except (TypeError, ValueError):
        return f"`{name}`"
    return f"`{name}({', '.join(_parameter(p) for p in parameters)})`"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"
    return f"{stars}{parameter.name}{default}"


def _text(thing: Any) -> str:
    """The docstring as Markdown: its doctests and drawings become code blocks of their own."""
    lines: list[str] = []
    for paragraph in (inspect.getdoc(thing) or "").split("\n\n"):
        if paragraph.startswith((">>>", "    ")):
            lines.append(f"```pycon\n{textwrap.dedent(paragraph)}\n```\n")
        else:
            lines.append(f"{paragraph}\n")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(reference())
    print(f"wrote {PAGE}")
