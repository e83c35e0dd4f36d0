"""Offsets: named texts that sources and sinks commit together with their data to record their positions."""

from __future__ import annotations

from collections.abc import Mapping


def change_offsets(offsets: dict[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Change some offsets in place; an empty text removes one.

    >>> change_offsets({"a": "1", "b": "2"}, {"a": "3", "b": ""})
    {'a': '3'}
    """
    for name, text in changes.items():
        if text:
            offsets[name] = text
        else:
            offsets.pop(name, None)
    return offsets
