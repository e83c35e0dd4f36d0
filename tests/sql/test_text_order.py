"""The first rows by a text: found by its first bytes, the same rows as by sorting whole groups in Python."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.expr.string_functions import ARRAYS, text_word
from everview.plan import prefixes
from everview.session.local_shards import local_shards
from tests.effort import calls

ORDERS = ("s", "s DESC", "s, x DESC", "x, s", "s NULLS FIRST, n DESC", "n DESC, s", "n")
BEGINNINGS = ("", "z" * 31, "é" * 15 + "p", "name ")
NUMBERS = (None, Decimal(1), Decimal(2), Decimal("1.00000000000000000001"), Decimal("1.00000000000000000002"))


def _told(seed: int, shards: int) -> list[dict[str, list[str]]]:
    """What random views say after random transactions."""
    r = random.Random(seed)
    db = local_shards(shards=shards) if shards else ev.connect()
    table = db.sql("CREATE TABLE t (g int, s text, x int, n numeric)")
    beginning = r.choice(BEGINNINGS)
    for i in range(6):
        order, limit, offset = r.choice(ORDERS), r.randrange(1, 4), r.randrange(3)
        numbered = f"SELECT *, row_number() OVER (PARTITION BY g ORDER BY {order}, s, x, n) AS rn FROM t"
        of_groups = f"SELECT g, s, x, n FROM ({numbered}) WHERE rn <= {limit}"
        of_all = f"SELECT * FROM t ORDER BY {order}, g, s, x, n LIMIT {limit} OFFSET {offset}"
        db.sql(f"CREATE VIEW v{i} AS {r.choice([of_groups, of_all])}")
    rows: list[tuple[Any, ...]] = []
    found = []
    for _ in range(6):
        gone = r.sample(rows, len(rows) // 3)
        new = [_row(r, beginning) for _ in range(r.randrange(1, 9))]
        with db.transaction():
            table.delete(gone)
            table.insert(new)
        rows = [*(Counter(rows) - Counter(gone)).elements(), *new]
        found.append({name: sorted(map(repr, db[name].rows())) for name in db.views})
    assert db.check() == []
    return found


def _row(r: random.Random, beginning: str) -> tuple[Any, ...]:
    text = r.choice([beginning, ""]) + "".join(r.choice("ab\0é") for _ in range(r.randrange(4)))
    return r.choice([1, 2, None]), None if r.random() < 0.1 else text, r.randrange(3), r.choice(NUMBERS)


@pytest.mark.parametrize(("seed", "shards"), [(0, 0), (1, 0), (2, 0), (3, 2)])
def test_first_rows_are_those_of_sorting_all(seed: int, shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _told(seed, shards)
    monkeypatch.setattr(prefixes, "candidates", lambda node: None)
    assert found == _told(seed, shards)


def test_words_sort_like_texts() -> None:
    r = random.Random(5)
    texts = ["", "a", "a\0", "é" * 16, "é" * 15 + "a"]
    texts += ["".join(r.choices("ab\0é😀", k=r.randrange(40))) for _ in range(300)]
    words = [tuple(text_word(t, i) for i in range(prefixes.PREFIX_WORDS)) for t in texts]
    arrays = [ARRAYS["text_word"](pa.array(texts), i).to_pylist() for i in range(prefixes.PREFIX_WORDS)]
    assert words == [*zip(*arrays, strict=True)]
    for a, one in zip(texts, words, strict=True):
        for b, other in zip(texts, words, strict=True):
            assert (one < other) == (a < b) or (one == other and len(a.encode()) > 31 and len(b.encode()) > 31)


def test_a_change_does_not_sort_all_texts() -> None:
    """With 50,000 rows one change took as long as sorting them, in Python."""
    r = random.Random(1)
    db = ev.connect()
    table = db.sql("CREATE TABLE t (x int, s text)")
    table.insert([(i, f"name {r.randrange(10**9):09d}") for i in range(50_000)])
    view = db.sql("CREATE VIEW v AS SELECT * FROM t ORDER BY s LIMIT 10")
    for i in range(100):
        assert calls(partial(table.insert, [(i, f"name {r.randrange(10**9):09d}")])) < 1_000
    assert [s for _, s in sorted(view.rows(), key=lambda row: row[1])] == sorted(s for _, s in table.rows())[:10]
