"""A line chart with a logarithmic y axis as an SVG file, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

COLOURS = ("#5b6472", "#c2571a", "#1f77b4", "#2a9d4a", "#8e44ad")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 66, 20, 44, 48


def line_chart(path: Path, title: str, x_label: str, y_label: str, series: Mapping[str, Sequence[float]]) -> None:
    """Write one line per series, points at 1, 2, 3 ...; values below one are left out (a gap)."""
    longest = max(len(values) for values in series.values())
    top = math.ceil(math.log10(max(max(values) for values in series.values())))

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - 1) / max(longest - 1, 1)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log10(value) / max(top, 1)

    parts = [_text(WIDTH / 2, 20, title, "middle", 15)]
    for power in range(top + 1):
        at = y(10**power)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="g"/>')
        parts.append(_text(LEFT - 6, at + 4, f"{10**power:,}", "end"))
    step = max(longest // 10, 1)
    parts += [_text(x(at), HEIGHT - BOTTOM + 18, str(at), "middle") for at in range(1, longest + 1, step)]
    parts += [_text(WIDTH / 2, HEIGHT - 8, x_label, "middle"), _text(6, 36, y_label, "start")]
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(x(i), y(v)) for i, v in enumerate(values, start=1) if v >= 1]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.4" fill="{colour}"/>' for a, b in points]
        parts.append(_text(WIDTH - RIGHT - 6, TOP + 14 + 16 * number, name, "end", 12, colour))
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
