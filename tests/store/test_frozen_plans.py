"""Plans survive being written and read in another process, and say what they said."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.expr.language import udf
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.digest import digest
from everview.plan.serialisation import Functions, freeze, thaw
from everview.plan.trust import EVERYBODY
from everview.store import records
from everview.types import INT


def queries(db: ev.Session, double: Any) -> list[ev.Collection]:
    edge = db.table("edge", {"src": int, "dst": int, "label": str | None})
    far = edge.alias("far")
    two = edge.join(far, edge.dst == far.src).select(src=edge.src, dst=far.dst)
    paths = two.iterate(
        lambda p: p.join(far, p.dst == far.src).select(src=p.src, dst=far.dst).union_all(two).distinct()
    )
    return [
        edge,
        two,
        paths,
        edge.group_by("src").agg(n=ev.count(), low=col.dst.min(), kinds=col.label.count_distinct()),
        edge.map(double, {"twice": int}),
        edge.select(twice=udf(double, returns=int)(edge.src)).filter(col.twice > 3),
        edge.filter(col.label.upper() == "A").except_(edge.filter(edge.src > 2)),
    ]


def test_round_trips() -> None:
    db = ev.connect()
    known = Functions()
    for query in queries(db, lambda *row: 2 * row[0]):
        again = thaw(freeze(relation_of(query).node, known), known)
        assert again == relation_of(query).node and hash(again) == hash(relation_of(query).node)
        assert digest(again) == digest(relation_of(query).node)


def test_hashes_do_not_travel(tmp_path: Path) -> None:
    """Hashes of texts differ from process to process, and nodes keep theirs."""
    db = ev.connect()
    known = Functions()
    query = db.table("t", {"x": str}).filter(col.x == "pear")
    hash(relation_of(query).node)
    (tmp_path / "plan").write_bytes(freeze(relation_of(query).node, known))
    script = f"""
import everview as ev
from everview import col
from everview.language.relation import relation_of
from everview.plan.digest import digest
from everview.plan.serialisation import Functions, thaw
node = thaw(open({str(tmp_path / "plan")!r}, "rb").read(), Functions())
same = relation_of(ev.connect().table("t", {{"x": str}}).filter(col.x == "pear")).node
assert node == same and hash(node) == hash(same)
print(digest(node))
"""
    env = {**os.environ, "PYTHONPATH": "src", "PYTHONHASHSEED": "12"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env)
    assert done.stdout.strip() == digest(relation_of(query).node), done.stderr


def test_what_is_shared_stays_shared_and_deep_plans_are_fine() -> None:
    node: plan.Node = plan.Table(0, (INT,))
    for _ in range(3000):
        node = plan.Union((node, plan.Negate(node)))
        hash(node)
    known = Functions()
    again = thaw(freeze(node, known), known)
    assert sum(1 for _ in again.walk()) == 6001
    assert digest(again) == digest(node)


def test_two_views_with_one_function_find_one_function_again() -> None:
    def double(x: int) -> list[int]:
        return [2 * x]

    written = Functions()
    table = plan.Table(0, (INT,))
    first = freeze(plan.FlatMap(table, double, (INT,)), written)
    second = freeze(plan.Negate(plan.FlatMap(table, double, (INT,))), written)
    other = freeze(plan.FlatMap(table, lambda x: [x], (INT,)), written)
    known = Functions()
    for name, data in written.unwritten():
        known.read(name, data)
    a, b, c = (thaw(data, known) for data in (first, second, other))
    assert isinstance(a, plan.FlatMap) and isinstance(b, plan.Negate) and isinstance(c, plan.FlatMap)
    assert a == b.child and a != c and a.function(4) == [8]


def test_digests_tell_plans_apart() -> None:
    db = ev.connect()
    found = [digest(relation_of(q).node) for q in queries(db, lambda *row: 2 * row[0])]
    assert len(set(found)) == len(found)
    table = plan.Table(0, (INT,))

    def by(n: int) -> Any:
        return lambda x: [n * x]

    def digest_of(function: Any) -> str:
        return digest(plan.FlatMap(table, function, (INT,)))

    assert digest_of(by(2)) == digest_of(by(2)) != digest_of(by(3))
    assert digest_of(lambda x: [x + 1]) != digest_of(lambda x: [x + 2])
    assert digest_of(len) != digest_of(sum)

    def endless(x: int) -> list[int]:
        return endless(x - 1)

    assert digest_of(endless) == digest_of(endless)


def test_functions_that_cannot_be_saved_or_loaded() -> None:
    lock = threading.Lock()
    known = Functions()
    known.name(lambda x: lock.locked())
    with pytest.raises(ev.StoreError, match=r"E_FUNCTION.*lambda.*cannot be saved"):
        list(known.unwritten())
    with pytest.raises(ev.StoreError, match="No module named 'nowhere'"):
        Functions(trust=EVERYBODY).read("f0", b"cnowhere\nf\n.")


def test_functions_taken_back() -> None:
    known = Functions()
    known.name(len)
    list(known.unwritten())
    known.name(max)
    known.go_back(1)
    assert len(known) == 1 and known.name(sum) == "f1"
    assert [name for name, _ in known.unwritten()] == ["f1"]


def test_functions_of_modules_that_only_this_process_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They travel as code, with what they use of their modules; those of installed modules as names."""
    (tmp_path / "prices_helper.py").write_text("def base(x):\n    return x + 1\n")
    (tmp_path / "prices.py").write_text(
        "import threading\nimport numpy as np\nfrom prices_helper import base\nimport prices_helper\n"
        "lock = threading.Lock()\nrate = 3\n"
        "def price(x):\n    return int(np.abs(rate * base(x)))\n"
        "def held(x):\n    return lock.locked()\n"
        "def deep(x):\n    return prices_helper.base(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import prices  # type: ignore[import-not-found]

    known = Functions(travel=True)
    for function in (prices.price, prices.deep, len, prices.held):
        known.name(function)
    data = {name: bytes(records.decode(data, "f")[1][0]) for name, data in known.unwritten()}
    script = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1]))(eval(sys.argv[2])))"

    def elsewhere(code: bytes, argument: str = "4") -> str:
        done = subprocess.run([sys.executable, "-c", script, code.hex(), argument], capture_output=True, text=True)
        return (done.stdout + done.stderr).strip().splitlines()[-1]

    assert [elsewhere(data["f0"]), elsewhere(data["f1"]), elsewhere(data["f2"], "'ab'")] == ["15", "5", "2"]
    assert elsewhere(data["f3"]) == "ModuleNotFoundError: No module named 'prices'"  # its lock cannot travel


def test_functions_that_were_read_as_one_do_not_lend_their_names_to_others(tmp_path: Path) -> None:
    """Two functions of the same code are one when they are read; the next one got the name of the second, and was
    taken for it from then on.
    """

    def adding(k: int) -> Any:
        return lambda x: x + k

    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int})
        for name in "ab":
            db.view(name, t.map(adding(1), {"y": int}))
    with ev.connect(tmp_path) as db:
        db.view("c", db["t"].map(adding(3), {"y": int}))
        db["t"].insert([(0,)])
    with ev.connect(tmp_path) as db:
        assert [db[name].rows() for name in "abc"] == [[(1,)], [(1,)], [(3,)]]
        db["t"].insert([(1,)])
        assert sorted(db["c"].rows()) == [(3,), (4,)]
