"""Marks: texts under names that sources and sinks commit together with their data, to know where they were."""

from __future__ import annotations

from collections.abc import Mapping


def change_marks(marks: dict[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Change some marks in place; an empty text takes one away.

    >>> change_marks({"a": "1", "b": "2"}, {"a": "3", "b": ""})
    {'a': '3'}
    """
    for name, text in changes.items():
        if text:
            marks[name] = text
        else:
            marks.pop(name, None)
    return marks
