"""Programs: what `db.datalog` gives.

A program's relations live among the session's tables and views: rules read those by name, and what rules define is
installed as views, which SQL, collections and later programs read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from everview.collection import Collection
from everview.datalog.grammar import parse
from everview.datalog.solutions import Relation
from everview.datalog.strata import Strata
from everview.errors import InputError, did_you_mean
from everview.expr.resolve import Column
from everview.sql.one_row import NAME as ONE_ROW
from everview.sql.one_row import one_row
from everview.view import View

if TYPE_CHECKING:
    from everview.session import Session


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

    def __init__(self, session: Session, text: str) -> None:
        self._session = session
        self._read: dict[str, None] = {}
        program = parse(text)
        for rule in program:
            if rule.name in session:
                kind = "table" if rule.name in session.tables else "view"
                raise rule.place.error(
                    "E_NAME",
                    f"{rule.name} is a {kind} already",
                    f"insert rows with db[{rule.name!r}].insert(...), or choose another name"
                    if kind == "table"
                    else "choose another name, or drop it first",
                )
        strata = Strata(program, self._outside, self._known, lambda: one_row(session))
        self._relations = {n: r for n, r in strata.compile().items() if "'" not in n}
        self._views: dict[str, View] = {}
        try:
            for name, relation in self._relations.items():
                self._views[name] = session.view(name, self._collection(relation))
        except BaseException:
            self.drop()
            raise

    def _outside(self, name: str) -> Relation | None:
        if name not in self._session or name == ONE_ROW:
            return None
        self._read[name] = None
        found = self._session[name]
        return Relation(found._node, tuple(c.name for c in found._columns))

    def _known(self) -> list[str]:
        return [n for n in (*self._session.tables, *self._session.views) if n != ONE_ROW]

    def _collection(self, relation: Relation) -> Collection:
        columns = [Column(n, t) for n, t in zip(relation.columns, relation.node.types, strict=True)]
        parents = [self._session[n] for n in self._read]
        return Collection(relation.node, columns, self._session, parents=parents)

    # ---------------------------------------------------------------------------------- reading

    def __getattr__(self, name: str) -> View:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> View:
        if name not in self._views:
            raise UnknownRelation(
                "E_RELATION", f"the program defines no relation {name!r}", did_you_mean(name, self._views)
            )
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __contains__(self, name: object) -> bool:
        return name in self._views

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._views]

    def __repr__(self) -> str:
        shown = (f"{n}({', '.join(self._relations[n].columns)})" for n in self._views)
        return f"Rules({', '.join(shown)})"

    def drop(self) -> None:
        """Stop keeping the program's relations."""
        for view in reversed(list(self._views.values())):
            if not view._dropped:
                view.drop()
        self._views = {}


class UnknownRelation(InputError, AttributeError):
    """`rules.x` where the program defines no x; an AttributeError too, so that hasattr works."""
