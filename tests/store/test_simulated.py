"""The durable store under a simulated disk: thousands of histories of transactions, versions and crashes.

The store, its log and its versions are the real ones (`everview.store`), the disk is `tests.store.simulated`, and the
engine is a list of numbers: a transaction appends one, a version is a batch of all of them. A history is chosen by its
seed: what is done, when the process dies or the power fails (while it is being opened, too), and what of the unsynced
writes is on the disk then. After each crash the store must open, and have

- after `kill -9`: all acknowledged transactions in order, and perhaps the one that was under way;
- after a loss of power: the same with sync="full"; with sync="normal" all that was there at the last opening, version
  or sync, and of what came later a part from the beginning;
- never one that was refused.
"""

from __future__ import annotations

import os
import random
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview.store import Image, Store, files, owner, witness
from everview.store import store as store_module
from everview.store.files import LocalFiles
from everview.store.logs import next_version, open_log
from tests.store.simulated import Crash, SimDisk


class Ledger:
    """The engine: numbers in a list. Odd ones that end in 7 are refused, after they were written to the log."""

    def __init__(self, disk: SimDisk, sync: Any) -> None:
        self.sync = sync
        self.store = Store(LocalFiles(Path("/state/db"), disk))
        manifest = self.store.manifest
        self.numbers = [n for ref in manifest.lists.get((0, 0), ()) for n in self.store.get(ref).columns()[0].tolist()]
        assert len(self.numbers) == manifest.time
        self.log, payloads = open_log(self.store, manifest.version, sync)
        for number, payload in enumerate(payloads):
            n = int(payload)
            if refused(n):
                assert number + 1 == len(payloads), "only the last can be one that was being taken back"
                self.log.take_back(payload)
            else:
                self.numbers.append(n)
        self.log.begin()

    def transact(self, number: int) -> None:
        size = self.log.size
        self.log.append(str(number).encode())
        if refused(number):
            self.log.cut(size)
            raise ValueError
        self.numbers.append(number)
        self.log.done()

    def make_version(self) -> None:
        self.log = next_version(self.store, self.log, self.sync, self._new_version)
        self.store.checkpoint()
        self.store.collect()

    def _new_version(self) -> dict[str, Any]:
        half = len(self.numbers) // 2
        images = [
            Image.of(np.array([part], dtype=np.int64), 1, 1) for part in (self.numbers[:half], self.numbers[half:])
        ]
        refs = [self.store.put(image) for image in images]
        return {"time": len(self.numbers), "replaces": {(0, 0): refs}}

    def close(self) -> None:
        self.log.sync()
        self.log.close()
        self.store.close()


def refused(number: int) -> bool:
    return number % 10 == 7


class History:
    """One history; `run` is all of it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.source = random.Random(seed)
        self.disk = SimDisk(seed)
        self.sync = self.source.choice(("normal", "full"))
        self.acknowledged: list[int] = []
        self.safe = 0  # of these so many must survive a loss of power
        self.under_way: list[int] = []
        self.next = 0
        self.crashes = 0

    def run(self) -> None:
        for _ in range(self.source.randint(1, 6)):
            power = self.source.random() < 0.6
            self.disk.die_in(self.source.choice((self.source.randint(1, 30), self.source.randint(1, 400))))
            try:
                self._live()
            except Crash:
                self.crashes += 1
            self._come_back(power)

    def _live(self) -> None:
        ledger = self._opened()
        for _ in range(self.source.randint(1, 40)):
            what = self.source.random()
            if what < 0.8:
                self._transact(ledger)
            elif what < 0.9:
                ledger.make_version()
                self.safe = len(self.acknowledged)
            elif what < 0.95:
                ledger.log.sync()
                self.safe = len(self.acknowledged)
            else:
                ledger.close()
                self.safe = len(self.acknowledged)
                ledger = self._opened()

    def _opened(self) -> Ledger:
        ledger = Ledger(self.disk, self.sync)
        self._check(ledger)
        return ledger

    def _transact(self, ledger: Ledger) -> None:
        self.next += 1
        self.under_way = [self.next]
        try:
            ledger.transact(self.next)
            self.acknowledged.append(self.next)
            if self.sync == "full":
                self.safe = len(self.acknowledged)
        except ValueError:
            pass
        self.under_way = []

    def _come_back(self, power: bool) -> None:
        """Open it, perhaps after dying again on the way."""
        self.disk.start_again(power=power)
        self.power = power
        for _ in range(self.source.randint(0, 2)):
            again = self.source.random() < 0.5
            self.disk.die_in(self.source.randint(1, 40))
            try:
                self._opened().store.close()
            except Crash:
                self.crashes += 1
            self.disk.start_again(power=again)
            self.power = self.power or again
        self._opened().close()
        self.safe = len(self.acknowledged)

    def _check(self, ledger: Ledger) -> None:
        """What is there is what is promised; from now on that is what was acknowledged."""
        found, wanted = ledger.numbers, [*self.acknowledged, *(n for n in self.under_way if not refused(n))]
        assert found == wanted[: len(found)], (self.seed, found, wanted)
        least = self.safe if getattr(self, "power", False) else len(self.acknowledged)
        assert len(found) >= least, (self.seed, found, self.acknowledged, self.safe)
        self.acknowledged, self.under_way = list(found), []
        self.safe = len(found)  # opening makes it safe
        self.power = False


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[SimDisk]]:
    """Batches in files though they are small; the machine's runs are the simulated ones, and nothing depends on who and
    when we are.
    """
    disks: list[SimDisk] = []
    monkeypatch.setattr(owner, "myself", lambda: {"pid": 1, "host": "here", "boot": "now"})
    monkeypatch.setattr(owner.time, "time", lambda: 0.0)  # type: ignore[attr-defined]
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: "0" * 2 * size)  # type: ignore[attr-defined]
    monkeypatch.setattr(store_module, "INLINE", 40)
    monkeypatch.setattr(witness, "boot_id", lambda: f"boot {disks[-1].boot if disks else 0}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield disks


def simulate(disks: list[SimDisk], seeds: range) -> int:
    crashes = 0
    for seed in seeds:
        history = History(seed)
        disks[:] = [history.disk]
        try:
            history.run()
        except Exception as error:
            raise AssertionError(f"history {seed}: {type(error).__name__}: {error}") from error
        crashes += history.crashes
    return crashes


def test_three_hundred_histories(small: list[SimDisk]) -> None:
    assert simulate(small, range(300)) > 300


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_histories(small: list[SimDisk]) -> None:
    """`EVERVIEW_HISTORIES=100000 pytest -m long tests/store/test_simulated.py -s` for more, and the figures."""
    count = int(os.environ.get("EVERVIEW_HISTORIES", "20000"))
    begun = time.perf_counter()
    crashes = simulate(small, range(1_000_000, 1_000_000 + count))
    seconds = time.perf_counter() - begun
    print(f"{count} histories, {crashes} crashes, {count / seconds * 60:.0f} histories a minute")


def test_the_simulation_notices_a_store_that_does_not_wait_for_the_disk(
    small: list[SimDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without syncs of files the same histories fail: the simulation can see."""
    from everview.store import disk
    from tests.store import simulated

    assert disk.Disk.make is not simulated.SimDisk.make
    make = simulated.SimDisk.make
    monkeypatch.setattr(
        simulated.SimDisk, "make", lambda self, path, parts, *, sync: make(self, path, parts, sync=False)
    )
    with pytest.raises(AssertionError, match="history"):
        simulate(small, range(300))


def test_the_simulation_notices_folders_that_are_not_synced(
    small: list[SimDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.store import simulated

    monkeypatch.setattr(simulated.SimDisk, "sync_folder", lambda self, path: self.event())
    with pytest.raises((AssertionError, ev.EverviewError)):
        simulate(small, range(300))
