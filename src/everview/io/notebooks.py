"""Notebook detection, and output that can be rewritten.

IPython is never imported: in a notebook it is loaded already.
"""

from __future__ import annotations

import html
import sys
from typing import Any


def in_notebook() -> bool:
    """Whether output goes to a notebook (Jupyter and similar).

    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class Piece:
    """An output area of a notebook."""

    def __init__(self, page: str) -> None:
        from IPython.display import HTML, display

        self._made = HTML
        self._handle: Any = display(HTML(page), display_id=True)

    def write(self, page: str) -> None:
        """Replace its contents."""
        self._handle.update(self._made(page))


def line(text: str) -> str:
    """A line of text as HTML.

    >>> line("a < b")
    '<pre style="margin:0">a &lt; b</pre>'
    """
    return f'<pre style="margin:0">{html.escape(text)}</pre>'
