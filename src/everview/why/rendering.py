"""Converts steps into derivations with user-visible names.

A plan has many unnamed nodes. Only rows of tables, of views, of recursions, and of steps over many rows (aggregates,
first rows, windows) are kept; everything between them is left out, and its explanations become those of the row above.
A row of a Datalog relation has the rule that derived it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from everview.codes.values import Decode, decoder
from everview.datalog.program import rules_of
from everview.expr.nodes import Call
from everview.language.collection import known_names
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.check import free_depths
from everview.plan.descriptions import texts
from everview.plan.digest import digest
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.names.overview import TRANSIENT
from everview.types import NULL, DataType
from everview.why import drawing, labels
from everview.why.column_blocks import Row
from everview.why.contents import Inside, sides_of
from everview.why.derivation import Derivation, Kind
from everview.why.groups import GROUPINGS
from everview.why.linear import below
from everview.why.steps import Absent, Goal, Key, Search, Step

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table
    from everview.session.view import View
    from everview.why.loop_shortcuts import Way


@dataclass(frozen=True)
class Named:
    """The name of a plan, and of its columns."""

    name: str
    columns: tuple[str, ...]
    kind: Kind = "view"
    how: str = ""
    width: int = 0
    """for a hidden table: the number of user-visible columns"""
    partner: str = ""
    """for a look-up join: the joined table"""


def names_of(core: Core, view: View, node: plan.Node) -> Names:
    """The names of plans, seen from a view with plan `node`; cached while all names are valid."""
    if node is not relation_of(view).node:
        return Names(core, view, node)
    known = core.catalog.overview.told
    key = (view, *(id(rules) for rules in rules_of(core).values()))
    found: Names | None = known.get(key)
    if found is None:
        found = known[key] = Names(core, view, node)
    return found


class Names:
    """The names of plans in a session, seen from one of its views."""

    def __init__(self, core: Core, view: View, node: plan.Node) -> None:
        """`node`: the view's plan in the question."""
        self.core = core
        self.view = view
        self.node = node
        self.own = _of_view(view)
        if node is not relation_of(view).node:
            self.own = replace(self.own, columns=self.own.columns[: len(node.types)])
        self._views: dict[plan.Node, Named | None] = {}
        for name, rules in rules_of(core).items():
            relation = rules._relations[name]
            self._views[relation.node] = Named(name, relation.columns)
        self._views[node] = self.own
        self._tables: dict[plan.Node, Named] = {}
        self._by_rule: dict[int, tuple[plan.Node, str]] = {}
        self._texts: Mapping[plan.Node, str] | None = None
        self._programs = tuple(dict.fromkeys(rules_of(core).values()))
        self._rules = [rules._strata.texts for rules in self._programs]
        self._rules += relation_of(view).rules

    def of(self, node: plan.Node) -> Named | None:
        """The name of a plan, if any."""
        return self.table(node) if isinstance(node, plan.Table) else self._view(node)

    def _view(self, node: plan.Node) -> Named | None:
        """A view or relation."""
        try:
            return self._views[node]
        except KeyError:
            view = self.core.catalog.overview.view_of(node)
            found = self._views[node] = None if view is None else _of_view(view)
            return found

    def table(self, node: plan.Table) -> Named:
        """A table; a hidden clock follower has the name of the table it follows, or of what it says about the time."""
        if node not in self._tables:
            self._tables[node] = _of_table(self.core.catalog.table_of(node))
        return self._tables[node]

    def recursion(self, node: plan.LoopResult) -> Named:
        """A loop's rows: by the view that it is, or as a part of the smallest view around it."""
        found = self._view(node)
        if found is None:
            which = f" {node.index + 1}" if len(node.loop.bodies) > 1 else ""
            found = self._views[node] = Named(f"{self._around(node).name}'s recursion{which}", (), "loop")
        return found

    def earlier(self, node: plan.LoopResult) -> Named:
        """Intermediate rows of a loop, which are not rows of its view."""
        named = self.recursion(node)
        return named if named.kind == "loop" else Named(f"{named.name}'s recursion", named.columns, "loop")

    def _around(self, loop: plan.LoopResult) -> Named:
        """The view, among those that the examined one reads or itself, that contains a loop."""
        around = self.own
        fewest = 0
        for node in self.node.walk():
            if node is self.node or (named := self._view(node)) is None:
                continue
            parts = set(node.walk())
            if loop in parts and (not fewest or len(parts) < fewest):
                around, fewest = named, len(parts)
        return around

    def text(self, node: plan.Node) -> str:
        """The description of a step."""
        if self._texts is None:
            self._texts = texts(self.node, *known_names(relation_of(self.view).source))
        return self._texts.get(node, type(node).__name__)

    def rule(self, node: plan.Node) -> str:
        """The rule whose body a plan is: of a program here, or of the one that the view comes from."""
        if not self._rules:
            return ""
        known = self._by_rule.get(id(node))
        if known is None:
            part = digest(node)
            known = self._by_rule[id(node)] = (node, next((told()[part] for told in self._rules if part in told()), ""))
        return known[1]


def _of_view(view: View) -> Named:
    """A view's name; that of a query is its own."""
    label = relation_of(view).label
    name = label.strip("()") if label.startswith(TRANSIENT) else label
    return Named(name, tuple(c.name for c in relation_of(view).columns))


def _of_table(table: Table) -> Named:
    """A table's name. A hidden follower (`everview.session.clock`) has the followed table's columns first, then its
    own; one without rows of a table is a clock.
    """
    relation = relation_of(table)
    own = tuple(c.name for c in relation.columns)
    if not relation.label.startswith(RESERVED_PREFIX):
        return Named(relation.label, own, "table", "", len(own))
    kind = relation.label.removeprefix(RESERVED_PREFIX).rstrip("'")
    if relation.origin is None:
        return Named(f"the {kind}", own, "clock", "", len(own))
    origin = relation_of(relation.origin)
    columns = tuple(c.name for c in origin.columns)
    kind = kind.removeprefix(origin.stored_as).strip()
    if own[: len(columns)] != columns:
        return Named(f"{origin.label}'s {kind} windows", own, "clock", "", len(own))
    partner = "" if relation.partner is None else relation_of(relation.partner).label
    return Named(origin.label, columns, "table", f"in {origin.label} {kind}", len(columns), partner)


def _can_be_null(declared: DataType) -> bool:
    """Whether NULL's code means NULL here: in a column without NULLs, too, unless it is a float's."""
    return declared.nullable or declared.kind != "float"


SILENT = (plan.Project, plan.Filter, plan.Threshold, plan.Negate, plan.Union, plan.Variable)
"""Steps without a description."""


class _Part(NamedTuple):
    """The contribution of a goal to the row above it."""

    pieces: tuple[Derivation, ...] = ()
    rule: str = ""
    how: tuple[str, ...] = ()


def _common(rules: list[str]) -> str:
    """The rule that derived all of some rows, if it is the same."""
    return rules[0] if rules and len(set(rules)) == 1 else ""


class Renderer:
    """Derivations for the steps of a search."""

    def __init__(self, search: Search, names: Names) -> None:
        self.search = search
        self.names = names
        self._parts: dict[Key, _Part] = {}
        self._nothing: dict[int, bool] = {}
        self._losing: dict[int, bool] = {}
        self._said: dict[int, list[tuple[str, str]]] = {}
        self._labels: dict[int, dict[int, DataType]] = {}
        self._labelled: bool | None = None
        self._columns = labels.Hashes()
        self._decoders: dict[plan.Types, list[Decode]] = {}
        self._own_decoders: dict[int, list[Decode]] = {}
        self._tables: dict[int, Named] = {}

    def tell(self, root: Goal) -> Derivation:
        """The derivation of a view's row."""
        self._tell_steps()
        part = self._told(root)
        own = self.names.own
        row = self._values(root)
        if len(part.pieces) == 1 and (part.pieces[0].source, part.pieces[0].row) == (own.name, row):
            return part.pieces[0]
        return self._derived(root, own, part)

    def pieces(self, goal: Goal) -> tuple[Derivation, ...]:
        """The nearest named rows that explain a row of any plan."""
        self.search.explain(goal)
        return self._told(goal).pieces

    def _tell_steps(self) -> None:
        """All steps, last first: most follow only from later ones. The others are left to `_told`."""
        parts, told = self._parts, self._part
        for key, step in reversed(self.search.steps.items()):
            children = step.children
            if len(children) == 1:
                of = children[0].key
                part = parts.get(of) if of is not None else None
                if part is not None:
                    quiet = not step.absent and self._is_nothing(step.goal.node)
                    parts[key] = part if quiet else told(step, [part])
                continue
            below = [parts.get(c.key) for c in children if c.key is not None]
            known = [part for part in below if part is not None]
            if len(known) == len(children):
                parts[key] = told(step, known)

    def _told(self, root: Goal) -> _Part:
        search, parts = self.search, self._parts
        todo = [root]
        while todo:
            goal = todo[-1]
            key = search.key(goal)
            if key in parts:
                todo.pop()
                continue
            step = search.steps[key]
            below = [parts.get(search.key(c)) for c in step.children]
            known = [part for part in below if part is not None]
            if len(known) == len(below):
                parts[key] = self._part(step, known)
                todo.pop()
            else:
                todo.extend(c for c, part in zip(reversed(step.children), reversed(below), strict=True) if part is None)
        return parts[search.key(root)]

    def decoded(self, types: plan.Types, row: tuple[int, ...]) -> tuple[Any, ...]:
        """A row's values."""
        return tuple([decode(code) for decode, code in zip(self._decoders_of(types), row, strict=True)])

    def _decoders_of(self, types: plan.Types) -> list[Decode]:
        decoders = self._decoders.get(types)
        if decoders is None:
            interner = self.search.contents.interner
            decoders = self._decoders[types] = [decoder(t, interner) for t in types]
        return decoders

    def _values(self, goal: Goal) -> tuple[Any, ...]:
        """The values of a goal's row."""
        decoders = self._own_decoders.get(id(goal.node))  # it lives as long as the search
        if decoders is None:
            decoders = self._own_decoders[id(goal.node)] = self._decoders_of(goal.node.types)
        row = goal.row
        if len(row) == 1:
            return (decoders[0](row[0]),)
        return tuple([decode(code) for decode, code in zip(decoders, row)])  # noqa: B905 (keywords cost time here)

    def values(self, node: plan.Node, inside: Inside, row: Row, *, optional: bool = False) -> tuple[Any, ...]:
        """The values of a row of an unnamed plan, with hashes shown as values. `optional`: the code of NULL means
        open.
        """
        found = self.decoded(tuple(t.optional() for t in node.types) if optional else node.types, row)
        hashes = self._hashes(node, inside)
        if not hashes:
            return found
        interner = self.search.contents.interner
        own = list(found)
        for c, declared in hashes.items():
            if row[c] != NULL:
                with suppress(KeyError, ValueError, IndexError, OverflowError):  # then it is not such a hash
                    own[c] = decoder(declared, interner)(labels.unhashed(row[c]))
        return tuple(own)

    def _hashes(self, node: plan.Node, inside: Inside) -> dict[int, DataType]:
        """The columns of a plan that hold hashes of values; skipped if nothing is hashed."""
        found = self._labels.get(id(node))  # it lives as long as the search
        if found is None:
            around = [self.search.loop_of(inside[depth]) for depth in sorted(inside)]
            found = self._labels[id(node)] = self._columns.of(node, around) if self._hashing() else {}
        return found

    def _hashing(self) -> bool:
        if self._labelled is None:
            calls = (e for n in self.names.node.walk() if isinstance(n, plan.Project) for e in n.exprs)
            self._labelled = any(isinstance(e, Call) and e.op == "hash" for e in calls)
        return self._labelled

    def _part(self, step: Step, below: list[_Part]) -> _Part:
        goal, node = step.goal, step.goal.node
        if len(below) == 1 and not step.absent and self._is_nothing(node):
            return below[0]
        if isinstance(node, plan.Constant):
            return _Part(rule=self.names.rule(node))
        if isinstance(node, plan.Table):
            return self._base(node, goal)
        if len(below) == 1 and not step.absent:
            part = below[0]
        else:
            pieces = list(dict.fromkeys([p for part in below for p in part.pieces]))
            pieces += [self._absence(a) for a in step.absent]
            part = _Part(tuple(pieces), _common([p.rule for p in below]), below[0].how if len(below) == 1 else ())
        if isinstance(node, plan.Variable):
            return part
        if isinstance(node, plan.LoopResult):
            return _Part((self._of_loop(step, node, part),))
        named = self.names.of(node) if not free_depths(node) else None
        if isinstance(node, GROUPINGS):
            part = self._grouped(step, part)
        if isinstance(node, plan.FlatMap):
            part = part._replace(how=(*part.how, self.names.text(node)))
        rule = self.names.rule(node)
        if rule:
            part = part._replace(rule=rule)
        return part if named is None else _Part((self._derived(goal, named, part),))

    def _of_loop(self, step: Step, node: plan.LoopResult, part: _Part) -> Derivation:
        """A row of a loop; if the loop has lost it since, this is noted, and it is not a row of a view."""
        goal = step.goal
        if step.way is not None:
            part = self._along(step.way, part)
        if step.round is not None and self._loses(node.loop) and not self._lasts(goal):
            part = _Part(part.pieces, part.rule, (*part.how, f"in round {step.round}"))
            return self._derived(goal, self.names.earlier(node), part, step.round)
        return self._derived(goal, self.names.recursion(node), part, step.round)

    def _along(self, way: Way, part: _Part) -> _Part:
        """The descriptions of the nodes on a way, bottom-up."""
        said = self._said.get(id(way))  # it lives as long as the plan
        if said is None:
            told = [(n, self.names.text(n) if isinstance(n, plan.Reduce) else "", self.names.rule(n)) for n in way.path]
            said = self._said[id(way)] = [(text, rule) for _, text, rule in reversed(told) if text or rule]
        for text, rule in said:
            if text:
                how = "; ".join(part.how)
                part = _Part((Derivation((), text, "group", part.pieces, how=how, rule=part.rule),))
            if rule:
                part = _Part(part.pieces, rule, part.how)
        return part

    def _loses(self, loop: plan.Loop) -> bool:
        """Whether a loop may lose rows from round to round."""
        known = self._losing.get(id(loop))  # it lives as long as the search
        if known is None:
            kinds = (*GROUPINGS, plan.Negate)
            known = any(isinstance(n, kinds) and free_depths(n) for body in loop.bodies for n in body.walk())
            self._losing[id(loop)] = known
        return known

    def _lasts(self, goal: Goal) -> bool:
        """Whether a loop's row is present at its end."""
        return self.search.contents.count(goal.node, goal.inside, goal.row) > 0

    def _base(self, node: plan.Table, goal: Goal) -> _Part:
        """A row of a table."""
        table = self._tables.get(id(node))
        if table is None:
            table = self._tables[id(node)] = self.names.table(node)
        row, how = self._values(goal), table.how
        if table.partner:
            *partner, found, _ = row[table.width :]
            then = f"{table.partner}({drawing.shown(tuple(partner))})" if found else f"no row of {table.partner}"
            how = f"with {then}, as it was when this row came"
        return _Part((Derivation(row[: table.width], table.name, table.kind, (), table.columns, "", how),))

    def _is_nothing(self, node: plan.Node) -> bool:
        """Whether a plan's operation has no name for users."""
        known = self._nothing.get(id(node))  # it lives as long as the search
        if known is None:
            named = not free_depths(node) and self.names.of(node) is not None
            known = isinstance(node, SILENT) and not named and not self.names.rule(node)
            self._nothing[id(node)] = known
        return known

    def _grouped(self, step: Step, part: _Part) -> _Part:
        seen = step.seen
        assert seen is not None
        text = self.names.text(step.goal.node)
        row = self.values(step.goal.node, step.goal.inside, step.goal.row)
        how = "; ".join((*part.how, *([f"number {seen.place} of {seen.rows}"] if seen.place is not None else [])))
        of = None if seen.place is not None else seen.rows
        return _Part((Derivation(row, text, "group", part.pieces, how=how, of=of, rule=part.rule),))

    def _derived(self, goal: Goal, named: Named, part: _Part, number: int | None = None) -> Derivation:
        row = self._values(goal) if named.kind == "view" else self.values(goal.node, goal.inside, goal.row)
        how = "; ".join(dict.fromkeys(part.how)) if part.how else ""
        rule, children, of = part.rule, part.pieces, None
        if len(children) == 1 and children[0].kind == "group":
            group = children[0]
            rule, children, of = rule or group.rule, group.children, group.of
            how = "; ".join(t for t in (how, "" if rule else group.source, group.how) if t)
        return Derivation(row, named.name, named.kind, children, named.columns, rule, how, number, of)

    # what is not there

    def _absence(self, absent: Absent) -> Derivation:
        node, inside, bound = self._blame(absent)
        where = ""
        if isinstance(node, plan.Filter) and self._called(node) is None and self._called(node.child) is not None:
            where = self.names.text(node).replace("Filter", "where", 1)
            node = node.child
        codes = tuple(bound.get(c, NULL) for c in range(len(node.types)))
        row = self.values(node, inside, codes, optional=True)
        if isinstance(node, plan.Variable):
            loop = self.search.loop_of(inside[node.depth])
            named: Named | None = self.names.recursion(self.search.result_of(loop, node.index))
        else:
            named = self._called(node)
        width = named.width if named is not None and named.width else len(row)
        columns = () if named is None else named.columns
        nulls = [c for c, code in bound.items() if code == NULL and c < width and _can_be_null(node.types[c])]
        known = [f"{columns[c] if c < len(columns) else f'column {c + 1}'} is NULL" for c in nulls]
        if named is None:
            where = where or self.names.text(node).replace("Filter", "where", 1)
            row, width = tuple(row[c] for c in sorted(bound)), len(bound)
        source = self._read_by(node, inside) if named is None else named.name
        how = "; ".join([*known, *([where] if where else [])])
        return Derivation(row[:width], source, "absent", columns=columns, how=how)

    def _read_by(self, node: plan.Node, inside: Inside) -> str:
        """The nearest named plans below an unnamed one."""
        found: dict[str, None] = {}
        todo = [node]
        while todo:
            each = todo.pop()
            if isinstance(each, plan.Variable):
                named: Named | None = None
                if each.depth in inside:
                    loop = self.search.loop_of(inside[each.depth])
                    named = self.names.recursion(self.search.result_of(loop, each.index))
            else:
                named = self._called(each)
            if named is None:
                todo.extend(reversed(each.children()))
            else:
                found[named.name] = None
        return f"of {' with '.join(found)}"

    def _called(self, node: plan.Node) -> Named | None:
        """The user-visible name of a recursion, or of a plan that reads no loop variables."""
        if isinstance(node, plan.LoopResult):
            return self.names.recursion(node)
        return None if free_depths(node) else self.names.of(node)

    def _blame(self, absent: Absent) -> tuple[plan.Node, Any, dict[int, int]]:
        """The highest named plan that lacks rows."""
        node, inside, bound = absent.node, absent.inside, dict(absent.bound)
        contents = self.search.contents
        while True:
            named = not free_depths(node) and not isinstance(node, plan.Table) and self.names.of(node)
            if named:
                return node, inside, bound
            if isinstance(node, plan.Project | plan.Filter):
                further = below(node, bound, contents.interner)
                if further is None or (isinstance(node, plan.Filter) and contents.rows(node.child, inside, further)):
                    return node, inside, bound
                if isinstance(node, plan.Project) and contents.rows(node.child, inside, further):
                    return node, inside, bound
                node, bound = node.child, further
            elif isinstance(node, plan.Threshold):
                node = node.child
            elif isinstance(node, plan.Reduce):
                group = {k: bound[c] for c, k in enumerate(node.keys) if c in bound}
                if contents.rows(node.child, inside, group):
                    return node, inside, bound
                node, bound = node.child, group
            elif isinstance(node, plan.Join):
                sides = sides_of(node, bound)
                if sides is None:
                    return node, inside, bound
                if not contents.rows(node.right, inside, sides[1]):
                    node, bound = node.right, sides[1]
                elif not contents.rows(node.left, inside, sides[0]):
                    node, bound = node.left, sides[0]
                else:
                    return node, inside, bound
            else:
                return node, inside, bound
