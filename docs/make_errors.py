"""Write docs/errors.md, the page of all error codes, from `everview.error_codes`: `make docs`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from everview.error_codes import SECTIONS

PAGE = Path(__file__).with_name("errors.md")
INTRODUCTION = """\
# Error codes

Every error is an `everview.EverviewError` with a `code` to program against, a `message` that says what is wrong in
its own case, and a `hint`. The messages may improve; the codes stay.

Written by `make docs` from `everview.error_codes`; do not edit by hand.
"""


def errors() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_tables()])


def _tables() -> Iterator[str]:
    for title, codes in SECTIONS.items():
        yield f"## {title}\n"
        yield "| code | what it means, and why | what to do |\n|---|---|---|"
        for code, meaning in sorted(codes.items()):
            cause, remedy = (text.replace("|", "\\|") for text in meaning)
            yield f"| `{code}` | {cause} | {remedy} |"
        yield ""


if __name__ == "__main__":
    PAGE.write_text(errors())
    print(f"wrote {PAGE}")
