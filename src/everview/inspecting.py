"""What a session says about itself: statistics, and what a view's plan keeps and shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.dataflow.extend import Extend
from everview.dataflow.operators import Arrange, Operator, Reduce
from everview.expr.evaluate import evaluate
from everview.snapshot import read_codes
from everview.transacting import Transacting
from everview.turns import reads
from everview.view import View

if TYPE_CHECKING:
    from everview.checking import Difference

MOST_SEARCHED = 1_000_000
"""Updates of a table up to which it is searched for a row that failed."""


class Inspecting(Transacting):
    """The part of a session that measures and explains."""

    def _upstream(self, operator: Operator) -> list[Operator]:
        """Everything an operator depends on, itself included, in program order."""
        seen: set[Operator] = set()
        todo = [operator]
        while todo:
            found = todo.pop()
            if found not in seen:
                seen.add(found)
                todo.extend(found.inputs)
        return [o for o in self._graph.operators() if o in seen]

    def _error_operators(self, operator: Operator) -> list[Operator]:
        return [o.errors for o in self._upstream(operator) if o.errors is not None]

    def _failed_row(self, errors: Operator, time: int) -> tuple[str, tuple[Any, ...]] | None:
        """A table's name and a row of it that makes one of these errors, if that can be told: computed again from what
        the table holds, because errors do not carry rows.
        """
        for table in self._tables.values():
            stream, arrangement = table._arrangement.operator.stream, table._arrangement
            for sink in stream.sinks if stream is not None else ():
                if sink.branch is None or sink.target.errors is not errors or time < arrangement.trace.since:
                    continue
                if arrangement.trace.measure()[1] > MOST_SEARCHED:
                    continue
                columns, _ = read_codes(self, arrangement, (), time)  # type: ignore[arg-type]
                held = np.ascontiguousarray(columns[list(arrangement.order)])
                failed = evaluate(sink.branch.exprs, sink.branch.predicate, held, self._interner).errors
                if failed.any():
                    return table._label, table._codec.decode_row(tuple(columns[:, int(failed.argmax())].tolist()))
        return None

    def _arrangements(self, operator: Operator | None = None) -> list[dict[str, Any]]:
        """Measures of every arrangement (that an operator depends on)."""
        operators = self._graph.operators() if operator is None else self._upstream(operator)
        readers: dict[Operator, int] = {}
        for other in self._graph.operators():
            for source in set(other.inputs):
                readers[source] = readers.get(source, 0) + 1
        for view in self._views.values():
            source = view._arrangement.operator
            readers[source] = readers.get(source, 0) + 1
        views: dict[Operator, list[str]] = {}
        for view in self._views.values():
            for o in self._upstream(view._arrangement.operator):
                views.setdefault(o, []).append(view._name)
        found = []
        measured = self._measure()
        for o in operators:
            if o.trace is not None and not o.trace.stateless:
                batches, updates, size = measured(o)
                kind = "reduce" if isinstance(o, Reduce) else "arrange" if isinstance(o, Arrange) else o.kind
                found.append(
                    {
                        "name": o.describe(),
                        "kind": kind,
                        "scope": o.scope.label,
                        "updates": updates,
                        "bytes": size,
                        "batches": batches,
                        "readers": readers.get(o, 0),
                        "views": views.get(o, []),
                    }
                )
        return found

    def _measure(self) -> Callable[[Operator], tuple[int, int, int]]:
        """Gives (batches, updates, bytes) of the state an operator holds."""
        return lambda o: (0, 0, 0) if o.trace is None else o.trace.measure()

    @reads
    def stats(self) -> dict[str, Any]:
        """Time, bytes, and every arrangement held: updates, bytes, batches, how many operators and views read it, and
        which views depend on it.
        """
        self._alive()
        self._catch_up()
        arrangements = self._arrangements()
        operators = self._graph.operators()
        return {
            "time": self.time,
            "tables": len(self._tables),
            "views": len(self._views),
            "operators": len(operators),
            "bytes": sum(a["bytes"] for a in arrangements) + self._interner.nbytes,
            "arrangements": arrangements,
        }

    def _require_functions(self) -> None:
        """Refuse to go on without the functions that views use."""

    def check(self) -> list[Difference]:
        """Compute every view again from the tables and compare: gives the rows of views that are not what they should
        be, none if all is well. It costs what computing everything once costs.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> v = db.view("v", t.distinct())
        >>> db.check()
        []
        """
        from everview.checking import differences

        self._alive()
        return differences(self)  # type: ignore[arg-type]

    def _grid(self, joined: Extend) -> list[str]:
        """Where the rows of a join of many inputs are, if there are shards."""
        return []

    def _explain(self, view: View) -> str:
        operator = view._arrangement.operator
        lines = [str(view._said(d)) for d in self._builder.decided.get(view._node, [])]
        for joined in self._upstream(operator):
            if isinstance(joined, Extend):
                lines += [*joined.explain(), *self._grid(joined)]
        lines.append("arrangements:")
        mine = [v._name for v in self._views.values() if v._arrangement.operator is operator]
        for a in self._arrangements(operator):
            others = [name for name in a["views"] if name not in mine]
            shared = f", shared by {a['readers']} readers" if a["readers"] > 1 else ""
            shared += f", also for {', '.join(others)}" if others else ""
            lines.append(f"  {a['name']} ({a['scope']}): {a['updates']} updates, {a['bytes']} bytes{shared}")
        return "\n".join(lines)
