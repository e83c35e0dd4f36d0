"""The demos of `everview demo`: money, and mentions.

- `money`: rings of accounts, and who pays a sanctioned one within six hops, over a stream of payments;
- `mentions`: strongly connected components in a window that slides, the demonstration of the 2013 paper.

Shared parts: `spark`, a session that starts quietly in the background; `change_collector`, changes of several views;
`pages`, a page with its data inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from everview.demo import pages

Name = Literal["money", "mentions"]


def run(
    story: Name = "money",
    *,
    data: Path | None = None,
    fast: bool = False,
    spark: bool = True,
    keep: Path | None = None,
    show: bool = True,
) -> Path:
    """Run a demo on the terminal; returns the path of its page, which `show` opens if there is a display."""
    if story == "mentions":
        from everview.demo import mentions

        path = mentions.run(data=data, fast=fast, spark=spark, keep=keep)
        if show:
            pages.open_page(path)
        return path
    from everview.demo import money

    return money.run(data_file=data, fast=fast, spark=spark, keep=keep, show=show)
