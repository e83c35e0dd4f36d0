"""Questions that nobody should ask, and trees that nobody should print."""

from __future__ import annotations

import datetime as dt

import pytest

import everview as ev

NODES = 4000


def test_a_chain_of_thousands_is_printed_in_part() -> None:
    with ev.connect() as db:
        edge, root = db.table("edge", {"a": int, "b": int}), db.table("root", {"n": int})
        view = db.view(
            "reach",
            root.iterate(lambda f: f.join(edge, f.n == edge.a).select(n=edge.b).union_all(root).distinct()),
        )
        root.insert([(0,)])
        edge.insert([(i, i + 1) for i in range(NODES)])
        found = view.why((NODES,))
        assert len(found.leaves()) == NODES + 1
        lines = str(found).splitlines()
        assert len(lines) == 3001 and lines[-1].startswith("... and ") and "to_dict()" in lines[-1]
        assert "... and " in found._repr_html_() and len(found._repr_html_()) < 200_000
        assert found.to_dict()["row"] == (NODES,)
        assert len(str(view.why((300,))).splitlines()) == 602


def test_what_is_supposed_has_no_reasons() -> None:
    with ev.connect() as db:
        t = db.table("t", {"x": int})
        view = db.view("v", t.filter(ev.col.x > 0))
        t.insert([(1,)])
        with db.what_if():
            t.insert([(2,)])
            for ask in (view.why, view.why_not):
                with pytest.raises(ev.InputError) as caught:
                    ask((2,))
                assert caught.value.code == "E_WHAT_IF"
        assert view.why((1,)).leaves() == {("t", (1,))}


def test_a_row_whose_time_is_over_is_said_to_be_there() -> None:
    with ev.connect() as db:
        click = db.table("click", {"who": str, "at": dt.datetime, "n": int})
        db.advance(dt.datetime(2026, 1, 1, 12))
        db.sql("CREATE VIEW recent AS SELECT who, n FROM click WHERE at > now() - INTERVAL '1 hour'")
        click.insert([("ann", dt.datetime(2026, 1, 1, 11, 30), 3), ("bob", dt.datetime(2026, 1, 1, 9), 4)])
        assert db["recent"].why(("ann", 3)).leaves() == {("click", ("ann", dt.datetime(2026, 1, 1, 11, 30), 3))}
        told = db["recent"].why_not(("bob", 4))
        assert not told.missing() and "is there, but not in click now" in str(told)
        assert db["recent"].why_not(("cay", 4)).missing() == [("click", ("cay", None, 4))]
        db.advance(dt.datetime(2026, 1, 1, 13))
        assert "is there, but not" in str(db["recent"].why_not(("ann", 3)))
