"""Rows that are there more often than memory has room for: refused, and the session goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import everview as ev
from everview.codes import multiplicity


@pytest.fixture
def db() -> ev.Session:
    """A row that is there 2**40 times: 8 TB of one column."""
    found = ev.connect()
    c = found.table("t", {"x": int})
    c.insert([(7,)])
    many = c.select("x")
    for _ in range(40):
        many = many.union_all(many)
    found.view("many", many)
    return found


def test_rows_that_do_not_fit_are_refused(db: ev.Session) -> None:
    view = db["many"]
    assert view.count() == 2**40 and view.as_of(db.time).counts() == {(7,): 2**40}
    for read in (view.rows, view.to_arrow, view.to_pandas):
        with pytest.raises(ev.EverviewError, match="1,099,511,627,776 rows") as caught:
            read()
        assert caught.value.code == "E_MEMORY" and isinstance(caught.value, MemoryError)
    for query in ("SELECT * FROM many", "SELECT x + 1 FROM many ORDER BY x", "SELECT * FROM many WHERE x = 7"):
        with pytest.raises(ev.EverviewError) as caught:
            db.sql(query).rows()
        assert caught.value.code == "E_MEMORY", query
    assert db.sql("SELECT count(*) FROM many").rows() == [(2**40,)]
    db["t"].insert([(8,)])
    assert view.count() == 2**41


def test_some_of_many_rows_are_read_at_once(db: ev.Session) -> None:
    assert db["many"].head(3) == [(7,)] * 3
    assert "(7" in repr(db["many"].head(1)) and "1,099,511,627,776 rows" in str(db["many"])
    assert db.sql("SELECT * FROM many LIMIT 2").rows() == [(7,), (7,)]


def test_a_container_has_less_than_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text("50000000\n")
    (tmp_path / "memory.current").write_text("20000000\n")
    monkeypatch.setattr(multiplicity, "_CGROUP", tmp_path)
    assert multiplicity.available() == 30_000_000
    with pytest.raises(ev.EverviewError, match="E_MEMORY"):
        multiplicity.repeated(np.array([[1]]), np.array([5_000_000]))
    (tmp_path / "memory.max").write_text("max\n")
    assert multiplicity.available() > 30_000_000
