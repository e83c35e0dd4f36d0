"""Notebooks: whether this is one, and pieces of a page that can be written again.

IPython is never imported: in a notebook it is there already.
"""

from __future__ import annotations

import html
import sys
from typing import Any


def in_notebook() -> bool:
    """Whether output goes to a notebook's page (Jupyter and what is like it).

    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class Piece:
    """A piece of a notebook's page."""

    def __init__(self, page: str) -> None:
        from IPython.display import HTML, display

        self._made = HTML
        self._handle: Any = display(HTML(page), display_id=True)

    def write(self, page: str) -> None:
        """Put something else in its place."""
        self._handle.update(self._made(page))


def line(text: str) -> str:
    """A line of text as a page has it.

    >>> line("a < b")
    '<pre style="margin:0">a &lt; b</pre>'
    """
    return f'<pre style="margin:0">{html.escape(text)}</pre>'
