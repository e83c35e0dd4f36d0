"""Live views in notebooks: `everview.notebook.live(view)`.

    live(revenue)          # a table below the cell, which follows the view from now on

With anywidget (`pip install 'everview[notebook]'`) the table is a widget: it works wherever widgets do and is redrawn
when the page is reopened. Without anywidget, IPython rewrites the cell's output. Without IPython the table is printed
once.

A view is redrawn at most every `EVERY` seconds, however often it changes. A timer thread guarantees that the last
change is drawn.
"""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everview.errors import EverviewError
from everview.io.notebooks import Piece, in_notebook
from everview.language.relation import relation_of
from everview.session.reads import rendering

if TYPE_CHECKING:
    from everview.session.changes.batch import Batch
    from everview.session.reads.subscribable import Subscribable

__all__ = ["Live", "live"]

EVERY = 0.2

_SCRIPT = """
export default { render({ model, el }) {
  el.classList.add("jp-RenderedHTMLCommon");  // Jupyter draws it like its other tables
  const draw = () => {
    el.innerHTML = model.get("page");
    for (const table of el.querySelectorAll("table")) table.style.marginLeft = "0";  // which would centre it here
  };
  model.on("change:page", draw);
  draw();
} };
"""


class Live:
    """A table or view that is redrawn when it changes; created by `live`, ended by `stop`."""

    def __init__(self, what: Subscribable, rows: int, draw: Callable[[str], Any]) -> None:
        self._what = what
        self._rows = rows
        self._draw = draw
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._drawn = float("-inf")
        self.widget: Any = None
        """the widget, if anywidget is installed"""
        self._stop = what.subscribe(self._changed, snapshot=False)

    def __repr__(self) -> str:
        return f"<live {relation_of(self._what).kind} {relation_of(self._what).label}>"

    def _ipython_display_(self) -> None:
        """Display nothing: `live` has already drawn the table, and this object is merely the value of the cell."""

    def page(self) -> str:
        """Return the table as HTML."""
        try:
            now = self._what._now()
            rows, more = now._display(self._rows)
        except EverviewError as error:
            return f"<p>{html.escape(str(error))}</p>"
        what = relation_of(self._what)
        note = f"{what.kind} {what.label}: {rendering.counted(len(now))} at time {now.time}"
        codec = what.codec
        return rendering.page(codec.names, codec.types, rows, f"{more}; {note}" if more else note)

    def _changed(self, batch: Batch) -> None:
        with self._lock:
            if self._timer is None:
                wait = max(self._drawn + EVERY - time.monotonic(), 0.0)
                self._timer = threading.Timer(wait, self._due)
                self._timer.daemon = True
                self._timer.start()

    def _due(self) -> None:
        with self._lock:
            self._timer = None
            self._drawn = time.monotonic()
        self._draw(self.page())

    def stop(self) -> None:
        """Draw once more, then stop updating."""
        self._stop()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        self._draw(self.page())


def live(what: Subscribable, rows: int = rendering.DEFAULT_ROWS) -> Live:
    """Show a table or view and keep it current: in place in a notebook, printed once elsewhere.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> t.insert([(1,)])
    >>> shown = ev.notebook.live(t)
    table t: 1 row at time 1
      x
    int
    ---
      1
    >>> shown.stop()
    """
    try:
        widget = _widget()
    except ImportError:
        widget = None
    if widget is not None and in_notebook():
        made = Live(what, rows, lambda page: setattr(widget, "page", page))
        made.widget = widget
        widget.page = made.page()
        from IPython.display import display

        display(widget)
        return made
    if in_notebook():
        piece = Piece("")
        made = Live(what, rows, piece.write)
        piece.write(made.page())
        return made
    what.show(rows)
    return Live(what, rows, lambda page: None)


def _widget() -> Any:
    """Return a widget that displays HTML."""
    import anywidget
    import traitlets

    class Page(anywidget.AnyWidget):  # type: ignore[misc]
        """HTML that can be replaced."""

        _esm = _SCRIPT
        page = traitlets.Unicode("").tag(sync=True)

    return Page()
