"""`why`, `why_not`, `trust` and `probability` of views that keep provenance: as of the same view without it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import Provenance, col
from everview.language.relation import relation_of
from everview.plan.without_provenance import without_provenance
from everview.session.local_shards import local_shards
from everview.why.contents import OUTSIDE
from everview.why.explanation import asked
from everview.why.steps import Goal
from tests.inside import inside
from tests.why.checker import Checker, contents_of
from tests.why.evaluation import Whole
from tests.why.test_provenance import hops, reach

KINDS: dict[str, Any] = {
    "lazy": "lazy",
    "bdd": "bdd",
    "beyond": Provenance("bdd", nodes=3, beyond="lazy"),
    "arrival": Provenance("bdd", order="arrival"),
}


def grouped(edge: Any) -> Any:
    """A loop inside a join, with constants and a computed column."""
    more = reach(edge).join(edge.rename(dst="src", far="dst"), on="dst").select(a=col.src, b=col.far + 1)
    return more.union_all(edge.select(a=col.dst, b=col.src)).filter(col.a != 3)


VIEWS: dict[str, Callable[[Any], Any]] = {"reach": reach, "hops": hops, "grouped": grouped}


@pytest.mark.parametrize("where", ["memory", "shards", "reopened"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_checked(where: str, kind: str, tmp_path: Path) -> None:
    dice = random.Random(5)
    edges = sorted({(dice.randrange(5), dice.randrange(5)) for _ in range(9)})
    db = local_shards(3) if where == "shards" else ev.connect(tmp_path / "s") if where == "reopened" else ev.connect()
    edge = db.table("edge", {"src": int, "dst": int})
    for name, made in VIEWS.items():
        db.view(name, made(edge), provenance=KINDS[kind])
        db.view(f"plain_{name}", made(edge).distinct())
    edge.insert(edges)
    if where == "reopened":
        db.close()
        db = ev.connect(tmp_path / "s")
    tables = contents_of(db)
    for name in VIEWS:
        view: Any = db[name]
        plain: Any = db[f"plain_{name}"]
        assert sorted(row[:-1] for row in view.rows()) == sorted(plain.rows())
        for row in view.rows():
            derivation = view.why(row)
            assert str(derivation) == str(view.why(row[:-1]))
            assert derivation.source == name and derivation.row == row[:-1]
            assert derivation.columns == tuple(view.schema())[:-1]
            expression = view.provenance(row)
            if kind != "lazy":
                assert expression.holds(derivation.leaves()) or kind == "beyond"
            question = asked(view, None)
            goal = Goal(question.node, OUTSIDE, question.row(row))
            question.search.explain(goal)
            Checker(question.search, Whole(question.node, tables)).check(goal)
        a, b = max(plain.rows())
        told, expected = str(view.why_not((a, b + 77))), str(plain.why_not((a, b + 77))).replace(f"plain_{name}", name)
        if name != "grouped":  # names of columns in between are not kept
            assert told == expected
    db.close()


@pytest.mark.parametrize("kind", KINDS)
def test_worlds_and_chances(kind: str) -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("v", reach(edge), provenance=KINDS[kind])
        plain = db.view("p", reach(edge))
        edge.insert([(1, 2), (2, 3), (1, 3), (3, 4)])
        for row in plain.rows():
            for gone in ([(1, 3)], [(1, 2)], [(3, 4)], [(1, 3), (2, 3)]):
                assert view.trust(row, without={"edge": gone}) == plain.trust(row, without={"edge": gone})
            assert view.probability(row, {"edge": 0.5}) == plain.probability(row, {"edge": 0.5})
        found = view.why((1, 4), all=5)
        assert {frozenset(d.leaves()) for d in found} == {frozenset(d.leaves()) for d in plain.why((1, 4), all=5)}
        assert "link" not in str(db.sql("WHY v (1, 4)")) and "edge(3, 4)" in str(db.sql("WHY v (1, 4)"))
        with pytest.raises(ev.InputError, match="E_ABSENT"):
            view.why((4, 1))
        with pytest.raises(ev.InputError, match="E_PRESENT"):
            view.why_not((1, 4))


def test_a_view_that_reads_codes_has_no_plain_form() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("v", reach(edge), provenance="bdd")
        over = db.view("over", view.filter(col.src < 3))
        edge.insert([(1, 2)])
        (row,) = over.rows()
        assert without_provenance(relation_of(inside(db).catalog.views["over"]).node) is None
        with pytest.raises(ev.InputError, match="E_PROVENANCE"):
            over.why(row)
