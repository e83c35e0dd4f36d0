"""Executes one-off queries.

    at once       over the columns of existing arrangements (`everview.once`)
    as a view     installed temporarily, read, and dropped: for what the first way does not support, failing rows,
                  and sharded sessions

The results are the same. `SET ask = 'once'` disables the second way and `SET ask = 'view'` the first, for tests and
comparisons; `EXPLAIN` shows which one is used.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from everview.dataflow.read_leases import MustWait, hurried
from everview.errors import EverviewError, MemoryLimitError, PlanError, did_you_mean, out_of_memory
from everview.language.collection import Collection
from everview.once.evaluation import Leaf, Question
from everview.once.leaves import batches
from everview.once.rows import Elsewhere, Words
from everview.plan import nodes as plan
from everview.plan.multiway import Choice
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.core import Core, core_of
from everview.session.inspect import error_operators
from everview.session.limits import Running
from everview.session.names.catalog import QUERY
from everview.session.reads.concurrent_reads import has_failed
from everview.sql.text.consumed_parts import understood
from everview.sql.text.error_positions import Source

if TYPE_CHECKING:
    from everview.session.session import Session

Way = Literal["once", "view"]
WAYS: tuple[Way, ...] = ("once", "view")


def rows(
    session: Session, node: plan.Node, collection: Callable[[], Collection], how: Choice | None, way: Way | None = None
) -> Words:
    """A plan's rows as codes, in the order of a view of it. `collection` is the plan as `db.view` takes it, `how` the
    join plan in that case; `way`: an explicit choice.
    """
    core = core_of(session)
    if way != "view" and core.transactions.supposed() is None:
        core.transactions.catch_up()
        try:
            return at_once(core, node)
        except Elsewhere as reason:
            if way == "once":
                raise refused(reason) from None
    return _as_view(session, collection(), how)


def _as_view(session: Session, collection: Collection, how: Choice | None) -> Words:
    """The rows of a temporary view."""
    if get_ident() in hurried:  # that may take as long as a step, and blocks everybody
        raise MustWait
    view = session.view(QUERY, collection, plan=how)
    try:
        return view._read(session.time)._repeated()
    except EverviewError as error:
        error.message = error.message.replace(f"view {QUERY!r}", "the query")
        raise
    finally:
        view.drop()


def at_once(core: Core, node: plan.Node) -> Words:
    """A plan's rows as codes, in the order of a view of it; `Elsewhere` if that requires one."""
    question = Question(node, _leaves(core), core.interner)
    question.fetch(copied=False)
    return _answered(core, question)


def fetched(core: Core, node: plan.Node) -> Callable[[], Words]:
    """The same in two parts: stored rows are copied now, in a turn or beside one; the returned function computes the
    rest, and needs no turn. Either may raise `Elsewhere`.
    """
    question = Question(node, _leaves(core), core.interner)
    question.fetch(copied=True)
    return lambda: _answered(core, question)


def _answered(core: Core, question: Question) -> Words:
    """Without a memory limit of its own, a lack of memory falls back to the other way: it may be due to another session
    that is being stopped (`everview.dataflow.kernel_interrupts`), and steps are retried then.
    """
    try:
        return question.answer(_within_limits(core))
    except MemoryLimitError:
        limits = core.limits.get(get_ident())
        if limits is not None and limits.memory is not None:
            raise
        raise Elsewhere("there was not enough memory") from None


def _within_limits(core: Core) -> Callable[[int], None]:
    """Raise an error if this thread's call exceeds its time or memory limit."""
    limits = core.limits.get(get_ident())
    if limits is None:
        return lambda words: None
    running, end = Running(core, limits), None if limits.seconds is None else monotonic() + limits.seconds

    def look(words: int) -> None:
        if end is not None and monotonic() > end:
            raise running.too_long()
        if limits.memory is not None and words > limits.memory // 8:
            raise running.told(out_of_memory("the query"))

    return look


def told(core: Core, node: plan.Node, way: Way | None) -> str:
    """How a query would be executed, for EXPLAIN."""
    if way == "view":
        return "answered through a temporary view, because SET ask says so"
    try:
        question = Question(node, _leaves(core), core.interner)
    except Elsewhere as reason:
        return f"answered through a temporary view: {reason}"
    early = ", as far as the LIMIT needs" if question.early is not None else ""
    return f"answered directly, from columns that are already kept{early}"


def is_setting(node: exp.Set) -> bool:
    """Whether a SET chooses how queries are executed."""
    equal = node.expressions[0].this if len(node.expressions) == 1 else None
    return isinstance(equal, exp.EQ) and equal.this.name.lower() == "ask"


def setting(node: exp.Set, source: Source) -> Way | None:
    """What SET ask = ... sets."""
    value = node.expressions[0].this.expression
    understood(node.expressions[0])
    for way in WAYS:
        if value.name.lower() == way:
            return way
    if value.name.lower() == "default":
        return None
    raise source.error(
        value, "E_PLAN", f"there is no way {value.name!r} to ask", did_you_mean(value.name, (*WAYS, "default"))
    )


def refused(reason: Elsewhere) -> PlanError:
    """Return the error for a query that requires a temporary view, although that was disabled."""
    return PlanError("E_PLAN", f"the query cannot be answered at once: {reason}", "SET ask = default")


def _leaves(core: Core) -> Callable[[plan.Node], Leaf | None]:
    """The arrangements of nodes, each looked up once."""
    runtime = core.runtime
    if not isinstance(runtime, EmbeddedRuntime):
        raise Elsewhere("rows are in shards")
    known: dict[plan.Node, Leaf | None] = {}

    def find(node: plan.Node) -> Leaf | None:
        if node not in known:
            known[node] = _leaf(core, node)
        return known[node]

    return find


def _leaf(core: Core, node: plan.Node) -> Leaf | None:
    """The arrangement of a node, if there is one; refused if it has failed rows."""
    dataflow = core.runtime.dataflow
    for arrangement in core.runtime.builder.arrangements.get((node, ()), []):
        trace = arrangement.trace
        if trace.diffs != 1 or trace.stateless or not arrangement.operator.scope.is_root:
            continue
        if not isinstance(node, plan.Table) and has_failed(error_operators(dataflow, arrangement.operator)):
            raise Elsewhere("rows of what it reads have failed")
        return Leaf(batches(trace.address), arrangement.order, dataflow.time)
    return None
