"""EXPLAIN: the plan of a query, how its joins would be maintained, and which of its steps exist already."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan import nodes as plan
from everview.plan.explain import numbered
from everview.plan.multiway import Choice, Decision
from everview.plan.prune import prune
from everview.session import doors
from everview.session.inspect import upstream
from everview.session.names.plan_preparation import rewritten
from everview.sql.answers import lookups, one_off
from everview.sql.answers.result import Result
from everview.sql.ddl import schemas
from everview.sql.ddl.definitions import refuse_properties
from everview.sql.inspection import reasons
from everview.sql.rights import shared_queries, shown_plans, visible_relations
from everview.sql.select import join_plans
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.error_positions import Source
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.sql.statements import Statements


_PLAN_FOR = re.compile(
    r"\s*(?:(?:RAW|DECORRELATED|(?:LOCALLY\s+)?OPTIMIZED|PHYSICAL)\s+)?PLAN\s+(?:AS\s+TEXT\s+)?FOR\s+"
    r"(?:(?:MATERIALIZED\s+)?VIEW\s+)?",
    re.IGNORECASE,
)
"""EXPLAIN PLAN FOR, as Flink, Calcite and Materialize write it: there is one plan, of queries and views."""


def _plain(statement: statement_reader.Statement) -> statement_reader.Statement:
    found = _PLAN_FOR.match(statement.text)
    if found is None:
        return statement
    blank = re.sub(r"[^\n]", " ", found.group())
    text = blank + statement.text[found.end() :]
    return next(statement_reader.statements(text, lambda: statement.dialect), statement)


def explain(sql: Statements, statement: statement_reader.Statement) -> Result:
    """EXPLAIN [ANALYZE] [(options)] query, EXPLAIN view, EXPLAIN WHY query, EXPLAIN ALTERNATIVES query or view"""
    explained, analyze = _options(_plain(statement_reader.respoken(statement)))
    source = sql.placed(explained.source())
    if explained.first == "WHY":
        return reasons.explain_why(sql, _without_first(source))
    if explained.first == "ALTERNATIVES":
        return _alternatives(sql, _without_first(source))
    name = schemas.found(sql.core, source.text.strip(), sql.session.views)
    if name in sql.session.views:
        view = visible_relations.whole(sql.session, name, "its plan")
        if sql.core.access.acting() is None:
            return sql.texts("plan", view.explain().split("\n"))
        return sql.texts("plan", shown_plans.lines(sql.core, shown_plans.of_view(sql.core, view)))
    tree = statement_reader.parsed(source)
    node = _explained(tree, source)
    query, compiler = consumed_parts.whole(tree, source, lambda: sql.bound(node, source))
    plain = joins.take(query.node, range(query.width))
    how = sql.how_to_join(plain, source)
    collection, kept = rewritten(sql.core, sql.collection(compiler, plain, query.names), how)
    steps, free = shown_plans.lines(sql.core, collection), sql.core.access.acting() is None
    joined = _joins(sql, relation_of(collection).node, kept, join_plans.why(how, sql.asked(source))) if free else []
    found = [str(look_up) for _, look_up in lookups.planned(sql.core, query.node)] if node is tree and free else []
    asked = [one_off.told(sql.core, query.node, sql.way)] if node is tree else []
    lines = [*steps, *joined, *found, *asked]
    if free:
        lines += _kept(sql, collection)
    else:  # indexes that others have brought about, and sizes, are hidden; how it is shared is not
        lines += shared_queries.told(sql, node, source)
    if analyze:
        start = time.perf_counter()
        rows = len(sql.answer(query, compiler))
        lines.append(f"answered: {rows} row{'' if rows == 1 else 's'} in {(time.perf_counter() - start) * 1000:.1f} ms")
    return sql.texts("plan", lines)


def _alternatives(sql: Statements, source: Source) -> Result:
    """The possible plans of a query's joins, or of those of an existing view, with their costs."""
    sql.core.access.may_manage("see how large tables are", look=True)
    name = schemas.found(sql.core, source.text.strip(), sql.session.views)
    if name in sql.session.views:
        view = visible_relations.whole(sql.session, name, "its plan")
        return sql.texts("plan", doors.alternatives_of_view(sql.core, view))
    tree = statement_reader.parsed(source)
    node = _explained(tree, source)
    query, compiler = consumed_parts.whole(tree, source, lambda: sql.bound(node, source))
    collection = sql.collection(compiler, joins.take(query.node, range(query.width)), query.names)
    return sql.texts("plan", doors.alternatives(sql.core, collection))


def _without_first(source: Source) -> Source:
    """The text with its first word blanked out."""
    word, *rest = source.tokens
    text = f"{source.text[: word.start]}{' ' * (word.end + 1 - word.start)}{source.text[word.end + 1 :]}"
    return replace(source, text=text, known=tuple(rest))


def _options(statement: statement_reader.Statement) -> tuple[statement_reader.Statement, bool]:
    """What to explain, and whether to execute it: ANALYZE, (ANALYZE, FORMAT TEXT)"""
    words, said = Words(statement), []
    if words.tokens and words.tokens[0].text == "(" and not _is_query(words):
        words.need("(")
        said.append(_option(words))
        while words.next_is(","):
            said.append(_option(words))
        words.need(")")
    elif words.tokens and words.tokens[0].text.upper() == "ANALYZE":
        said.append(_option(words))
    if words.at == 0:
        return statement, False
    end = words.tokens[words.at - 1].end + 1
    blank = re.sub(r"[^\n]", " ", statement.text[:end]) + statement.text[end:]
    rest = next(statement_reader.statements(blank, lambda: statement.dialect), None)
    if rest is None:
        raise words.error("a query is missing here", "EXPLAIN ANALYZE SELECT ...")
    return rest, any(said)


def _is_query(words: Words) -> bool:
    """Whether brackets hold a query, not options."""
    following = [t.text.upper() for t in words.tokens if t.text != "("][:1]
    return bool(following) and following[0] in ("SELECT", "WITH", "VALUES", "FROM", "TABLE")


def _option(words: Words) -> bool:
    """One option: whether it requests execution."""
    at = words.at
    name = words.take("an option").upper()
    value = words.take("a value").upper() if not _ended(words, name) else "TRUE"
    if name == "ANALYZE" and value in ("TRUE", "ON", "1", "FALSE", "OFF", "0"):
        return value in ("TRUE", "ON", "1")
    if name == "FORMAT" and value == "TEXT":
        return False
    words.at = at
    raise words.error(
        f"EXPLAIN has no option {name} {value}".removesuffix(" TRUE"), "ANALYZE or FORMAT TEXT", "E_OPTION"
    )


def _ended(words: Words, name: str) -> bool:
    following = words.tokens[words.at].text.upper() if words.at < len(words.tokens) else ""
    flags = ("TRUE", "FALSE", "ON", "OFF", "1", "0")
    return following in (",", ")", "") or (following not in flags and name != "FORMAT")


def _explained(tree: exp.Expr, source: Source) -> exp.Expr:
    """The query to explain: the statement, or that of a CREATE VIEW."""
    node = tree
    if isinstance(tree, exp.Create) and isinstance(tree.expression, statement_reader.QUERIES):
        refuse_properties(tree, source)
        for part in ("this", "kind", "exists", "replace"):
            tree.args.get(part)
        consumed_parts.understood(tree.this)
        node = tree.expression
    if not isinstance(node, statement_reader.QUERIES):
        raise source.refuse(
            node, "only queries and views can be explained", "EXPLAIN SELECT ..., or EXPLAIN name_of_a_view"
        )
    return node


def _joins(sql: Statements, node: plan.Node, how: Choice | None, why: str) -> Iterator[str]:
    """How loops and joins of several inputs would be maintained."""
    for decision in sql.core.runtime.builder.planned(node, how)[1]:
        yield str(replace(decision, why=why) if why and isinstance(decision, Decision) else decision)


def _kept(sql: Statements, collection: Collection) -> Iterator[str]:
    """Which of the plan's steps exist already, so that a view would share them."""
    core, measure = sql.core, sql.core.runtime.measure()
    rows = numbered(relation_of(collection).node)
    for node in prune(relation_of(collection).node, core.runtime.builder.installed, core.runtime.builder).walk():
        for kept in core.runtime.builder.arrangements.get((node, ()), []):
            _, updates, size = measure(kept.operator)
            dataflow, views = core.runtime.dataflow, core.catalog.views.values()
            users = [
                relation_of(v).label
                for v in views
                if kept.operator in upstream(dataflow, relation_of(v).arrangement.operator)
            ]
            by = ", ".join(str(c) for c in kept.order)
            what = rows.get(node) or kept.operator.describe()
            used = f", for {', '.join(users)}" if users else ""
            yield f"kept: {what} in the order {by}: {updates} updates, {size} bytes{used}"
