"""Draws derivations: as a tree in a terminal, as a picture in a notebook.

A branch that was drawn already is only named; the reader finds it above.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everview.why.derivation import Derivation

LINE, INDENT, CHARACTER = 24, 22, 7.3
"""Height of a line, width of an indent and of a character in a picture."""

MOST_DRAWN = 500
"""Maximum number of rows in a picture."""

MOST_WRITTEN = 3000
"""Maximum number of lines of text: each is as long as its row is deep, so a chain of 20,000 rows would fill a
gigabyte."""

COLOURS = {
    "table": "#1f6f43", "constant": "#6b6b6b", "view": "#1b4b8f", "loop": "#1b4b8f", "group": "#8a5a00",
    "absent": "#a11d1d", "clock": "#6b6b6b",
}  # fmt: skip


def shown(values: tuple[Any, ...]) -> str:
    """Values of a row; an underscore for any value."""
    return ", ".join("NULL" if v is None else repr(v) for v in values)


def title(d: Derivation) -> str:
    """A derivation's row in one line."""
    if d.kind == "absent":
        return f"no row {d.source}({', '.join('_' if v is None else repr(v) for v in d.row)})"
    return f"{d.source}({shown(d.row)})"


def remark(d: Derivation) -> str:
    """The remark after the row."""
    parts = [f"by {d.rule}"] if d.rule else []
    parts += [d.how] if d.how else []
    shown_rows = sum(1 for c in d.children if c.kind != "absent")
    if d.of is not None and d.of > shown_rows:
        parts.append(f"{shown_rows} of {d.of} rows shown")
    return "; ".join(parts)


def lines(root: Derivation, most: int) -> list[tuple[str, Derivation, bool]]:
    """(prefix, the derivation, whether its branches were drawn already), top to bottom; the first of them."""
    found: list[tuple[str, Derivation, bool]] = []
    drawn: set[int] = set()
    todo = [("", "", root)]
    while todo and len(found) < most:
        before, below, d = todo.pop()
        again = id(d) in drawn and bool(d.children)
        found.append((before, d, again))
        drawn.add(id(d))
        if again:
            continue
        last = len(d.children) - 1
        for i, child in reversed(list(enumerate(d.children))):
            todo.append((below + ("└─ " if i == last else "├─ "), below + ("   " if i == last else "│  "), child))
    return found


def left_out(root: Derivation, drawn: list[tuple[str, Derivation, bool]]) -> str:
    """The note about rows that are not drawn."""
    missing = len({id(d) for d in root.walk()} - {id(d) for _, d, _ in drawn})
    return f"... and {missing} more rows" if missing else ""


def text(root: Derivation) -> str:
    """The tree for a terminal."""
    made = []
    drawn = lines(root, MOST_WRITTEN)
    for before, d, again in drawn:
        note = "as above" if again else remark(d)
        made.append(f"{before}{title(d)}" + (f"  {note}" if note else ""))
    more = left_out(root, drawn)
    return "\n".join([*made, f"{more}; to_dict() has all of them"] if more else made)


def svg(root: Derivation) -> str:
    """The tree as a picture."""
    drawn = lines(root, MOST_DRAWN)
    more = left_out(root, drawn)
    parts: list[str] = []
    wide = 0.0
    last_at: dict[int, int] = {}
    for n, (before, d, again) in enumerate(drawn):
        depth = len(before) // 3
        x, y = 10 + depth * INDENT, 18 + n * LINE
        if depth:
            up = 18 + last_at[depth - 1] * LINE
            parts.append(
                f'<path d="M{x - INDENT + 4} {up + 5} V{y - 4} H{x - 4}" fill="none" stroke="#999" stroke-width="1"/>'
            )
        last_at[depth] = n
        name, note = title(d), "as above" if again else remark(d)
        parts.append(
            f'<text x="{x}" y="{y}" fill="{COLOURS[d.kind]}">{html.escape(name)}'
            f'<tspan fill="#777" font-style="italic">  {html.escape(note)}</tspan></text>'
        )
        wide = max(wide, x + CHARACTER * (len(name) + len(note) + 4))
    if more:
        parts.append(f'<text x="10" y="{18 + len(drawn) * LINE}" fill="#777">{more}</text>')
    height = 18 + (len(drawn) + bool(more)) * LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{height}" '
        f'font-family="ui-monospace, monospace" font-size="12">{"".join(parts)}</svg>'
    )
