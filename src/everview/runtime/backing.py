"""The storage behind a runtime's dataflow: memory only, a directory that it writes, or one that it follows."""

from __future__ import annotations

from typing import Protocol

from everview.runtime.base import ChangeSet
from everview.store import Store


class Backing(Protocol):
    """Where a dataflow comes from, and what is kept of it."""

    store: Store | None
    """the directory or bucket, if any"""
    read_only: bool
    """whether it follows another process"""

    def check_writable(self, what: str) -> None:
        """Refuse to change a dataflow that follows another process."""

    def checkpoint(self) -> None:
        """Write all state into files."""

    def refresh(self) -> None:
        """Catch up with the writer."""

    def close(self) -> None:
        """Write what remains to be written, and release it."""

    def abandon(self) -> None:
        """Release it without writing."""


class StepLog(Protocol):
    """A write-ahead log: contains each step before it runs."""

    def before(self, time: int, transactions: list[ChangeSet]) -> None:
        """Log a step that is about to run, when `time` is the last complete time."""

    def costs(self) -> dict[str, int | float]:
        """The amount logged, and the time spent writing."""

    def committed(self, transactions: list[ChangeSet]) -> None:
        """Mark the step as complete."""

    def aborted(self) -> None:
        """Remove the step from the log, if it is there: it has changed nothing."""

    def settle(self) -> None:
        """After steps are settled: refuse to continue if it is unknown whether something else in the log was done."""


class InMemory:
    """Memory only."""

    store: Store | None = None
    read_only = False

    def check_writable(self, what: str) -> None:
        pass

    def checkpoint(self) -> None:
        """There are no files."""

    def refresh(self) -> None:
        """There is no other writer."""

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass
