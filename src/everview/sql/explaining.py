"""EXPLAIN: the plan of a query, how its joins would be kept, and which of its steps are kept already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.language.collection import Collection
from everview.plan import joins
from everview.plan import nodes as plan
from everview.plan.explain import numbered
from everview.plan.multiway import Choice, Decision
from everview.plan.prune import prune
from everview.session.inspect import upstream
from everview.sql import choice, names, parts, reading, reasons
from everview.sql.definitions import refuse_properties
from everview.sql.places import Source
from everview.sql.result import Result

if TYPE_CHECKING:
    from everview.sql.statements import Statements


def explain(sql: Statements, statement: reading.Statement) -> Result:
    """EXPLAIN query, EXPLAIN view, EXPLAIN WHY query"""
    text = statement.text
    start = text.lower().index("explain")
    # sqlglot takes what follows EXPLAIN for one token: what is to be noted is in there
    explained = next(
        reading.statements(f"{text[:start]}       {text[start + 7 :]}", lambda: statement.dialect), statement
    )
    source = explained.source()
    if explained.first == "WHY":
        return reasons.explain_why(sql, sql.placed(_without_first(source)))
    name = names.spelled(source.text.strip(), sql.session.views)
    if name in sql.session.views:
        view = sql.session[name]
        return sql.texts("plan", view.explain().split("\n"))
    tree = reading.parsed(source)
    node = _explained(tree, source)
    query, compiler = parts.whole(tree, source, lambda: sql.bound(node, source))
    plain = joins.take(query.node, range(query.width))
    collection = sql.collection(compiler, plain, query.names)
    how = sql.how_to_join(plain, source)
    joined = _joins(sql, plain, how, choice.why(how, sql.asked(source)))
    lines = [*collection.explain().split("\n"), *joined, *_kept(sql, collection)]
    return sql.texts("plan", lines)


def _without_first(source: Source) -> Source:
    """The text without its first word, everything else in its place."""
    word, *rest = source.tokens
    text = f"{source.text[: word.start]}{' ' * (word.end + 1 - word.start)}{source.text[word.end + 1 :]}"
    return replace(source, text=text, known=tuple(rest))


def _explained(tree: exp.Expr, source: Source) -> exp.Expr:
    """The query to explain: the statement, or what a CREATE VIEW would keep."""
    node = tree
    if isinstance(tree, exp.Create) and isinstance(tree.expression, reading.QUERIES):
        refuse_properties(tree, source)
        for part in ("this", "kind", "exists", "replace"):
            tree.args.get(part)
        parts.understood(tree.this)
        node = tree.expression
    if not isinstance(node, reading.QUERIES):
        raise source.refuse(
            node, "only queries and views can be explained", "EXPLAIN SELECT ..., or EXPLAIN name_of_a_view"
        )
    return node


def _joins(sql: Statements, node: plan.Node, how: Choice | None, why: str) -> Iterator[str]:
    """How loops and joins of several inputs would be kept."""
    for decision in sql.core.runtime.builder.planned(node, how)[1]:
        yield str(replace(decision, why=why) if why and isinstance(decision, Decision) else decision)


def _kept(sql: Statements, collection: Collection) -> Iterator[str]:
    """Which of the plan's steps are kept already, so that a view of it would share them."""
    core, measure = sql.core, sql.core.runtime.measure()
    rows = numbered(collection._node)
    for node in prune(collection._node, core.runtime.builder.installed, core.runtime.builder).walk():
        for kept in core.runtime.builder.arrangements.get((node, ()), []):
            _, updates, size = measure(kept.operator)
            dataflow, views = core.runtime.dataflow, core.catalog.views.values()
            users = [v._name for v in views if kept.operator in upstream(dataflow, v._arrangement.operator)]
            by = ", ".join(str(c) for c in kept.order)
            what = rows.get(node) or kept.operator.describe()
            used = f", for {', '.join(users)}" if users else ""
            yield f"kept: {what} in the order {by}: {updates} updates, {size} bytes{used}"
