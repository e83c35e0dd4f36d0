"""Line and bar charts with a logarithmic y axis as SVG files, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

COLOURS = ("#5b6472", "#c2571a", "#1f77b4", "#2a9d4a", "#8e44ad", "#b8860b")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 66, 20, 44, 48


def line_chart(path: Path, title: str, x_label: str, y_label: str, series: Mapping[str, Sequence[float]]) -> None:
    """Write one line per series, points at 1, 2, 3 ...; values below one are left out (a gap)."""
    longest = max(len(values) for values in series.values())
    top = math.ceil(math.log10(max(max(values) for values in series.values())))

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - 1) / max(longest - 1, 1)

    parts = [_text(WIDTH / 2, 20, title, "middle", 15), *_grid(top)]
    step = max(longest // 10, 1)
    parts += [_text(x(at), HEIGHT - BOTTOM + 18, str(at), "middle") for at in range(1, longest + 1, step)]
    parts += [_text(WIDTH / 2, HEIGHT - 8, x_label, "middle"), _text(6, 36, y_label, "start")]
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(x(i), _height(v, top)) for i, v in enumerate(values, start=1) if v >= 1]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.4" fill="{colour}"/>' for a, b in points]
        parts.append(_text(WIDTH - RIGHT - 6, TOP + 14 + 16 * number, name, "end", 12, colour))
    _write(path, parts)


def bar_chart(path: Path, title: str, y_label: str, groups: Mapping[str, Mapping[str, float]]) -> None:
    """Write a group of bars for each key, one bar per series; values below one have none."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    top = max(math.ceil(math.log10(max(max(bars.values()) for bars in groups.values()))), 1)
    room = (WIDTH - LEFT - RIGHT) / len(groups)
    width = 0.8 * room / len(names)
    parts = [_text(WIDTH / 2, 20, title, "middle", 15), _text(6, 36, y_label, "start")]
    parts += _grid(top)
    for place, (group, bars) in enumerate(groups.items()):
        left = LEFT + room * place + 0.1 * room
        parts.append(_text(left + 0.4 * room, HEIGHT - BOTTOM + 18, group, "middle"))
        for number, name in enumerate(names):
            at = HEIGHT - BOTTOM if bars.get(name, 0) < 1 else _height(bars[name], top)
            box = (
                f'x="{left + width * number:.1f}" y="{at:.1f}" width="{width:.1f}" height="{HEIGHT - BOTTOM - at:.1f}"'
            )
            parts.append(f'<rect {box} fill="{COLOURS[number % len(COLOURS)]}"/>')
    for number, name in enumerate(names):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(_text(LEFT + 110 * number, HEIGHT - 8, name, "start", 12, colour))
    _write(path, parts)


def _height(value: float, top: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log10(value) / max(top, 1)


def _grid(top: int) -> list[str]:
    """Lines at the powers of ten."""
    parts = []
    for power in range(top + 1):
        at = _height(10**power, top)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="g"/>')
        parts.append(_text(LEFT - 6, at + 4, f"{10**power:,}", "end"))
    return parts


def _write(path: Path, parts: Sequence[str]) -> None:
    style = "<style>text{font-family:sans-serif;fill:#444}.g{stroke:#ddd}</style>"
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}">{style}{background}'
        + "\n".join(parts)
        + "</svg>\n"
    )


def _text(x: float, y: float, text: str, anchor: str, size: int = 12, colour: str = "") -> str:
    fill = f' style="fill:{colour}"' if colour else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{fill}>{escape(text)}</text>'
