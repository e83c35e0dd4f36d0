"""Rows of what is inside a view are looked up where the view's operators keep them, though those know fewer columns."""

from __future__ import annotations

import pytest

import everview as ev
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.session.core import core_of
from everview.why.access import Access
from everview.why.contents import OUTSIDE, Contents

TOTALS = """
    SELECT name, sum(amount) AS total
    FROM customer JOIN orders ON customer.id = customer JOIN town ON customer.city = town.city
    GROUP BY name
"""


def _best_customers() -> tuple[ev.Session, ev.View]:
    """The largest totals of a join of which only few columns are read: it is built without the others."""
    db = ev.connect()
    db.sql("CREATE TABLE town (city varchar, country varchar)")
    db.sql("CREATE TABLE customer (id int, name varchar, city varchar)")
    db.sql("CREATE TABLE orders (id int, customer int, amount int, note varchar)")
    db.sql("INSERT INTO town VALUES ('rome', 'it'), ('oslo', 'no')")
    db.sql("INSERT INTO customer VALUES (1, 'ann', 'rome'), (2, 'bob', 'oslo'), (3, 'eve', 'rome')")
    db.sql("INSERT INTO orders VALUES (1, 1, 10, 'a'), (2, 1, 20, 'b'), (3, 2, 5, 'c'), (4, 2, 5, 'c'), (5, 3, 1, 'd')")
    db.sql(f"CREATE VIEW best AS {TOTALS} ORDER BY total DESC LIMIT 2")
    return db, _view(db, "best")


def _view(db: ev.Session, name: str) -> ev.View:
    view = db[name]
    assert isinstance(view, ev.View)
    return view


def _aggregate(view: ev.View) -> plan.Node:
    return next(n for n in relation_of(view).node.walk() if isinstance(n, plan.Reduce))


def test_an_aggregate_below_a_limit_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    db, view = _best_customers()
    core = core_of(db)
    reduce = _aggregate(view)
    assert (reduce, ()) not in core.runtime.builder.arrangements, "it is built from the columns that it reads"
    access = Access(core, db.time)
    kept = access.rows(reduce, {})
    assert kept is not None
    monkeypatch.setattr(Access, "arrangements", lambda self, node: _of_tables(core, node))
    assert Contents(Access(core, db.time)).rows(reduce, OUTSIDE, {}) == kept
    assert len(kept) == 3


def _of_tables(core: object, node: plan.Node) -> list[object]:
    return core.runtime.builder.arrangements[node, ()] if isinstance(node, plan.Table) else []  # type: ignore[attr-defined]


def test_the_answer_is_that_of_reading_it_from_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    db, view = _best_customers()
    told = str(view.why(("ann", 30)))
    assert "number 1 of 3" in told
    monkeypatch.setattr(core_of(db).runtime.builder, "narrowed", {})
    assert str(view.why(("ann", 30))) == told


def test_what_is_dropped_is_forgotten() -> None:
    db, view = _best_customers()
    narrowed = core_of(db).runtime.builder.narrowed
    assert _aggregate(view) in narrowed
    view.drop()
    assert not core_of(db).runtime.builder.narrowed


def test_two_views_keep_the_same_in_two_ways() -> None:
    """The second one may find an index that the first one had to do without; each goes by itself."""
    db, view = _best_customers()
    reduce = _aggregate(view)
    db.sql(f"CREATE VIEW all_totals AS {TOTALS}")
    assert Access(core_of(db), db.time).rows(reduce, {}) is not None
    view.drop()
    told = _view(db, "all_totals").why(("bob", 10))
    assert {name for name, _ in told.leaves()} == {"customer", "orders", "town"}
