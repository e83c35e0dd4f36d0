"""Programs: the results of `db.datalog` and `db.register`.

A program's relations live among the session's tables and views: rules read those by name, and relations defined by
rules are installed as views, which SQL, collections and later programs can read.

`db.register` only parses and checks (goebel-2019 §12.2): a relation is built at the first `interest`, and dropped with
the last `uninterest`. Rules over registered rules are inlined; with `share=True` the relations they read are installed
as views, whose arrangements others share.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from everview.codes.codec import Codec
from everview.datalog import edn, grammar, magic
from everview.datalog.solutions import Relation, distinct
from everview.datalog.strata import Strata
from everview.datalog.syntax import Declaration, Dominance, Program, Rule
from everview.errors import InputError, PlanError, did_you_mean
from everview.expr import common_types, functions
from everview.expr.resolve import Column
from everview.language.collection import Collection, common_owner
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan.multiway import Choice, check_choice
from everview.plan.nodes import Constant, Filter, Node, Project
from everview.session import doors
from everview.session.core import Core, core_of
from everview.session.view import View

if TYPE_CHECKING:
    from everview.session.session import Session


class Rules:
    """The relations of a program, each a View: `rules.reach`, `rules["reach"]`.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> edge = db.table("edge", {"src": str, "dst": str})
    >>> rules = db.datalog('''
    ...     reach("a").
    ...     reach(Y) :- reach(X), edge(X, Y).
    ... ''')
    >>> edge.insert([("a", "b"), ("b", "c"), ("d", "e")])
    >>> sorted(rules.reach.rows())
    [('a',), ('b',), ('c',)]
    >>> list(rules)
    ['reach']
    """

    # public names are methods only: anything else would hide a relation of that name
    def __init__(self, session: Session, text: str, plan: Choice | None = None) -> None:
        check_choice(plan)
        self._session = session
        self._core = core_of(session)
        self._plan = plan
        self._read: dict[str, None] = {}
        self._bound: dict[str, Any] = {}
        """the attributes of the author of the rules, if those decide which rows they read"""
        self._program = read(text)
        for rule in self._program:
            _check_new(session, rule)
        _check_about(self._program)
        self._strata = self._compiled(self._program, {})
        self._relations = {n: r for n, r in self._strata.done.items() if "'" not in n}
        self._views: dict[str, View] = {}
        self._interests: Counter[str] = Counter()
        self._shared: dict[str, list[str]] = {}
        rules_of(self._core).update(dict.fromkeys(self._relations, self))

    def _compiled(self, program: Iterable[Rule], extra: dict[str, Relation]) -> Strata:
        strata = Strata(
            program,
            lambda n: extra.get(n) or self._outside(n),
            self._known,
            self._core.functions,
            self._program,
        )
        strata.compile()
        return strata

    def _outside(self, name: str) -> Relation | None:
        """A table, a view, a relation of other rules, or (`table/column`) a column of a table with a key."""
        access = self._core.access
        if name in self._core.catalog.tables or name in self._core.catalog.views:
            return Relation(self._contents(name), tuple(c.name for c in relation_of(self._session[name]).columns))
        if name in rules_of(self._core):
            others = rules_of(self._core)[name]
            for read in others._read:
                self._contents(read)  # the caller needs the rights to all of it, and to the same rows
            if (who := access.acting()) is not None and others._bound != self._bound:
                raise access.refused("SELECT", "relation", name, who)
            return others._relations[name]
        table, _, column = name.rpartition("/")
        found = self._column(table, column) if table in self._session.tables else None
        if found is None:
            access.may_read(name)  # hidden and missing relations are reported alike
        return found

    def _contents(self, name: str) -> Node:
        """A table or view, or what policies show of it to the current user."""
        access = self._core.access
        access.may_read(name)
        self._read[name] = None
        who = access.acting()
        if who is None:
            node: Node = relation_of(self._session[name]).node
            return node
        if access.policies(name, "SELECT") is not None or access.is_bound(name):
            self._bound = {**who.attributes, "current_user": who.name}
        return doors.shown_rows(self._core, name)

    def _column(self, name: str, column: str) -> Relation | None:
        """A table's column as an attribute of its key; NULL is not a value."""
        table = self._core.catalog.tables[name]
        names = [c.name for c in relation_of(table).columns]
        if len(relation_of(table).key) != 1 or column not in names:
            return None
        node = self._contents(name)
        key, value = (joins.refs(node.types)[i] for i in (relation_of(table).key[0], names.index(column)))
        if value.type.nullable:
            node = Filter(node, functions.call("is_not_null", value))
        return Relation(Project(node, (key, value)), ("e", "v"))

    def _known(self) -> list[str]:
        tables = {n: self._core.catalog.tables[n] for n in self._session.tables}
        columns = [
            f"{n}/{c.name}" for n, t in tables.items() if len(relation_of(t).key) == 1 for c in relation_of(t).columns
        ]
        rules = [n for n in rules_of(self._core) if self._core.access.sees("relation", n)]
        return [*tables, *self._session.views, *rules, *columns]

    def _collection(self, relation: Relation) -> Collection:
        columns = [Column(n, t) for n, t in zip(relation.columns, relation.node.types, strict=True)]
        parents = [self._session[n] for n in self._read if n in self._session]
        found = Collection(relation.node, columns, self._core, parents=parents)
        relation_of(found).bound = self._bound
        relation_of(found).rules = (*relation_of(found).rules, self._strata.texts)
        return found

    # ---------------------------------------------------------------------------------- interest

    def interest(self, name: str, *, share: bool = False) -> View:
        """The relation as a view, installed on first interest; `share` also installs the relations it reads.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> edge = db.table("edge", {"src": int, "dst": int})
        >>> rules = db.register("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).")
        >>> db.views
        ()
        >>> path = rules.interest("path")
        >>> edge.insert([(1, 2), (2, 3)])
        >>> sorted(path.rows())
        [(1, 2), (1, 3), (2, 3)]
        >>> rules.uninterest("path")
        >>> db.views
        ()
        """
        relation = self._relation(name)
        if name not in self:
            with ExitStack() as undo:
                shared = self._below(name) if share else []
                for other in shared:
                    rules_of(self._core)[other].interest(other)
                    undo.callback(rules_of(self._core)[other].uninterest, other)
                self._views[name] = self._session.view(name, self._collection(relation), plan=self._plan)
                undo.pop_all()
            self._shared[name] = shared
            self._interests[name] = 0
        self._interests[name] += 1
        return self._views[name]

    def uninterest(self, name: str) -> None:
        """Release an interest; the last one drops the view and what only it needed."""
        self._relation(name)
        if name not in self:
            raise InputError("E_INTEREST", f"nobody is interested in {name!r}", "call interest() first")
        self._interests[name] -= 1
        if not self._interests[name]:
            self._views.pop(name).drop()
            for other in self._shared.pop(name):
                rules_of(self._core)[other].uninterest(other)

    def _below(self, name: str) -> list[str]:
        """The registered relations that a relation reads, directly or not, dependencies first."""
        found: dict[str, None] = {}
        todo = [name]
        while todo:
            current = todo.pop()
            rules = rules_of(self._core)[current]._program
            atoms = (a.name for r in rules if r.name == current for l in r.body for a, _ in l.atoms())
            new = [a for a in atoms if a in rules_of(self._core) and a not in found and a != name]
            found.update(dict.fromkeys(new))
            todo.extend(new)
        return list(reversed(found))

    # ---------------------------------------------------------------------------------- queries

    def query(self, name: str, *args: Any) -> list[tuple[Any, ...]]:
        """The rows of a relation with these arguments (None: any), deriving only what they need (magic sets).

        >>> import everview as ev
        >>> db = ev.connect()
        >>> edge = db.table("edge", {"src": int, "dst": int})
        >>> rules = db.register("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).")
        >>> edge.insert([(1, 2), (2, 3), (7, 8)])
        >>> sorted(rules.query("path", 1, None))
        [(1, 2), (1, 3)]
        """
        relation = self._relation(name)
        if len(args) != len(relation.columns):
            raise InputError(
                "E_ARITY",
                f"{name} has {len(relation.columns)} columns, not {len(args)}",
                f"{name}({', '.join(relation.columns)}); None stands for any value",
            )
        bound = [i for i, arg in enumerate(args) if arg is not None]
        seeds = self._seeds(relation, bound, [args[i] for i in bound]) if bound else None
        found = self._asked(name, bound, seeds)
        view = self._session.view("(question)", self._collection(found), plan=self._plan)
        try:
            return view.rows()
        finally:
            view.drop()

    def _seeds(self, relation: Relation, bound: list[int], values: list[Any]) -> Node:
        """One query: the values as the relation's columns hold them."""
        types = tuple(relation.node.types[i].optional(False) for i in bound)
        codec = Codec(types, tuple(relation.columns[i] for i in bound), self._core.interner)
        return Constant(tuple(codec.decode_rows(codec.encode_rows([tuple(values)]))), types)

    def demand(self, name: str, questions: Collection) -> Collection:
        """The rows of a relation that match one of some queries in the columns it has.

        Queries come and go like any rows; only what they need is derived.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> edge = db.table("edge", {"src": int, "dst": int})
        >>> asked = db.table("asked", {"x": int})
        >>> rules = db.register("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).")
        >>> answers = db.view("answers", rules.demand("path", asked))
        >>> edge.insert([(1, 2), (2, 3), (7, 8)])
        >>> asked.insert([(2,)])
        >>> answers.rows()
        [(2, 3)]
        """
        relation = self._relation(name)
        if common_owner(questions) is not self._core:
            raise PlanError("E_SESSION", "the questions belong to another session", "ask in the rules' own session")
        names = [c.name for c in relation_of(questions).columns]
        for column in names:
            if column not in relation.columns:
                raise InputError("E_COLUMN", f"{name} has no column {column!r}", did_you_mean(column, relation.columns))
            asked, held = (
                relation_of(questions).node.types[names.index(column)],
                relation.node.types[relation.columns.index(column)],
            )
            if common_types.common_type((asked, held)) is None:
                what = f"{name}.{column} is {held!r}, that of the questions {asked!r}"
                raise InputError("E_TYPE", what, "ask with a column of the same type")
        bound = sorted(relation.columns.index(c) for c in names)
        order = [names.index(relation.columns[i]) for i in bound]
        found = self._collection(self._asked(name, bound, joins.take(relation_of(questions).node, order)))
        return Collection(
            relation_of(found).node,
            relation_of(found).columns,
            self._core,
            parents=(*relation_of(found).parents, questions),
        )

    def _whole(self) -> set[str]:
        """Relations whose rows depend on each other, so that they are computed completely."""
        return {o.name for o in self._program.dominance} | {
            d.name for d in self._program.declared.values() if d.choice is not None
        }

    def _asked(self, name: str, bound: list[int], seeds: Node | None) -> Relation:
        """The relation restricted to seeds in the bound columns."""
        relation = self._relation(name)
        if seeds is None:
            return relation
        seed = Relation(distinct(seeds), tuple(relation.columns[i] for i in bound))
        split = [rule for rules in self._strata.rules.values() for rule in rules]
        try:
            node = (
                self._compiled(magic.rewrite(split, name, bound, self._whole()), {magic.SEED: seed})
                .done[magic.ANSWER]
                .node
            )
        except PlanError as error:
            if error.code not in ("E_STRATIFY", "E_RECURSION"):
                raise
            whole = {magic.SEED: seed, name: relation}
            node = self._compiled(magic.restriction(name, len(relation.columns), bound), whole).done[magic.ANSWER].node
        return Relation(node, relation.columns)

    # ---------------------------------------------------------------------------------- reading

    def _relation(self, name: str) -> Relation:
        if not isinstance(name, str) or name not in self._relations:
            raise UnknownRelation(
                "E_RELATION", f"the program defines no relation {name!r}", did_you_mean(name, self._relations)
            )
        return self._relations[name]

    def __getattr__(self, name: str) -> View:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> View:
        self._relation(name)
        if name not in self:
            raise UnknownRelation(
                "E_INTEREST", f"{name!r} is registered but not installed", f"rules.interest({name!r}) installs it"
            )
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._relations)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._views and not relation_of(self._views[name]).dropped

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._relations]

    def __repr__(self) -> str:
        shown = (f"{n}({', '.join(r.columns)})" for n, r in self._relations.items())
        return f"Rules({', '.join(shown)})"

    def drop(self) -> None:
        """Remove the program and drop its relations."""
        self._forget(())

    def _forget(self, kept: Container[str]) -> None:
        """Remove the program; views of these names stay."""
        for name, view in reversed(self._views.items()):
            if not relation_of(view).dropped and name not in kept:
                view.drop()
        self._views = {}
        for name in self._relations:
            rules_of(self._core).pop(name, None)


def datalog(session: Session, text: str, plan: Choice | None = None) -> Rules:
    """Implements `Session.datalog`."""
    before = session.views  # a durable session may have some of them from an earlier run
    rules = Rules(session, text, plan)
    try:
        for name in rules:
            rules.interest(name)
    except BaseException:
        rules._forget(before)
        raise
    return rules


def rules_of(core: Core) -> dict[str, Rules]:
    """The rules that define each relation of a session."""
    found: dict[str, Rules] = core.attached.setdefault("rules", {})
    return found


def read(text: str) -> Program:
    """Parse a text in either syntax: the Datomic-like one begins with a bracket."""
    if not isinstance(text, str):
        raise InputError("E_TYPE", f"{text!r} is not a program", "give the text of its rules")
    datomic = re.match(r"(\s|;[^\n]*)*\[", text) is not None
    return Program(edn.parse(text)) if datomic else grammar.parse(text)


def _check_about(program: Program) -> None:
    """Check that declarations are about relations of the program."""
    names = {rule.name for rule in program}
    said: list[Dominance | Declaration] = [*program.dominance, *program.declared.values()]
    for about in said:
        if about.name not in names:
            raise about.place.error(
                "E_RELATION", f"there is no rule for {about.name}", did_you_mean(about.name, names) or "write one"
            )


def _check_new(session: Session, rule: Rule) -> None:
    name = rule.name
    if name in session.tables:
        hint = f"insert rows with db[{name!r}].insert(...), or choose another name"
        raise rule.place.error("E_NAME", f"{name} is already a table", hint)
    if (name in session and not core_of(session).access.redeclares(name)) or name in rules_of(core_of(session)):
        kind = "a view already" if name in session else "defined by other rules already"
        raise rule.place.error("E_NAME", f"{name} is {kind}", "choose another name, or drop that first")


class UnknownRelation(InputError, AttributeError):
    """`rules.x` where there is no view x; also an AttributeError, so that hasattr works."""
