"""Plans that the optimiser chose give the answers of plans as written: every choice, embedded and in shards."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import everview as ev
from everview import col
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.optimiser.alternatives import NOTHING
from everview.optimiser.best_plans import optimiser_of, problems
from everview.optimiser.plan_builder import rebuilt
from everview.plan.nodes import Join, MultiJoin, Node
from tests.datalog.test_multiway import agree, in_loop, outside

TABLES = {
    "orders": ("id", "cust", "item"),
    "customers": ("id", "nation"),
    "nations": ("id", "zone"),
    "items": ("id", "p"),
}

QUERY = """
SELECT o.id, n.zone, i.p FROM orders o JOIN customers c ON o.cust = c.id JOIN nations n ON c.nation = n.id
JOIN items i ON o.item = i.id WHERE i.p < n.zone + 20 AND o.id <> c.nation
"""


def shop(*place: Path) -> ev.Session:
    rng = random.Random(4)
    db = ev.connect(*map(str, place))
    sizes = {"orders": 300, "customers": 60, "nations": 9, "items": 20}
    with db.transaction():
        for name, columns in TABLES.items():
            rows = [(i, *(rng.randrange(20) for _ in columns[1:])) for i in range(sizes[name])]
            db.table(name, dict.fromkeys(columns, int)).insert(rows)
    return db


@pytest.mark.parametrize("seed", range(900, 908))
def test_the_best_plan_says_what_the_others_say(seed: int) -> None:
    agree(seed, outside, steps=4, ways=(("binary", 0), ("best", 0)))


def test_the_best_plan_in_shards_and_around_loops() -> None:
    agree(920, outside, steps=3, ways=(("binary", 0), ("best", 3)))
    agree(921, in_loop, steps=3, ways=(("binary", 0), ("best", 0)))


def test_every_way_to_the_whole_join_gives_the_same_rows() -> None:
    db = shop()
    ((node, join, problem),) = problems(db._core, joined(db))
    written = db.view("written", joined(db), plan="binary")
    optimiser = optimiser_of(db._core)
    number = optimiser.add(problem)
    best = optimiser.best(number)
    views, columns = [], relation_of(relation_of(written).source).columns
    for i, way in enumerate(optimiser.last_steps(number)):
        chosen, todo = {way.goal: way}, list(way.needs(problem))
        while todo:
            goal = todo.pop()
            chosen[goal] = optimiser.chosen(number, goal)
            todo += chosen[goal].needs(problem)
        made = rebuilt(join, node.types, replace(best, chosen=chosen), problem)
        views.append(db.view(f"way{i}", relation_of(db["written"]).source._derive(made, columns), plan="binary"))
    assert len(views) == 5
    for _ in range(3):
        db["orders"].delete(random.Random(1).sample(db["orders"].rows(), 20))
        db["nations"].insert([(3, 1)])
        for view in views:
            assert Counter(view.rows()) == Counter(written.rows()) != Counter()


def joined(db: ev.Session) -> Collection:
    o, c, n, i = (db[name] for name in TABLES)
    found = o.join(c, o.cust == c.id).join(n, c.nation == n.id).join(i, o.item == i.id)
    return found.filter(i.p < n.zone + 20).select(id=o.id, zone=n.zone, p=i.p)


def test_a_directory_builds_what_was_chosen(tmp_path: Path) -> None:
    with shop(tmp_path) as db:
        view = db.sql(f"SET plan = 'best'; CREATE VIEW v AS {QUERY}")
        assert "the optimiser chose it" in view.explain()
        before, plan = sorted(view.rows()), relation_of(view).node
        db["orders"].delete(db["orders"].rows()[:250])  # what would be chosen now is something else
    with ev.connect(str(tmp_path)) as db:
        assert relation_of(db["v"]).node == plan
        assert db.check() == []
        assert set(db["v"].rows()) < set(before)
        for name, columns in TABLES.items():
            db.table(name, dict.fromkeys(columns, int))
        again = db.sql(f"CREATE VIEW IF NOT EXISTS v AS {QUERY}")
        assert again is None or relation_of(again).node == plan


def test_a_triangle_is_joined_at_once_if_that_is_cheaper() -> None:
    db = ev.connect()
    rng = random.Random(2)
    for name in "rst":
        db.table(name, {"a": int, "b": int}).insert([(rng.randrange(40), rng.randrange(40)) for _ in range(1000)])
    r, s, t = (db[name] for name in "rst")
    triangle = r.join(s, r.b == s.a).join(t, (s.b == t.a) & (r.a == t.b)).select(a=r.a, b=s.a, c=t.a)
    best = db.view("best", triangle, plan="best")
    assert any(isinstance(node, MultiJoin) for node in relation_of(best).node.walk())
    assert Counter(best.rows()) == Counter(db.view("plain", triangle, plan="binary").rows())


def test_a_join_at_once_is_explained_by_what_must_be_equal() -> None:
    with ev.connect() as db:
        db.sql("""CREATE TABLE a (id int PRIMARY KEY, x int); CREATE TABLE b (id int PRIMARY KEY, y int);
                  CREATE TABLE c (id int PRIMARY KEY, z int); CREATE TABLE e (s int, d int)""")
        star = "SELECT a.id, x, y, z FROM a JOIN b ON a.id = b.id JOIN c ON a.id = c.id"
        lines = db.sql(f"/*+ plan(best) */ CREATE VIEW v AS {star}").explain().splitlines()
        assert lines[3:5] == [
            "r3 := MultiJoin[r0, r1, r2] delta: r0.id == r1.id == r2.id",
            "r4 := Project[r3] id, x, y, z",
        ]
        db["e"].insert([(i % 7, i % 5) for i in range(30)])
        wedge = "SELECT x.s, y.d FROM e AS x JOIN e AS y ON x.d = y.s JOIN e AS z ON z.s = y.d AND z.d = x.s"
        text = db.sql(f"/*+ plan(best) */ CREATE VIEW w AS {wedge}").explain()
        assert "r1 := MultiJoin[r0, r0, r0] wco: " in text and ", s != NULL, d != NULL" in text


def test_what_needs_no_choice_stays_as_it_is() -> None:
    db = shop()
    pair = db["orders"].join(db["items"], db["orders"].item == db["items"].id).select(id=db["orders"].id)
    assert relation_of(db.view("pair", pair, plan="best")).node == relation_of(pair).node
    assert db.view("few", pair.filter(col.id > 7), plan="best").rows()


def test_explain_alternatives() -> None:
    lines = [row[0] for row in shop().sql(f"EXPLAIN ALTERNATIVES {QUERY}").rows()]
    assert lines[0] == "join of 4 inputs (orders, customers, nations, items), 5 plans by their last step:"
    assert [line.split(".")[0].strip() for line in lines[1:6]] == list("12345")
    costs = [int(line.split("cost ")[1].split(",")[0]) for line in lines[1:6]]
    assert costs == sorted(costs)
    assert any("delta, all at once" in line for line in lines[1:6])
    assert any(line.startswith("  with ") and " of the rows of " in line for line in lines[6:])


def test_what_would_have_to_change_for_the_second_to_win() -> None:
    lines = [row[0] for row in shop().sql(f"EXPLAIN ALTERNATIVES {QUERY}").rows()]
    second = lines[2].split(": ", 1)[1]
    changes = [line.removeprefix("  with ").split(": ") for line in lines if line.startswith("  with ")]
    won = [change for change, plan in changes if second in plan]
    last = lines[-1].removeprefix("  the second is the cheapest with ").split(", or ")
    assert won
    assert set(won) <= {*last}


def test_explain_alternatives_of_a_view_shows_its_plan_and_costs_it_as_built() -> None:
    db = shop()
    view = db.sql(f"CREATE VIEW v AS {QUERY}")

    def told() -> list[str]:
        return [row[0] for row in db.sql("EXPLAIN ALTERNATIVES v").rows()]

    assert told()[1].endswith("nothing to build: (((orders join customers) join nations) join items)")
    view.replan("wco")
    assert told()[1].endswith("nothing to build: wco, all at once")
    view.replan("binary")
    _, now, *listed = told()
    (same,) = (line for line in listed[:5] if now.split(": ")[-1] in line)
    cost_now, cost_again = (int(line.split("cost ")[1].split(",")[0]) for line in (now, same))
    assert cost_now < cost_again  # what is built already is not paid for once more
    db.sql("CREATE VIEW few AS SELECT id FROM v")
    assert [row[0] for row in db.sql("EXPLAIN ALTERNATIVES few").rows()] == [NOTHING]


def test_explain_alternatives_of_nothing_to_choose() -> None:
    (line,) = shop().sql("EXPLAIN ALTERNATIVES SELECT id FROM orders").rows()
    assert line[0].startswith("no join of three inputs")
    with pytest.raises(ev.EverviewError, match="only queries"):
        shop().sql("EXPLAIN ALTERNATIVES DELETE FROM orders")


def test_a_column_goes_when_nobody_reads_it_any_more() -> None:
    """A chain of which only the first column is asked for, and a condition on two in the middle."""
    db = ev.connect()
    for i in range(5):
        table = db.table(f"t{i}", {"a": int, "b": int})
        table.insert([(k % 7, (k * 3 + i) % 7) for k in range(200 if i < 4 else 2)])
    tables = [db[f"t{i}"] for i in range(5)]
    chain: Collection = tables[0]
    for left, right in pairwise(tables):
        chain = chain.join(right, left.b == right.a)
    asked = chain.filter(tables[1].a < tables[2].b).select(a=tables[0].a)
    ((node, join, problem),) = problems(db._core, asked)
    # t0.b is t1.a, which the condition reads beside t2.b; t2.b is t3.a; the others are read by their joins alone
    assert problem.forgotten == {1 << 1: 0b0111, 1 << 2: 0b0110, 1 << 3: 0b1101, 1 << 4: 0b11000}
    optimiser = optimiser_of(db._core)
    best = optimiser.best(optimiser.add(problem))
    widths = [len(side.types) for side in _sides(rebuilt(join, node.types, best, problem))]
    assert len(widths) == 8
    assert max(widths) <= 3
    assert Counter(db.view("best", asked, plan="best").rows()) == Counter(db.view("v", asked, plan="verbatim").rows())


def test_an_index_that_is_there_is_not_made_again_with_fewer_columns() -> None:
    """Tables lead with the column that they are joined by, and nobody reads the columns in the middle."""
    db = ev.connect()
    item = db.table("item", {"order": int, "line": int, "price": int})
    order = db.table("order", {"order": int, "note": int, "customer": int})
    customer = db.table("customer", {"customer": int, "note": int, "nation": int})
    item.insert([(i % 200, i, i) for i in range(2000)])
    order.insert([(i, i, i % 20) for i in range(200)])
    customer.insert([(i, i, i % 5) for i in range(20)])
    bought = item.join(order, item.order == order.order).join(customer, order.customer == customer.customer)
    asked = bought.select(nation=customer.nation, price=item.price)
    ((node, join, problem),) = problems(db._core, asked)
    best = optimiser_of(db._core).best(optimiser_of(db._core).add(problem))
    sides = _sides(rebuilt(join, node.types, best, problem))
    assert {relation_of(table).node for table in (item, customer)} <= {*sides}
    view = db.view("best", asked, plan="best")
    long = [line for line in view.explain().splitlines() if ": 2000 updates" in line]
    assert len(long) == 2, long  # the table's, and the view's


def _sides(node: Node) -> list[Node]:
    below = [side for child in node.children() for side in _sides(child)]
    return [*node.children(), *below] if isinstance(node, Join) else below
