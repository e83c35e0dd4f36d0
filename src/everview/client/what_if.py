"""Client-side transactions and hypothetical changes (`db.what_if`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from everview.client.results import Row
from everview.wire.values import rows_of

if TYPE_CHECKING:
    import pyarrow as pa

    from everview.client.session import ClientSession


class Steps:
    """Changes to be made together, with their attached tables."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.tables: list[pa.Table] = []

    def add(self, step: dict[str, Any], tables: Sequence[pa.Table]) -> None:
        """Add a change; its rows may be the first of these tables."""
        self.steps += moved([step], len(self.tables))
        self.tables += tables


def moved(steps: Sequence[dict[str, Any]], by: int) -> list[dict[str, Any]]:
    """Changes whose tables are numbered after others."""
    return [{**s, "rows": s["rows"] + by} if isinstance(s.get("rows"), int) else s for s in steps]


class ClientWhatIf:
    """Hypothetical changes; see `Session.what_if`."""

    def __init__(self, session: ClientSession, steps: Steps) -> None:
        self._session = session
        self._steps = steps

    def __enter__(self) -> ClientWhatIf:
        self._session._refuse_supposed("another what_if cannot be begun")
        self._session._of_thread.supposed = self._steps
        return self

    def __exit__(self, *exc: object) -> None:
        self._session._of_thread.supposed = None
        if exc[0] is None:  # report a change that would fail
            self._changes([])

    def changes(self, name: str) -> list[tuple[Row, int]]:
        """[(row, diff), ...]: what would change in a table or view."""
        rows, diffs = self._changes([name])[name]
        return list(zip(rows_of(rows), diffs, strict=True))

    def _changes(self, names: list[str]) -> dict[str, Any]:
        head, _ = self._session._transport.call(
            "what_if", {"steps": self._steps.steps, "names": names}, self._steps.tables
        )
        found: dict[str, Any] = head["changes"]
        return found
