"""Write docs/pictures/demo.svg: `everview demo` as it runs, some of its screens one after the other.

The screens are those of a real run, with the figures of the machine it runs on: run it on one that is not busy. Where
an SVG does not move (or nothing should), the first screen stays.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, Group, RenderableType

from everview.demo.money import story
from everview.demo.money.record import Position, Singles
from everview.demo.money.screen import WIDTH, Screen

PICTURE = Path(__file__).resolve().parent / "pictures" / "demo.svg"
SHOWN = (
    "Bob's card",
    "Carol pays Alice",
    "Heidi pays Kim",
    "35 to Corner Bakery",
    "Nobody does anything",
    "off the list",
)
"""The moments, by what happens in them."""
SECONDS = 3.5
PATIENT = story.Plan(pause=0.0, patience=120.0, busy=200.0, late=300.0)
"""The whole story, however long Spark takes."""
FORMAT = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Rich's form of a terminal, without fonts from the network."""


class Camera(Screen):
    """A screen that keeps pictures of itself."""

    first: list[str] = []  # noqa: RUF012
    taken: list[str] = []  # noqa: RUF012

    def single(self, singles: Singles, left: int) -> None:
        """Keep the last picture of payments that are taken one by one."""
        self.first[:] = [svg(Group(self.alone(singles, left), "\n"), "one")]

    def position(self, position: Position, mirror: Any) -> None:
        """Take a picture of a moment of the plot that is to be shown."""
        super().position(position, mirror)
        text = " ".join(sentence.text for sentence in position.sentences)
        if position.told and any(part in text for part in SHOWN):
            self.taken.append(svg(self.picture(position, mirror), f"m{len(self.taken)}"))


def svg(what: RenderableType, name: str) -> str:
    """A screen as SVG."""
    console = Console(file=io.StringIO(), record=True, width=WIDTH, force_terminal=True)
    console.print(what)
    return console.export_svg(title="everview demo", code_format=FORMAT, unique_id=name)


def film(screens: list[str]) -> str:
    """Screens as one SVG that shows them in turn."""
    heights = [float(found[2]) for found in (re.search(r'viewBox="0 0 (\S+) (\S+)"', s) for s in screens) if found]
    wide = re.search(r'viewBox="0 0 (\S+) ', screens[0])
    assert wide is not None
    part, whole = 100 / len(screens), SECONDS * len(screens)
    style = (
        f".screen {{ animation: turn {whole}s step-end infinite; opacity: 0; }} #screen0 {{ opacity: 1; }} "
        f"@keyframes turn {{ 0% {{ opacity: 1; }} {part:.3f}% {{ opacity: 0; }} 100% {{ opacity: 0; }} }} "
        "@media (prefers-reduced-motion: reduce) { .screen { animation: none; } }"
    )
    groups = [
        f'<g class="screen" id="screen{n}" style="animation-delay: {n * SECONDS}s">{one}</g>'
        for n, one in enumerate(screens)
    ]
    box = f'viewBox="0 0 {wide[1]} {max(heights)}"'
    return f'<svg {box} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{"".join(groups)}</svg>\n'


def main() -> None:
    """Tell the story, through Spark unless `--embedded`, and keep what was on the screen."""
    console = Console(file=io.StringIO(), width=WIDTH, force_terminal=True)
    spark = "--embedded" not in sys.argv
    with tempfile.TemporaryDirectory() as home:
        story.run(spark=spark, keep=Path(home), show=False, plan=PATIENT, console=console, screen=Camera)
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(film([*Camera.taken[:1], *Camera.first, *Camera.taken[1:]]), encoding="utf-8")
    print(f"{PICTURE}: {len(Camera.taken) + 1} screens")


if __name__ == "__main__":
    main()
