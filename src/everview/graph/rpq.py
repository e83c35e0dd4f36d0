"""Regular path queries: an automaton traverses the graph, with one row per reachable (node, source, state).

A row in state s looks up, for every letter that s can read, the edges at its node with that label: one join on (node,
label) in each direction that the expression uses, against an index of the edges by (end, label). A table with the
columns src, label, dst in this order has the forward one already.

`.` reads any label but those mentioned, so its edges are joined on the node alone, and the mentioned labels are left to
the other moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from everview.errors import PlanError
from everview.expr.language import col, lit
from everview.graph.automaton import Automaton, compile_expression
from everview.language.collection import Collection

if TYPE_CHECKING:
    from everview.graph.graph import Graph


def rpq(g: Graph, expression: str, sources: Collection | None, label: str | None) -> Collection:
    """See `Graph.rpq`."""
    automaton = compile_expression(expression)
    name = _label_column(g, label, automaton)
    nodes = g.nodes if sources is None else g.nodes_of(sources, "sources")
    start = nodes.select(node=col.node, source=col.node, state=lit(0))

    def walk(x: Collection) -> Collection:
        steps = [*_named_steps(g, automaton, name, x), *_other_steps(g, automaton, name, x)]
        return start.union_all(*steps).distinct()

    walks = start.iterate(walk) if automaton.moves else start
    ends = walks.filter(walks.state.isin(sorted(automaton.accepting)))
    pairs = ends.select(src=ends.source, dst=ends.node)
    return pairs if len(automaton.accepting) == 1 else pairs.distinct()


def _named_steps(g: Graph, automaton: Automaton, name: str | None, x: Collection) -> Iterable[Collection]:
    """Steps along edges whose label the automaton mentions: a join for each direction."""
    for back in (False, True):
        wanted = [
            x.filter(x.state == s).select(node=x.node, source=x.source, label=_value(g, name, a.label), state=lit(t))
            for (s, a), t in automaton.moves.items()
            if a.label is not None and a.back == back
        ]
        if wanted and name is not None:
            asked, e = wanted[0].union_all(*wanted[1:]), g.edges
            near, far = _ends(g, back)
            found = asked.join(e, (asked.node == e[near]) & (asked.label == e[name]))
            yield found.select(node=e[far], source=asked.source, state=asked.state)


def _other_steps(g: Graph, automaton: Automaton, name: str | None, x: Collection) -> Iterable[Collection]:
    """Steps along edges with any other label."""
    for back in (False, True):
        wanted = [
            x.filter(x.state == s).select(node=x.node, source=x.source, state=lit(t))
            for (s, a), t in automaton.moves.items()
            if a.label is None and a.back == back
        ]
        if wanted:
            asked, e = wanted[0].union_all(*wanted[1:]), g.edges
            near, far = _ends(g, back)
            found = asked.join(e, asked.node == e[near])
            mentioned = [_value(g, name, label) for label in automaton.labels(back)]
            if mentioned and name is not None:
                found = found.filter(e[name].is_null() | ~e[name].isin(mentioned))
            yield found.select(node=e[far], source=asked.source, state=asked.state)


def _ends(g: Graph, back: bool) -> tuple[str, str]:
    return (g.dst, g.src) if back else (g.src, g.dst)


def _label_column(g: Graph, given: str | None, automaton: Automaton) -> str | None:
    name = given if given is not None else g.label
    if name is not None and (not isinstance(name, str) or name not in g.edges.schema()):
        raise PlanError("E_COLUMN", f"the edges have no column {name!r}", f"they have {', '.join(g.edges.schema())}")
    if name is None and (automaton.labels(back=False) or automaton.labels(back=True)):
        raise PlanError("E_RPQ", "the path expression has labels, but the graph has none", 'say label="column"')
    return name


def _value(g: Graph, name: str | None, text: str | None) -> Any:
    """A label of the expression as a value of the label column."""
    assert name is not None and text is not None
    kind = g.edges.schema()[name].kind
    if kind == "str":
        return lit(text)
    if kind == "int" and re.fullmatch(r"-?[0-9]{1,30}", text):
        return lit(int(text))
    raise PlanError("E_RPQ", f"the label {text!r} does not fit the column {name} {kind}", "labels are str or int")
