"""The Datomic-like spelling means what the ordinary one means; facts and their semantics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import everview as ev
from everview.datalog import DatalogError, edn, grammar
from everview.datalog.syntax import Rule
from everview.session.local_shards import local_shards


@pytest.mark.parametrize(
    ("datomic", "ordinary"),
    [
        ("[:name p :find ?X ?Y :where (e ?X ?Y)]", "p(X, Y) :- e(X, Y)."),
        ("[(p ?X) [?X :e _] (not [?X :e ?Y])]", "p(X) :- e(X, _), not e(X, _)."),
        ("[(p ?X) [?X :e] (or [?X :f 3] (and (g ?X) [(< ?X 3)]))]", "p(X) :- e(X, _), (f(X, 3) ; g(X), X < 3)."),
        ('[(p ?X ?Z) [?X :a/b ?Y] [(+ ?Y 1 2) ?Z] [?X :c "d"]]', "p(X, Z) :- `a/b`(X, Y), Z = Y + 1 + 2, c(X, 'd')."),
        ("[:name p :find ?X (sum ?Y) :where [?X :e ?Y]]", "p(X, sum(Y)) :- e(X, Y)."),
        ("[[(p ?X) (e ?X -2)] [(p ?X) (f ?X :a)]]", "p(X) :- e(X, -2). p(X) :- f(X, a)."),
    ],
)
def test_both_spellings_are_one(datomic: str, ordinary: str) -> None:
    assert _plain(edn.parse(datomic)) == _plain(grammar.parse(ordinary))


def _plain(rules: list[Rule]) -> list[str]:
    """Rules as text, without places and question marks."""
    return [re.sub(r"place=Place\(line=\d+, column=\d+\),? ?", "", str(r)).replace("?", "") for r in rules]


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    session.attribute("company/employee", int)
    session.attribute("employee/salary", int, semantics="one")
    session.attribute("seen", str, semantics="raw")
    return session


def test_salaries_of_equal_size_add_up(db: ev.Session) -> None:
    rules = db.datalog("""
        [:find ?company (sum ?salary)
         :where [?company :company/employee ?e] [?e :employee/salary ?salary]]
    """)
    db.transact([(1, ":company/employee", 10), (1, ":company/employee", 11)])
    db.transact([{"id": 10, "employee/salary": 5}, {"id": 11, "employee/salary": 5}])
    assert rules.answer.rows() == [(1, 10)]
    db.transact([(10, "employee/salary", 7)])
    assert rules.answer.rows() == [(1, 12)]
    db.transact([("retract", 1, "company/employee", 11)])
    assert rules.answer.rows() == [(1, 7)]


def test_semantics_of_attributes(db: ev.Session) -> None:
    for _ in range(2):
        db.transact([(1, "company/employee", 10), (1, "employee/salary", 3), (1, "seen", "x")])
    assert db["company/employee"].rows() == [(1, 10)]
    assert db["employee/salary"].rows() == [(1, 3)]
    assert db["seen"].rows() == [(1, "x"), (1, "x")]
    db.transact([("retract", 1, "company/employee", 10), ("retract", 1, "seen", "x")])
    db.transact([("retract", 1, "company/employee", 10), ("retract", 1, "employee/salary", 99)])
    assert db["company/employee"].rows() == [] and db["employee/salary"].rows() == [(1, 3)]
    assert db["seen"].rows() == [(1, "x")]
    with pytest.raises(ev.InputError, match="E_ABSENT"):
        db.transact([("retract", 1, "seen", "x"), ("retract", 1, "seen", "x")])
    assert db["seen"].rows() == [(1, "x")]


def test_a_transaction_sees_its_own_facts(db: ev.Session) -> None:
    db.transact([(1, "employee/salary", 3), (1, "employee/salary", 4), ("retract", 1, "employee/salary", 4)])
    assert db["employee/salary"].rows() == [] and db.time == 1


@pytest.mark.parametrize("shards", [0, 3])
def test_several_sources_of_one_attribute(shards: int) -> None:
    """Each source says its own facts; they are merged by the attribute's semantics, and go with their source."""
    db = local_shards(shards=shards) if shards else ev.connect()
    tag = db.attribute("tag", str, sources=True)
    age = db.attribute("age", int, semantics="one", sources=True)
    seen = db.attribute("seen", str, semantics="raw", sources=True)
    rules = db.datalog("both(E, T, A) :- tag(E, T), age(E, A).")
    db.transact([(1, ":tag", "x"), (1, ":age", 30), (1, "seen", "a"), (1, "seen", "a")], source="hr")
    db.transact([(1, "tag", "x"), {"id": 1, "tag": "y", "age": 31, "seen": "a"}], source="web")
    assert sorted(tag.rows()) == [(1, "x"), (1, "y")] and age.rows() == [(1, 31)] and seen.rows() == [(1, "a")] * 3
    assert sorted(rules.both.rows()) == [(1, "x", 31), (1, "y", 31)]
    db.transact([("retract", 1, "tag", "x"), ("retract", 1, "age", 30)], source="web")  # 30 is not web's to take back
    assert sorted(tag.rows()) == [(1, "x"), (1, "y")] and age.rows() == [(1, 31)]
    since = db.time
    db.retract_source("web")
    assert db.time == since + 1
    assert tag.rows() == [(1, "x")] and age.rows() == [(1, 30)] and seen.rows() == [(1, "a")] * 2
    assert rules.both.rows() == [(1, "x", 30)]
    db.transact([(1, "age", 32), (1, "age", 33)], source="web")
    db.transact([(1, "age", 34)])  # of no source in particular
    assert age.rows() == [(1, 34)]
    db.retract_source("")
    assert age.rows() == [(1, 33)]
    with pytest.raises(ev.InputError, match="E_ABSENT"):
        db.transact([("retract", 1, "seen", "a")], source="web")
    db.close()


def test_sources_need_attributes_that_remember_them(db: ev.Session) -> None:
    with pytest.raises(ev.InputError, match=r"E_SOURCE(?s:.*)sources=True"):
        db.transact([(1, "seen", "x")], source="web")
    db.attribute("tag", str, sources=True)
    with pytest.raises(ev.InputError, match=r"E_ATTRIBUTE(?s:.*)did you mean 'tag'"):
        db.transact([(1, "tags", "x")], source="web")


def test_sources_are_remembered_in_a_directory(tmp_path: Path) -> None:
    for said in (30, 31):
        with ev.connect(tmp_path / "state") as db:
            age = db.attribute("age", int, semantics="one", sources=True)
            db.transact([(1, "age", said)], source=f"at {said}")
            assert age.rows() == [(1, said)]
    with ev.connect(tmp_path / "state") as db:
        db.retract_source("at 31")
        assert db["age"].rows() == [(1, 30)]


def test_tables_and_attributes_see_each_other(db: ev.Session) -> None:
    person = db.table("person", {"id": int, "name": str | None, "age": int}, key="id")
    rules = db.datalog("""
        [(adult ?p ?n) [?p :person/age ?a] [(>= ?a 18)] [?p :person/name ?n]]
        [(earns ?n ?s) [?p :person/name ?n] [?p :employee/salary ?s]]
    """)
    person.insert([(1, "ann", 30), (2, None, 40), (3, "bob", 7)])
    db.transact([(3, "employee/salary", 1)])
    assert rules.adult.rows() == [(1, "ann")] and rules.earns.rows() == [("bob", 1)]
    assert db.sql('SELECT p.name, s.v FROM person p JOIN "employee/salary" s ON s.e = p.id').rows() == [("bob", 1)]
    person.upsert([(2, "cleo", 40)])
    assert sorted(rules.adult.rows()) == [(1, "ann"), (2, "cleo")]


def test_local_variables_of_joins(db: ev.Session) -> None:
    db.table("edge", {"s": int, "d": int})
    rules = db.datalog("""
        [(alone ?x) (edge ?x ?y) (not-join [?x] (edge ?y ?x) [(!= ?y ?x)])]
        [(ends ?x) (or-join [?x] (edge ?x ?z) (and (edge ?z ?x) [(> ?z 1)]))]
    """)
    db["edge"].insert([(1, 2), (2, 3), (3, 3)])
    assert rules.alone.rows() == [(1,)] and sorted(rules.ends.rows()) == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("[:find ?x", "E_SYNTAX", (1, 10)),
        ("[]", "E_SYNTAX", (1, 1)),
        ("[:find ?x :in $ :where (seen ?x _)]", "E_SYNTAX", (1, 11)),
        ("[:find ?x :where [?x seen ?y]]", "E_SYNTAX", (1, 18)),
        ("[:find ?x :where\n [?x :sen ?y]]", "E_RELATION", (2, 2)),
        ("[:find ?y :where [?x :seen]]", "E_UNSAFE", (1, 8)),
        ("[:find ?x :where [?x :seen ?y] [(frob ?x)]]", "E_FUNCTION", (1, 33)),
    ],
)
def test_mistakes_have_places(db: ev.Session, text: str, code: str, place: tuple[int, int]) -> None:
    with pytest.raises(DatalogError) as caught:
        db.datalog(text)
    assert caught.value.code == code and (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize("fact", [(1, 2), (1, "salary", 3), {"seen": "x"}, ("frob", 1, "seen", "x"), 7, (1, 2, 3)])
def test_what_is_no_fact_changes_nothing(db: ev.Session, fact: object) -> None:
    with pytest.raises(ev.InputError):
        db.transact([(1, "seen", "y"), fact])
    assert db["seen"].rows() == [] and db.time == 0
