"""Views of every kind: each row is explained and checked, and explanations say what deletions and insertions do.

`tests.why.kinds` has the views. `UNKNOWN` are those whose functions the oracle does not know: there steps are not
checked one by one, everything else is.
"""

from __future__ import annotations

import os
import random
import re
from collections import defaultdict
from typing import Any

import pytest

import everview as ev
from everview.codes.values import with_one_nan
from everview.language.relation import relation_of
from everview.session.local_shards import local_shards
from tests.why.checker import check_why, contents_of, own_ancestors
from tests.why.evaluation import Whole
from tests.why.kinds import SCENARIOS

UNKNOWN = {"hours", "by_mood", "largest", "paged"}

KEPT_FOR_GOOD = {"closed_windows"}
"""Scenarios whose rows cannot be deleted."""

INTERNAL = re.compile(
    r"#\d|\b_ev|everview\.|\?column\?|0x[0-9a-f]{6}| object at |\bnode \d|-\d{17,}|\b(?!12345678901234567890)\d{18,}"
)
"""What nobody but the engine calls anything."""

SEEDS = int(os.environ.get("EVERVIEW_QUESTIONS", "1"))

Row = tuple[Any, ...]


@pytest.fixture(params=["embedded", pytest.param("shards", marks=pytest.mark.slow)])
def asked(request: pytest.FixtureRequest) -> Any:
    with ev.connect() if request.param == "embedded" else local_shards(2) as session:
        yield session


@pytest.fixture(params=["embedded", "shards"])
def db(request: pytest.FixtureRequest) -> Any:
    with ev.connect() if request.param == "embedded" else local_shards(2) as session:
        yield session


def same(a: Row, b: Row) -> bool:
    return bool(with_one_nan(a) == with_one_nan(b))


def often(changes: Any, row: Row) -> int:
    """By how much a row becomes more, of changes that were supposed."""
    return sum(n for changed, n in changes if same(changed, row))


def grouped(rows: Any) -> dict[str, list[Row]]:
    found = defaultdict(list)
    for table, row in rows:
        found[table].append(row)
    return dict(found)


def copies(db: Any, leaves: Any) -> dict[str, list[Row]]:
    """All copies of some rows of tables."""
    return grouped((table, there) for table, row in leaves for there in db[table].rows() if same(there, row))


@pytest.mark.parametrize("name", SCENARIOS)
def test_rows_are_explained_step_by_step(db: Any, name: str) -> None:
    for label in SCENARIOS[name](db):
        view = db[label]
        counts = {with_one_nan(row): n for row, n in view.counts().items()}
        assert counts, label
        contents = contents_of(db)
        evaluation = None if label in UNKNOWN else Whole(relation_of(view).node, contents)
        if evaluation is not None:
            assert {with_one_nan(r): n for r, n in evaluation.result.items()} == counts, label
        for row in sorted(counts, key=repr)[:3]:
            found = view.why(row)
            if evaluation is not None:
                check_why(view, row, contents, evaluation=evaluation)
                check_why(view, row, contents, evaluation=evaluation, kept=False)
            assert not own_ancestors(found), (label, row)
            for text in (str(found), repr(found.to_dict()), re.sub("<[^>]*>", " ", found._repr_html_())):
                assert not INTERNAL.search(text), (label, INTERNAL.search(text), text)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", SCENARIOS)
def test_without_the_leaves_of_all_witnesses_a_row_is_gone(asked: Any, name: str, seed: int) -> None:
    """`trust` and `what_if` agree on it, for all leaves and for some; and nothing has happened."""
    db, rng = asked, random.Random(seed)
    labels = SCENARIOS[name](db)
    if name in KEPT_FOR_GOOD:
        return
    now = db.time
    for label in labels:
        view = db[label]
        counts = view.counts()
        for row in rng.sample(sorted(counts, key=repr), min(len(counts), 3)):
            found = view.why(row, all=50)
            leaves = found.leaves()
            tried = [sorted(leaves, key=repr), rng.sample(sorted(leaves, key=repr), rng.randint(0, len(leaves)))]
            for number, some in enumerate(tried):
                gone = copies(db, some)
                assert sum(map(len, gone.values())) >= len(some), (label, row, "a leaf that is not there")
                left = counts[row] + often(db.what_if(delete=gone).changes(label), row)
                assert view.trust(row, without=gone) == (left > 0), (label, row, gone)
                if number == 0 and not found.truncated:
                    assert left == 0, (label, row, gone)
    assert db.time == now


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_missing_brings_a_row(asked: Any, name: str, seed: int) -> None:
    """Rows that are put together of the values of others: each has a reason not to be there, told without ids."""
    db, rng = asked, random.Random(seed)
    for label in SCENARIOS[name](db):
        view = db[label]
        there = {with_one_nan(row) for row in view.counts()}
        values = list(zip(*sorted(there, key=repr), strict=True))
        for _ in range(4):
            row = with_one_nan(tuple(another(rng, rng.choice(column)) for column in values))
            if row in there or None in row:
                continue
            found = view.why_not(row)
            assert found.ways, (label, row)
            assert not INTERNAL.search(str(found)), (label, str(found))
            missing = found.missing()
            if missing and not found.ways[0].failed and not any(None in r for _, r in missing):
                changes = db.what_if(insert=grouped(missing)).changes(label)
                assert often(changes, row) > 0, (label, row, str(found))


def another(rng: random.Random, value: Any) -> Any:
    """A value, or one beside it."""
    if rng.random() < 0.5 or isinstance(value, bool) or not isinstance(value, int):
        return value
    return value + 1


@pytest.mark.parametrize("name", SCENARIOS)
def test_earlier_times_are_explained(name: str) -> None:
    """As of a time before rows went: with rows that were there then."""
    with ev.connect() as db:
        labels = SCENARIOS[name](db)
        if name in KEPT_FOR_GOOD:
            return
        before = db.time
        wanted = {label: sorted(db[label].counts(), key=repr)[0] for label in labels}
        leaves = {leaf for label, row in wanted.items() for leaf in db[label].why(row).leaves()}
        with db.transaction():
            for table, rows in copies(db, leaves).items():
                db[table].delete(rows)
        then = {t: {with_one_nan(r) for r in db[t].as_of(before).rows()} for t, _ in leaves}
        for label, row in wanted.items():
            found = db[label].why(row, time=before)
            assert same(found.row, row)
            assert all(leaf in then.get(table, ()) for table, leaf in found.leaves()), (label, row)
            assert not own_ancestors(found)
