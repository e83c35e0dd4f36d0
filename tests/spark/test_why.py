"""Explanations, trust and probabilities of a session whose shards are in Spark's tasks: the same answers as in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import everview as ev
from tests.why.checker import contents_of, own_ancestors

pytestmark = pytest.mark.spark

RULES = """
    reach(X)     :- root(X).
    reach(Y)     :- reach(X), edge(X, Y).
    orphan(X)    :- edge(X, _), not reach(X).
    fanout(X, N) :- edge(X, Y), N = count(Y).
"""


def filled(db: Any) -> Any:
    edge, root = db.table("edge", {"src": str, "dst": str}), db.table("root", {"node": str})
    rules = db.datalog(RULES)
    root.insert([("a",)])
    edge.insert([("a", "b"), ("b", "c"), ("a", "c"), ("c", "b"), ("x", "y")])
    edge.delete([("a", "c")])
    return rules


@pytest.mark.slow
def test_answers_are_those_of_one_process(spark: Any, tmp_path: Path) -> None:
    with ev.connect(spark, state=str(tmp_path), shards=2) as far, ev.connect() as near:
        there, here = filled(far), filled(near)
        for name in ("reach", "orphan", "fanout"):
            for row in sorted(here[name].rows()):
                found = there[name].why(row)
                assert found.leaves() == here[name].why(row).leaves() and not own_ancestors(found)
        assert str(there.reach.why_not(("y",))) == str(here.reach.why_not(("y",)))
        before = contents_of(far)
        assert not there.reach.trust("c", without={"edge": [("b", "c")]})
        assert there.fanout.trust(("x", 1), without={"root": ...})
        assert float(there.reach.probability(("c",), {"edge": 0.5})) == 0.25
        assert contents_of(far) == before


@pytest.mark.slow
def test_provenance_kept_in_a_column(spark: Any, tmp_path: Path) -> None:
    """The same codes as in one process, with nodes that came from other shards; and again when it is opened anew."""
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("a", "d")]

    def reach(edge: Any) -> Any:
        onward = edge.rename(dst="src", to="dst")
        return edge.iterate(
            lambda found: found.join(onward, on="dst").select("src", dst=ev.col.to).union_all(edge).distinct()
        )

    with ev.connect() as single:
        edge = single.table("edge", {"src": str, "dst": str})
        view = single.view("v", reach(edge), provenance="bdd")
        edge.insert(edges)
        edge.delete([("b", "c")])
        edge.insert([("b", "d")])
        wanted = sorted(view.rows())
        texts = {row: str(e) for row, e in view.provenances().items()}
    with ev.connect(spark, state=str(tmp_path), shards=3) as db:
        edge = db.table("edge", {"src": str, "dst": str})
        view = db.view("v", reach(edge), provenance="bdd")
        edge.insert(edges)
        edge.delete([("b", "c")])
        edge.insert([("b", "d")])
        assert sorted(view.rows()) == wanted
        assert {row: str(e) for row, e in view.provenances().items()} == texts
    with ev.connect(spark, state=str(tmp_path)) as db:
        assert sorted(db["v"].rows()) == wanted
        db["edge"].delete([("b", "d")])
        assert ("b", "d") not in {r[:2] for r in db["v"].rows()}
