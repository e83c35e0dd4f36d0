"""Checks derivations with nothing but the plan's meaning: shares no code with what it checks.

Every step of an explanation is looked at alone. Its row must be what the node makes of the rows of its children, as
`tests.oracle.reference` evaluates nodes; a leaf must be a row of a table; what is said not to be there must not be
there; a row of a loop must have come in the round that is said, stay until it is needed, and be made of the round
before. Then the graph of all steps must have no circle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everview.codes.codec import Codec
from everview.codes.values import with_one_nan
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.windows import Window
from everview.why.contents import Given
from everview.why.derivation import Derivation
from everview.why.explanation import Question
from everview.why.rendering import Renderer
from everview.why.steps import Goal, Search, Step
from tests.inside import inside
from tests.oracle.reference import Bag, Evaluation, Row, groups, value_of
from tests.why.evaluation import Whole, windowed

Tables = Mapping[int, Bag]


def contents_of(db: Any) -> dict[int, Bag]:
    """What all tables hold, by their ids."""
    found = {}
    for table in inside(db).catalog.tables.values():
        found[relation_of(table).node.id] = {with_one_nan(row): n for row, n in table._now().counts().items()}
    return found


def check_why(
    view: Any, row: Row, tables: Tables, *, kept: bool = True, evaluation: Evaluation | None = None
) -> Derivation:
    """Explain a row and check every step; `kept`: with the help of what operators know."""
    question = Question(view, None)
    if not kept:
        question.histories.kept = None
    codes = question.row(row)
    assert question.there(codes), f"{row} is not there"
    root = Goal(relation_of(view).node, {}, codes)
    question.search.straight = False  # node by node
    question.search.explain(root)
    Checker(question.search, evaluation or Whole(relation_of(view).node, tables)).check(root)
    derivation = view.why(row)
    if kept:
        assert str(derivation) == str(Renderer(question.search, question.names()).tell(root))
    check_derivation(derivation, view, row, tables)
    return derivation


def check_derivation(derivation: Derivation, view: Any, row: Row, tables: Tables) -> None:
    """What a user sees: the row on top, rows of tables at the bottom."""
    catalog = view._core.catalog
    assert (derivation.source, with_one_nan(derivation.row)) == (relation_of(view).label, with_one_nan(row))
    for table, leaf in derivation.leaves():
        assert tables[relation_of(catalog.tables[table]).node.id].get(leaf, 0) > 0, (table, leaf)
    assert str(derivation).splitlines()[0].startswith(relation_of(view).label)
    assert with_one_nan(derivation.to_dict()["row"]) == with_one_nan(row)
    assert derivation._repr_html_().startswith("<svg")


def own_ancestors(derivation: Derivation) -> list[tuple[str, Row]]:
    """Rows that stand below themselves."""
    found: list[tuple[str, Row]] = []
    todo: list[tuple[Derivation, frozenset[tuple[str, Row]]]] = [(derivation, frozenset())]
    while todo:
        d, above = todo.pop()
        if d.kind != "absent" and (d.source, d.row) in above:
            found.append((d.source, d.row))
        todo.extend((c, above | {(d.source, d.row)}) for c in d.children)
    return found


class Checker:
    def __init__(self, search: Search, evaluation: Evaluation) -> None:
        self.search = search
        self.evaluation = evaluation
        self._rounds: dict[tuple[int, Any], list[list[Bag]]] = {}

    def check(self, root: Goal) -> None:
        """Check all steps from a goal on, and that they do not go round in a circle."""
        done: set[Any] = set()
        path: set[Any] = set()
        todo = [(root, False)]
        while todo:
            goal, after = todo.pop()
            key = self.search.key(goal)
            if after:
                path.discard(key)
                done.add(key)
                continue
            assert key not in path, "a row explains itself"
            if key in done:
                continue
            path.add(key)
            step = self.search.steps[key]
            self._step(step)
            todo.append((goal, True))
            todo.extend((child, False) for child in step.children)

    # decoding

    def row(self, goal: Goal) -> Row:
        return self._decoded(goal.node, goal.row)

    def _decoded(self, node: plan.Node, codes: tuple[int, ...]) -> Row:
        names = [f"c{i}" for i in range(len(node.types))]
        return with_one_nan(Codec(node.types, names, self.search.contents.interner).decode_row(codes))

    def bag(self, node: plan.Node, where: Any) -> Bag:
        """What a node holds, from scratch."""
        return self.evaluation._bag(node, self.variables(where))

    def variables(self, where: Any) -> dict[tuple[int, int], Bag]:
        """What the variables of the loops around hold."""
        found: dict[tuple[int, int], Bag] = {}
        for depth, held in where.items():
            loop, outer, number = self.search._rounds[held.serial]
            if number is None:
                assert isinstance(held, Given)
                last = self.rounds(loop, outer)[-1]
                for index, bag in enumerate(held.bags):
                    rows = {self._decoded(loop.bodies[index], codes): n for codes, n in bag.items()}
                    assert all(last[index].get(row, 0) > 0 for row in rows), "a row that the loop does not have"
                    found[depth, index] = rows
            else:
                rounds = self.rounds(loop, outer)
                for index, bag in enumerate(rounds[min(number, len(rounds) - 1)]):
                    found[depth, index] = bag
        return found

    def rounds(self, loop: plan.Loop, outer: Any) -> list[list[Bag]]:
        """What the variables hold in every round."""
        key = (id(loop), tuple(sorted((d, v.serial) for d, v in outer.items())))
        if key not in self._rounds:
            around = self.variables(outer)
            bag = self.evaluation._bag
            found: list[list[Bag]] = [[{} if i is None else bag(i, around) for i in loop.initials]]
            for _ in range(2_000 if loop.max_rounds is None else loop.max_rounds):
                there = around | {(loop.depth, i): b for i, b in enumerate(found[-1])}
                new = [bag(body, there) for body in loop.bodies]
                if new == found[-1]:
                    break
                found.append(new)
            self._rounds[key] = found
        return self._rounds[key]

    # one step

    def _step(self, step: Step) -> None:
        goal, node = step.goal, step.goal.node
        row, children = self.row(goal), [self.row(c) for c in step.children]
        count = self.bag(node, goal.inside).get(row, 0) if not isinstance(node, plan.LoopResult | plan.Variable) else 0
        if not isinstance(node, plan.LoopResult | plan.Variable):
            assert count * goal.sign > 0, (type(node).__name__, row, count)
        match node:
            case plan.Table():
                assert not children
            case plan.Constant():
                assert not children and row in node.rows
            case plan.Project():
                assert row == with_one_nan(tuple(value_of(e, children[0]) for e in node.exprs))
            case plan.Filter():
                assert row == children[0] and value_of(node.predicate, row) is True
            case plan.FlatMap():
                assert row in [tuple(r) for r in node.function(*children[0])]
            case plan.Negate():
                assert row == children[0] and step.children[0].sign == -goal.sign
            case plan.Union():
                assert row == children[0] and any(step.children[0].node is i for i in node.inputs)
                for absent in step.absent:
                    assert not self.bag(absent.node, absent.inside).get(row, 0)
            case plan.Join():
                assert row == children[0] + children[1]
                for l, r in zip(node.left_keys, node.right_keys, strict=True):
                    assert children[0][l] is not None and children[0][l : l + 1] == children[1][r : r + 1]  # NaN is NaN
                assert step.children[0].sign * step.children[1].sign == goal.sign
            case plan.Threshold():
                assert row == children[0] and goal.sign == step.children[0].sign == 1
            case plan.Reduce() | plan.TopK() | plan.PythonReduce() | Window():
                self._group(step, row, children)
            case plan.LoopResult():
                self._loop(step, row, children)
            case plan.Variable():
                loop, _, number = self.search._rounds[goal.inside[node.depth].serial]
                below = step.children[0]
                assert isinstance(below.node, plan.LoopResult) and below.node.loop is loop
                assert below.node.index == node.index and children[0] == row and below.upto == number
            case _:
                raise NotImplementedError(type(node))

    def _group(self, step: Step, row: Row, children: list[Row]) -> None:
        node = step.goal.node
        assert isinstance(node, plan.Reduce | plan.TopK | plan.PythonReduce | Window) and step.seen is not None
        first = not isinstance(node, plan.TopK | Window)
        key = row[: len(node.keys)] if first else tuple(row[k] for k in node.keys)
        group = groups(self.bag(node.child, step.goal.inside), node.keys)[key]
        assert children and all(child in group for child in children)
        narrow = self.search.histories.narrows(node.child)
        if narrow or any(held.partial for held in step.goal.inside.values()):
            assert step.seen.rows is None
        else:
            assert step.seen.rows == sum(group.values())
        if isinstance(node, Window):
            assert children[0] == row[: len(node.child.types)]
            assert (row, 1) in windowed(node, group)
        if isinstance(node, plan.TopK):
            assert children == [row] and step.seen.place is not None
        if isinstance(node, plan.Reduce):
            for a, value in zip(node.aggregates, row[len(node.keys) :], strict=True):
                if a.kind in ("min", "max") and a.column is not None:
                    assert any(child[a.column] == value for child in children)

    def _loop(self, step: Step, row: Row, children: list[Row]) -> None:
        goal, node = step.goal, step.goal.node
        assert isinstance(node, plan.LoopResult) and children == [row]
        rounds = self.rounds(node.loop, goal.inside)
        last = len(rounds) - 1 if goal.upto is None else min(goal.upto, len(rounds) - 1)
        assert rounds[last][node.index].get(row, 0) * goal.sign > 0, (row, last)
        if step.round is None:
            return
        assert step.round <= last
        assert all(rounds[n][node.index].get(row, 0) * goal.sign > 0 for n in range(step.round, last + 1))
        wanted = node.loop.initials[node.index] if step.round == 0 else node.loop.bodies[node.index]
        assert step.children[0].node is wanted
        if step.round:
            assert self.search._rounds[step.children[0].inside[node.loop.depth].serial][2] == step.round - 1
