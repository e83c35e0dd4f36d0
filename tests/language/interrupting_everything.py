"""A directory with every feature, whose calls are cut off: each act is done whole or not at all.

    python -m tests.language.interrupting_everything SEED INTERRUPTS [embedded|memory|shards] HOW

HOW is one of those of `tests.language.interrupting`. After each interrupt the session is compared with the model
before the act and after it (`tests.store.everything`); now and then it is closed and opened again.
"""

from __future__ import annotations

import faulthandler
import logging
import shutil
import sys
import tempfile
import threading
import traceback
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import everview as ev
from everview.kernels.guarded_calls import CELL_FAULTS
from everview.kernels.memory import cell
from tests.language.interrupting import Interrupts
from tests.spark import inprocess
from tests.store.everything import Model, declare


def opened(where: Path, way: str) -> Any:
    if way == "shards":
        db = ev.connect(inprocess.session(), state=str(where), shards=2)
    else:
        db = ev.connect(where, memory="1MB" if way == "memory" else None)
    declare(db)
    return db


def found(db: Any, before: Model, after: Model) -> Model:
    """Which of the two a session holds."""
    try:
        after.compare(db)
        return after
    except AssertionError as late:
        try:
            before.compare(db)
            return before
        except AssertionError as early:
            raise AssertionError(f"neither before ({early}) nor after ({late})") from None


def main(seed: int, wanted: int, way: str = "embedded", how: str = "signal") -> None:
    faulthandler.enable()
    logging.disable(logging.CRITICAL)
    where = Path(tempfile.mkdtemp())
    fate, interrupts, model = Random(seed), Interrupts(how, Random(seed)), Model(seed)
    db = opened(where / "state", way)
    calls = 0
    while interrupts.happened < wanted:
        after = model.copy()
        kind, call = after.act()
        calls += 1
        whole = interrupts.run(kind, partial(call, db))
        try:
            if not whole or calls % 5 == 0:
                model = found(db, model, after)
            else:
                model = after
            assert cell[CELL_FAULTS] == 0, "the debug build has found a bad access"
            if fate.random() < 0.02:
                db.close()
                db = opened(where / "state", way)
                model.set_clock(db)
                model.compare(db)
                assert db.check() == []
        except AssertionError as error:
            how_far = "whole" if whole else "cut off"
            raise AssertionError(f"seed {seed}, {way}, {how}, call {calls}, {kind}, {how_far}: {error}") from error
    db.close()
    with opened(where / "state", way) as last:
        model.compare(last)
    shutil.rmtree(where)
    print(f"everything {way}, {how}, seed {seed}: {interrupts.happened} interrupts in {calls} calls", flush=True)


if __name__ == "__main__":
    arguments = (int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
    raised: list[BaseException] = []

    def run() -> None:
        try:
            main(*arguments)  # type: ignore[arg-type]
        except BaseException as error:
            traceback.print_exc()
            raised.append(error)

    if "async" in arguments:
        made = threading.Thread(target=run)
        made.start()
        made.join()
    else:
        run()
    sys.exit(len(raised))
