"""Documents about entities: against a model in Python, while facts come and go; what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import everview as ev
from everview.datalog import DatalogError
from everview.session.local_shards import local_shards

PATTERN = "[:id :name :tag {:works/for [:name :works/_for]} {:knows 2}]"
QUERY = f"[:name about :find ?e (pull ?e {PATTERN}) :where [?e :name]]"

Facts = dict[str, set[tuple[int, Any]]]


def declare(db: ev.Session) -> None:
    db.attribute("name", str, semantics="one")
    db.attribute("works/for", int)
    db.attribute("knows", int)
    db.attribute("tag", str)


def values(facts: Facts, attribute: str, e: int) -> list[Any]:
    return sorted(v for x, v in facts[attribute] if x == e)


def company(facts: Facts, e: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if values(facts, "name", e):
        found["name"] = values(facts, "name", e)[0]
    staff = sorted(x for x, v in facts["works/for"] if v == e)
    return found | ({"works/_for": staff} if staff else {})


def about(facts: Facts, e: int, levels: int = 2) -> dict[str, Any]:
    """What PATTERN pulls."""
    found: dict[str, Any] = {"id": e}
    if values(facts, "name", e):
        found["name"] = values(facts, "name", e)[0]
    if values(facts, "tag", e):
        found["tag"] = values(facts, "tag", e)
    if values(facts, "works/for", e):
        found["works/for"] = [company(facts, c) for c in values(facts, "works/for", e)]
    if levels and values(facts, "knows", e):
        found["knows"] = [about(facts, x, levels - 1) for x in values(facts, "knows", e)]
    return found


def alike(document: Any) -> Any:
    """A document without the order of its lists, which is that of JSON values."""
    if isinstance(document, dict):
        return frozenset((key, alike(value)) for key, value in document.items())
    return frozenset(map(alike, document)) if isinstance(document, list) else document


def fact(source: random.Random) -> tuple[int, str, Any]:
    e, attribute = source.randrange(5), source.choice(["name", "works/for", "knows", "tag"])
    value = source.randrange(5) if attribute in ("works/for", "knows") else source.choice("abc")
    return e, attribute, value


@pytest.mark.parametrize("connect", [ev.connect, lambda: local_shards(2)], ids=["embedded", "shards"])
def test_documents_follow_their_facts(connect: Callable[[], Any]) -> None:
    source = random.Random(5)
    with connect() as db:
        declare(db)
        rules = db.datalog(QUERY)
        facts: Facts = {a: set() for a in ("name", "works/for", "knows", "tag")}
        for _ in range(25):
            changes: list[tuple[Any, ...]] = []
            for e, attribute, value in (fact(source) for _ in range(3)):
                if source.random() < 0.35:
                    changes.append(("retract", e, attribute, value))
                    facts[attribute].discard((e, value))
                else:
                    changes.append((e, attribute, value))
                    if attribute == "name":
                        facts[attribute] = {(x, v) for x, v in facts[attribute] if x != e}
                    facts[attribute].add((e, value))
            db.transact(changes)
            have = {e: alike(document) for e, document in rules.about.rows()}
            assert have == {e: alike(about(facts, e)) for e, _ in facts["name"]}


def test_columns_of_tables_rules_and_aggregates() -> None:
    with ev.connect() as db:
        person = db.table("person", {"id": int, "name": str, "boss": "int?"}, key="id")
        rules = db.datalog("""
            [(team ?b ?e) [?e :person/boss ?b]]
            [:name all :find (pull ?e [:person/name {:team [:person/name]}]) :where [?e :person/name]]
            [:name sizes :find (pull ?b [:person/name]) (count ?e) :where (team ?b ?e)]
        """)
        person.insert([(1, "ann", None), (2, "bob", 1), (3, "cy", 1)])
        assert {d["person/name"]: len(d.get("team", ())) for (d,) in rules["all"].rows()} == {
            "ann": 2,
            "bob": 0,
            "cy": 0,
        }
        assert rules.sizes.rows() == [({"person/name": "ann"}, 2)]
        person.upsert([(1, "ada", None)])
        assert rules.sizes.rows() == [({"person/name": "ada"}, 2)]


@pytest.mark.parametrize(
    ("find", "code", "text"),
    [
        ("(pull ?e [:nme])", "E_RELATION", "did you mean 'name'"),
        ("(pull ?e [])", "E_SYNTAX", "nothing is pulled"),
        ("(pull ?x [:name])", "E_UNSAFE", "?x"),
        ("(pull ?e [:name {:knows ...}])", "E_SYNTAX", "fixed depth"),
        ("(pull ?e [:name {:knows 99}])", "E_SYNTAX", "from 1 to 10"),
        ("(pull ?e [:name :name])", "E_DUPLICATE", ":name is pulled twice"),
        ("(pull ?e [{:knows}])", "E_SYNTAX", "what is pulled of them"),
        ("(pull ?e [{:id [:name]}])", "E_SYNTAX", "the entity itself"),
        ("(pull ?e [{:name [:tag]}])", "E_TYPE", "the entity is str before this and int here"),
        ("(pull ?e [name])", "E_SYNTAX", "expected an attribute"),
        ("(pull ?e)", "E_SYNTAX", "attributes"),
    ],
)
def test_what_is_refused(find: str, code: str, text: str) -> None:
    with ev.connect() as db:
        declare(db)
        with pytest.raises(DatalogError) as caught:
            db.datalog(f"[:find {find} :where [?e :name]]")
        assert caught.value.code == code and text in str(caught.value), caught.value
        assert db.views == ()
