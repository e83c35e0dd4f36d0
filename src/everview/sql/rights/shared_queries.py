"""Sharing: how a query followed by many tenants is maintained, although each sees other rows.

There are three ways (goebel-2019, 10.2 and 12.3), chosen per query and shown by EXPLAIN:

    delivery   A table or view is kept for everybody. Its changes are parted by the columns that the policy compares
               with attributes, once for all, when they are told. For SUBSCRIBE TO name: no operators are added.
    route      The attributes are parameters: one dataflow computes the answers for all values that somebody follows,
               each row with its values in front, and rows are routed by them. The work is per distinct value; two
               tenants with the same one share it, and a new tenant costs no operators. For queries.
    value      The attributes are constants: one dataflow for each value, shared by those who have it. For what cannot
               have parameters, and for loops, whose rounds would be those of the slowest.

The paper puts a client's token into the query. Here it stays outside: the token is only used where rows are routed.

A row that cannot be computed is missing for its tenant. Reading then computes that tenant's result alone, to find out
whether it is complete, so nothing is revealed to others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

from sqlglot import exp

from everview.codes.codec import Codec
from everview.dataflow.read_leases import MustWait, is_guest
from everview.errors import EverviewError, InputError, PlanError, RowErrors, did_you_mean
from everview.expr.resolve import Column
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan import nodes as plan
from everview.plan.digest import digest
from everview.plan.substitute import substituted
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.rights.principal import Principal, acting
from everview.sql.answers import one_off
from everview.sql.answers.parameters import Learned, Parameters
from everview.sql.ddl import schemas
from everview.sql.rights import known_queries, policies, visible_relations
from everview.sql.rights.known_queries import KnownQueries
from everview.sql.rights.shares import Computed, Share, equal_to
from everview.sql.scalar.constants import text_as
from everview.sql.select.compiler import Compiler
from everview.sql.select.query import Query
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.error_positions import Source, SqlError
from everview.types import INT, DataType

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.reads.subscribable import Subscribable
    from everview.session.table import Table
    from everview.session.view import View
    from everview.sql.statements import Statements

Way = Literal["route", "value", "delivery"]
WAYS: tuple[Way, ...] = ("route", "value", "delivery")

_NUMBERS = itertools.count(1)


@dataclass
class Trunk:
    """One dataflow that several tenants share."""

    view: View
    values: Table | None = None
    """the values in use, if they are parameters"""
    counts: dict[tuple[int, ...], int] = field(default_factory=dict)
    """the number of followers of each"""
    since: dict[tuple[int, ...], int] = field(default_factory=dict)
    """since when"""


@dataclass(frozen=True)
class Bound:
    """A query with the attributes of its follower."""

    query: Query
    compiler: Compiler
    types: dict[str, DataType] = field(default_factory=dict)
    """of the attributes, if they are parameters"""
    place: plan.Table | None = None
    """the placeholder for their values in the plan"""

    @cached_property
    def node(self) -> plan.Node:
        """The plan of the delivered columns: the attributes' values first, if they are parameters."""
        return joins.take(self.query.node, range(self.query.width))

    @cached_property
    def digest(self) -> str:
        """Identifies the plan."""
        return digest(self.node)


@dataclass(frozen=True)
class Followable:
    """How a query can be followed, by everybody to whom it applies (`everview.sql.rights.known_queries`)."""

    bare: str = ""
    """it is a table or view itself, of this name"""
    routed: Bound | None = None
    """its plan for all values of the attributes, if it has one"""
    alone: Bound | None = None
    """its plan for the user who followed it first"""
    who: Principal | None = None
    """that user"""


# following


def of_name(sql: Statements, name: str) -> Subscribable | Share:
    """A table or view, as the current user may follow it."""
    found = visible_relations.seen(sql.session, name)
    if isinstance(found, Computed) or (isinstance(found, Share) and sql.sharing in ("route", "value")):
        return of_query(sql, Source(f"SELECT * FROM {policies._from(name)}"))
    return found  # type: ignore[no-any-return]


def of_query(sql: Statements, source: Source) -> Subscribable | Share:
    """A query, as the current user may follow it."""
    who = sql.core.access.acting()
    assert who is not None
    known: KnownQueries[Followable] = sql.core.attached.setdefault("known queries", KnownQueries())
    plain = known_queries.is_plain(source) and sql.core.transactions.pending() is None
    found = known.find(sql, source, who) if plain else None
    if found is not None and (share := _followed(sql, source, who, found)) is not None:
        return share
    found, attributes = _bound(sql, source, who)
    if plain and attributes is not None:
        known.keep(sql, source, who, attributes, found)
    share = _followed(sql, source, who, found)
    if share is None:
        assert found.alone is not None
        share = _of_value(sql, found.alone, source)
    return share


def columns_of_known(sql: Statements, source: Source) -> list[Column] | None:
    """The columns of a query that the current user, or another with the same plan, has followed before."""
    who, known = sql.core.access.acting(), sql.core.attached.get("known queries")
    if who is None or known is None or not known_queries.is_plain(source):
        return None
    found: Followable | None = known.find(sql, source, who)
    bound = None if found is None else found.routed or found.alone
    if bound is None:
        return None
    names, types = bound.query.names, bound.node.types[len(bound.types) :]
    return [Column(n, t) for n, t in zip(names, types, strict=True)]


def _bound(sql: Statements, source: Source, who: Principal) -> tuple[Followable, Mapping[str, Any] | None]:
    """How a query can be followed, and the attributes of the user that this depends on; None if it is only for now."""
    tree = statement_reader.parsed(source)
    bare, read = known_queries.observing(who, lambda: _bare(sql, tree) if sql.sharing in (None, "delivery") else "")
    if bare and not isinstance(visible_relations.seen(sql.session, bare), Computed):
        return Followable(bare), read
    if is_guest():  # of a step: its state is created after that
        raise MustWait
    alone, read = known_queries.observing(
        who, lambda: consumed_parts.whole(tree, source, lambda: _alone(sql, tree, source))
    )
    _check_names(alone.query, tree, source)
    (_, routed, _), read_shared = known_queries.observing(who, lambda: _chosen(sql, alone, tree, source))
    compiler, node = alone.compiler, alone.node
    given: tuple[plan.Node, ...] = ()
    if routed is not None:
        assert routed.place is not None
        compiler, node, given, read = routed.compiler, routed.node, (routed.place,), read_shared
    lasts = known_queries.is_lasting(source, compiler, node, given)
    return Followable("", routed, alone, who), read if lasts else None


def _followed(sql: Statements, source: Source, who: Principal, found: Followable) -> Subscribable | Share | None:
    """A query, followed; None if it must be bound for this user."""
    if found.bare:
        seen = visible_relations.seen(sql.session, found.bare)
        return None if isinstance(seen, Computed) else seen
    if is_guest():
        raise MustWait
    assert found.alone is not None
    if found.routed is None:
        return _of_value(sql, found.alone, source)
    codes = _codes(sql.core, found.routed, who)
    if codes is None:
        return None
    alone = found.alone
    if found.who != who:

        @cache
        def own() -> Bound:
            with acting(who):
                return _alone(sql, statement_reader.parsed(source), source)

        return _routed(sql, found.routed, codes, own)
    return _routed(sql, found.routed, codes, lambda: alone)


def _chosen(sql: Statements, alone: Bound, tree: exp.Expr, source: Source) -> tuple[Way, Bound | None, str]:
    """How a query is shared, its plan with parameters in that case, and the reason if not."""
    if sql.sharing == "value":
        return "value", None, "because SET sharing says so"
    if not alone.compiler.claims:
        return "value", None, "its policies read no attributes"
    if any(value is None for value in alone.compiler.claims.values()):
        return "value", None, "an attribute is missing"
    if any(isinstance(n, plan.Loop) for n in alone.query.node.walk()):
        return "value", None, "it has a loop"
    if sql.core.transactions.pending() is not None:
        return "value", None, "a transaction is under way"
    if sql.core.runtime.backing.read_only:
        return "value", None, "this session only reads"
    try:
        return "route", _with_parameters(sql, alone, tree, source), ""
    except EverviewError as error:
        return "value", None, f"it cannot have parameters ({error.code})"


def _alone(sql: Statements, tree: exp.Expr, source: Source) -> Bound:
    """Bound for one tenant: attributes are constants."""
    query, compiler = sql.bound(tree, source, standing=True)
    return Bound(query, compiler)


def _with_parameters(sql: Statements, alone: Bound, tree: exp.Expr, source: Source) -> Bound:
    """Bound for all tenants: attributes are parameters, with types inferred as by `db.prepare`."""
    types: dict[str, DataType | None] = dict.fromkeys(sorted(alone.compiler.claims))
    while True:
        compiler = Compiler(sql.session, source, standing=True)
        compiler.shared = True
        compiler.parameters = Parameters(types)
        place = plan.Table(-1, tuple(t or INT for t in types.values()))
        try:
            query = compiler.query(tree, {}, compiler.parameters.place(place, source))
        except Learned as found:
            types[found.name] = found.type
            continue
        known = {n: t for n, t in types.items() if t is not None}
        if len(known) < len(types):
            raise PlanError("E_PARAMETER", "an attribute has no type", "cast it")
        return Bound(query, compiler, known, place)


def _routed(sql: Statements, routed: Bound, codes: tuple[int, ...], alone: Callable[[], Bound]) -> Share:
    """One dataflow for all values of the attributes; `alone` binds the query for this user."""
    core, trunks = sql.core, _trunks(sql.core)
    key = "route", routed.digest, routed.query.names
    trunk = trunks.get(key)
    if trunk is None or relation_of(trunk.view).dropped:
        with acting(None), core.catalog.nameless():
            trunk = trunks[key] = _planted(sql, routed)
    assert trunk.values is not None
    if not trunk.counts.get(codes):
        with acting(None), sql.session.transaction():
            core.transactions.stage(trunk.values, [codes], 1)
        trunk.since[codes] = core.time
    trunk.counts[codes] = trunk.counts.get(codes, 0) + 1
    width = len(codes)
    share = Share(
        trunk.view,
        equal_to(range(width), codes),
        route=(list(range(width)), codes),
        hidden=width,
        since=trunk.since[codes],
        way="route",
        complete=_completeness(sql, alone),
    )
    share.reads = tuple(routed.compiler.used)
    share.when_closed(lambda: _leave(core, key, codes))
    return share


def _planted(sql: Statements, routed: Bound) -> Trunk:
    """Create a dataflow for all values of the attributes."""
    core = sql.core
    columns = [Column(f"${n}", t) for n, t in routed.types.items()]
    values = core.definitions.tables.system(f"{RESERVED_PREFIX}shared {routed.digest[:16]} values", columns)
    if stale := core.transactions.present(values, None):  # left by a killed server
        core.transactions.stage(values, stale, -1)
    try:
        assert routed.place is not None
        node = substituted(routed.node, {routed.place: relation_of(values).node})
        names = [c.name for c in columns] + [f"{n}" for n in routed.query.names]
        listed = [Column(n, t) for n, t in zip(names, node.types, strict=True)]
        parents = [values, *(sql.session[n] for n in routed.compiler.used)]
        collection = Collection(node, listed, core, parents=parents)
        name = f"(shared {next(_NUMBERS)})"
        view = sql.session.view(
            name, collection, index_by=names[: len(columns)], plan=sql.how_to_join(node, Source(""))
        )
    except BaseException:
        values.drop()
        raise
    return Trunk(view, values)


def _of_value(sql: Statements, alone: Bound, source: Source) -> Share:
    """A separate dataflow, for all followers with the same attributes."""
    core, trunks = sql.core, _trunks(sql.core)
    key = "value", alone.digest, alone.query.names
    trunk = trunks.get(key)
    if trunk is None or relation_of(trunk.view).dropped:
        with acting(None), core.catalog.nameless():
            collection = sql.collection(alone.compiler, alone.node, alone.query.names)
            name = f"(shared {next(_NUMBERS)})"
            view = sql.session.view(name, collection, plan=sql.how_to_join(alone.node, source))
        trunk = trunks[key] = Trunk(view)
    trunk.counts[()] = trunk.counts.get((), 0) + 1
    share = Share(trunk.view, equal_to((), ()), route=([], ()), way="value")
    share.reads = tuple(alone.compiler.used)
    share.when_closed(lambda: _leave(core, key, ()))
    return share


def _leave(core: Core, key: Any, codes: tuple[int, ...]) -> None:
    """Remove a follower; free what nobody follows."""
    trunk = _trunks(core).get(key)
    if trunk is None or core.closed:
        return
    trunk.counts[codes] -= 1
    if trunk.counts[codes]:
        return
    del trunk.counts[codes]
    trunk.since.pop(codes, None)
    with acting(None), core.catalog.nameless():
        if trunk.counts:
            assert trunk.values is not None
            core.transactions.stage(trunk.values, [codes], -1)
            return
        del _trunks(core)[key]
        if not relation_of(trunk.view).dropped:
            trunk.view.drop()
        if trunk.values is not None and not relation_of(trunk.values).dropped:
            trunk.values.drop()


def _completeness(sql: Statements, bind: Callable[[], Bound]) -> Callable[[], None]:
    """Whether a tenant's own result could be computed, by computing it alone."""

    def check() -> None:
        alone = bind()
        node = alone.node
        try:
            one_off.rows(sql.session, node, lambda: sql.collection(alone.compiler, node, alone.query.names), None)
        except RowErrors as error:
            raise visible_relations.without_rows(error) from None

    return check


def _codes(core: Core, routed: Bound, who: Principal) -> tuple[int, ...] | None:
    """The values of the attributes that somebody has; None if some are missing, or of another type."""
    values: list[Any] = []
    for name, declared in routed.types.items():
        value = who.setting(name)
        if value is None:
            return None
        text = policies.constant(value).name
        if declared.kind == "str":
            values.append(text)
            continue
        try:
            fitted: Any = text_as(text, declared, exp.null(), Source(text))
        except EverviewError:
            return None
        values.append(text if fitted is None else fitted.value)
    return Codec(tuple(routed.types.values()), tuple(routed.types), core.interner).encode_row(tuple(values))


def _trunks(core: Core) -> dict[Any, Trunk]:
    found: dict[Any, Trunk] = core.attached.setdefault("trunks", {})
    return found


def _bare(sql: Statements, tree: exp.Expr) -> str:
    """The table or view of a query that is only SELECT * FROM name."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or type(tree.expressions[0]) is not exp.Star:
        return ""
    given = {part for part, value in tree.args.items() if value}
    table = tree.args["from_"].this if "from_" in given else None
    if given != {"expressions", "from_"} or not isinstance(table, exp.Table) or table.args.get("joins"):
        return ""
    if not isinstance(table.this, exp.Identifier):
        return ""

    name = sql.spelled(schemas.written(table))
    return name if name in sql.session and sql.core.access.has("SELECT", "relation", name) else ""


def _check_names(query: Query, tree: exp.Expr, source: Source) -> None:
    for name in query.names:
        if query.names.count(name) > 1:
            raise source.error(tree, "E_DUPLICATE", f"two columns are called {name}", "name them with AS")


# telling


def told(sql: Statements, tree: exp.Expr, source: Source) -> Iterator[str]:
    """How a query is shared with others, for EXPLAIN."""
    bare = _bare(sql, tree)
    if bare and sql.sharing in (None, "delivery"):
        found = visible_relations.seen(sql.session, bare)
        if isinstance(found, Share):
            by = (
                ", ".join(relation_of(found).columns[p].name for p in found._route[0]) if found._route else "its policy"
            )
            yield f"sharing: {bare} is kept for everybody; what changes is parted by {by} when it is told"
            return
    try:
        alone = _alone(sql, tree, source)
    except (SqlError, InputError) as error:
        yield f"sharing: cannot be followed ({error.code})"
        return
    if not alone.compiler.claims:
        return
    way, _, why = _chosen(sql, alone, tree, source)
    names = ", ".join(sorted(alone.compiler.claims))
    if way == "route":
        yield f"sharing: one dataflow for all values of {names}; rows are routed by them"
    else:
        yield f"sharing: one dataflow for each value of {names}: {why}"


# SET sharing


def is_setting(node: exp.Set) -> bool:
    """Whether a SET chooses how queries are shared."""
    equal = node.expressions[0].this if len(node.expressions) == 1 else None
    return isinstance(equal, exp.EQ) and equal.this.name.lower() == "sharing"


def setting(node: exp.Set, source: Source) -> Way | None:
    """What SET sharing = ... sets."""
    value = node.expressions[0].this.expression
    consumed_parts.understood(node.expressions[0])
    for way in WAYS:
        if value.name.lower() == way:
            return way
    if value.name.lower() == "default":
        return None
    raise source.error(value, "E_PLAN", f"there is no way {value.name!r}", did_you_mean(value.name, (*WAYS, "default")))
