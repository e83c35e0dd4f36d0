"""What a runtime's dataflow is backed by: nothing but memory, a directory that it writes, or one that it follows."""

from __future__ import annotations

from typing import Protocol

from everview.runtime.base import ChangeSet
from everview.store import Store


class Backing(Protocol):
    """Where a dataflow comes from, and what stays of it."""

    store: Store | None
    """the directory or bucket, if there is one"""
    read_only: bool
    """whether it follows another's"""

    def check_writable(self, what: str) -> None:
        """Refuse to change anything in a dataflow that follows another's."""

    def checkpoint(self) -> None:
        """Write all state into files."""

    def refresh(self) -> None:
        """Catch up with the writer."""

    def close(self) -> None:
        """Write what is to be written, and let go."""

    def abandon(self) -> None:
        """Let go and write nothing more."""


class StepLog(Protocol):
    """A write-ahead log: what a step does is in it before the step runs."""

    def before(self, time: int, transactions: list[ChangeSet]) -> None:
        """A step is about to run, when `time` is the last complete time."""

    def costs(self) -> dict[str, int | float]:
        """How much it was given, and how long writing took."""

    def committed(self, transactions: list[ChangeSet]) -> None:
        """It is complete."""

    def aborted(self) -> None:
        """It has changed nothing: take it out, if it is there."""

    def settle(self) -> None:
        """Steps are settled. Refuse to go on if nobody can tell whether something else that is in the log was done."""


class InMemory:
    """Backed by nothing."""

    store: Store | None = None
    read_only = False

    def check_writable(self, what: str) -> None:
        pass

    def checkpoint(self) -> None:
        """There are no files."""

    def refresh(self) -> None:
        """Nobody else writes here."""

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass
