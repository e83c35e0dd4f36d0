"""Views in notebooks that update themselves: `everview.notebook.live(view)`.

    live(revenue)          # a table below the cell, which follows the view from now on

With anywidget (`pip install 'everview[notebook]'`) it is a widget, which works wherever widgets do and is redrawn when
the page is opened again. Without it, IPython rewrites the cell's output; without IPython the table is printed once.

A view is drawn at most `EVERY` seconds, however often it changes, and the last change is always drawn: by a timer, in a
thread of its own.
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
from everview.session.reads import shown

if TYPE_CHECKING:
    from everview.session.changes.batch import Batch
    from everview.session.reads.followed import Followed

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
    """A table or view that is drawn again when it changes; made by `live`, ended by `stop`."""

    def __init__(self, what: Followed, rows: int, draw: Callable[[str], Any]) -> None:
        self._what = what
        self._rows = rows
        self._draw = draw
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._drawn = float("-inf")
        self.widget: Any = None
        """the widget, if there is one"""
        self._stop = what.subscribe(self._changed, snapshot=False)

    def __repr__(self) -> str:
        return f"<live {relation_of(self._what).kind} {relation_of(self._what).label}>"

    def _ipython_display_(self) -> None:
        """Nothing: `live` has put the table below its cell, and this is that cell's last value."""

    def page(self) -> str:
        """The table as HTML."""
        try:
            now = self._what._now()
            rows, more = now._display(self._rows)
        except EverviewError as error:
            return f"<p>{html.escape(str(error))}</p>"
        what = relation_of(self._what)
        note = f"{what.kind} {what.label}: {shown.counted(len(now))} at time {now.time}"
        codec = what.codec
        return shown.page(codec.names, codec.types, rows, f"{more}; {note}" if more else note)

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
        """Draw it a last time, and no more."""
        self._stop()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        self._draw(self.page())


def live(what: Followed, rows: int = shown.ROWS) -> Live:
    """Show a table or view that follows what changes: in a notebook in place, elsewhere it is printed once.

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
    """A widget that shows a page."""
    import anywidget
    import traitlets

    class Page(anywidget.AnyWidget):  # type: ignore[misc]
        """HTML that can be written again."""

        _esm = _SCRIPT
        page = traitlets.Unicode("").tag(sync=True)

    return Page()
