"""Statistics are changed without reading them: what is remembered stays what the session holds."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import everview as ev
from everview.optimiser import statistic_facts
from everview.optimiser.statistic_facts import StatisticFacts
from everview.session.changes.fast_path import commit_alone


@pytest.fixture
def db() -> Iterator[ev.Session]:
    with ev.connect() as db:
        for name in ("rows", "values"):
            db.table(name, {"q": int, "r": int, "log": int}, key=["q", "r"])
        yield db


def facts_of(db: ev.Session) -> StatisticFacts:
    return StatisticFacts(db, [table for table in (db["rows"], db["values"]) if isinstance(table, ev.Table)])


def test_random_changes_equal_a_dictionary(db: ev.Session) -> None:
    rng, facts = random.Random(1), facts_of(db)
    expected: dict[str, dict[tuple[int, ...], int]] = {"rows": {}, "values": {}}
    for _ in range(200):
        new: dict[str, dict[tuple[int, ...], int]] = {
            name: {(rng.randrange(3), rng.randrange(4)): rng.randrange(5) for _ in range(rng.randrange(3))}
            for name in expected
        }
        facts.change(new)
        for name, some in new.items():
            expected[name].update(some)
            assert sorted(db[name].rows()) == sorted((*key, log) for key, log in expected[name].items())


def test_what_is_told_again_takes_no_step(db: ev.Session) -> None:
    facts = facts_of(db)
    facts.change({"rows": {(1, 1): 5}})
    before = db.time
    facts.change({"rows": {(1, 1): 5}})
    assert db.time == before


@pytest.mark.parametrize("happened", [True, False])
def test_after_an_interrupt_rows_are_read_again(
    db: ev.Session, happened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = facts_of(db)
    facts.change({"rows": {(1, 1): 5}})

    def interrupted(*arguments: object) -> None:
        if happened:
            commit_alone(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(statistic_facts, "commit_alone", interrupted)
        with pytest.raises(KeyboardInterrupt):
            facts.change({"rows": {(1, 1): 6}})
    facts.change({"rows": {(1, 1): 7}})
    assert db["rows"].rows() == [(1, 1, 7)]


def test_other_rows_come_and_go_in_the_same_transaction(db: ev.Session) -> None:
    facts, more = facts_of(db), db.table("more", {"x": int})
    facts.change({"rows": {(1, 1): 5}}, [(more, [(1,), (2,)], 1)])
    facts.change({"rows": {(1, 1): 6}}, [(more, [(1,)], -1)])
    assert (db["rows"].rows(), more.rows(), db.time) == ([(1, 1, 6)], [(2,)], 2)
