"""What is supposed, and what is stopped, on Spark: jobs that commit nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from tests.oracle.test_what_if import files

pytestmark = pytest.mark.spark


def nap(x: int) -> int:
    if x > 100:
        time.sleep(60)
    return x


@pytest.mark.slow
def test_what_if_and_limits(spark: Any, tmp_path: Path) -> None:
    with ev.connect(spark, state=str(tmp_path), shards=2) as db:
        t = db.table("t", {"x": int})
        v = db.view("v", t.map(nap, {"y": int}))
        t.insert([(1,), (2,)])
        before = files(db)
        assert db.what_if(delete={"t": [(1,)]}, insert={"t": [(7,)]}).changes("v") in (
            [((1,), -1), ((7,), 1)],
            [((7,), 1), ((1,), -1)],
        )
        assert files(db) == before
        start = time.monotonic()
        with pytest.raises(ev.StoppedError) as caught, db.limits(seconds=2):
            t.insert([(101,)])
        assert caught.value.code == "E_TIMEOUT" and time.monotonic() - start < 50
        assert files(db) == before and db.time == 1
        t.insert([(3,)])
        assert sorted(v.rows()) == [(1,), (2,), (3,)] and db.time == 2
