"""The SQL suite on a real Spark: the same queries, maintained in steps that are Spark jobs, equal DuckDB."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from tests.sql import harness

pytestmark = pytest.mark.spark

FILES = sorted((Path(__file__).parent.parent / "sql").glob("*.slt"))


def differences(spark: Any, state: Path, path: Path, every: int, batches: int) -> dict[str, str]:
    queries = [b for b in harness.blocks(path) if b.kind == "query"][::every]
    db = harness.session(db=ev.connect(spark, state=state))
    return harness.differences(db, queries, zlib.crc32(path.name.encode()), batches)


@pytest.mark.parametrize("name", ["joins", "windows"])
def test_some_queries(spark: Any, tmp_path: Path, name: str) -> None:
    path = next(f for f in FILES if f.stem == name)
    assert differences(spark, tmp_path / "state", path, 20, 3) == {}


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=[f.stem for f in FILES])
def test_all_queries(spark: Any, tmp_path: Path, path: Path) -> None:
    assert differences(spark, tmp_path / "state", path, 1, 6) == {}
