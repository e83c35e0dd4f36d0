"""Memory accounting: arrangements and their owners, the dictionary, and scratch space of steps.

Arrangements are shared, so a view has no size of its own. Two numbers describe it. Its *share* divides an arrangement's
bytes among the tables and views that need it, so that shares add up to the total. What would be *freed* by dropping it
is what nothing else needs.

    total = arrangements + copies + dictionary + working

With `memory=`, arrangements beyond the limit are in `files`; those bytes are not in the total.

`copies` are the replicas that a sharded session reads. `working` is kernel memory outside arrangements: scratch space
and inboxes, kept for reuse and shared by all sessions of the process. The process uses more: `unused` was freed but not
returned to the system, and the rest of `resident` is Python and libraries.

`history` is the part of the arrangements that only earlier times need. It is estimated from the number of deletions,
each of which makes two updates superfluous. `provenance` is another part: the expression nodes kept by views with
provenance.

Hazard: on Spark the arrangements are in the store and in workers' memory, and only copies are here. `bytes` of an
arrangement is then its size in the store, which `total` excludes.
"""

from __future__ import annotations

import ctypes
import html
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from everview.dataflow.allocator import unused_memory
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.operators import Operator, Trace
from everview.kernels import structures
from everview.kernels.guarded_calls import CELL_TRACKED_WORDS
from everview.kernels.memory import cell
from everview.kernels.trace import batch as batch_k
from everview.kernels.trace import trace as trace_k
from everview.language.relation import relation_of
from everview.session.budget import budgets
from everview.session.core import CORES, Core
from everview.session.inspect import arrangements
from everview.session.reads import rendering
from everview.types import INT, STR


class Memory(dict[str, Any]):
    """The result of `db.memory()`: a dict that prints as tables.

    >>> print(Memory(total=2_500_000, arrangements=[], holders=[], dictionary=300, copies=0, working=0, history=0))
    total 2.5 MB: arrangements 0 bytes (of which history 0 bytes), copies 0 bytes, dictionary 300 bytes, working 0 bytes
    """

    def summary(self) -> str:
        """The totals."""
        held = size(sum(a["bytes"] for a in self["arrangements"]))
        parts = ", ".join(f"{what} {size(self[what])}" for what in ("copies", "dictionary", "working"))
        within = f"of which history {size(self['history'])}"
        if self.get("provenance"):
            within += f", nodes of provenance {size(self['provenance'])}"
        text = f"total {size(self['total'])}: arrangements {held} ({within}), {parts}"
        if "resident" in self:
            text += f"; the last step needed {size(self['step'])} for a while"
            text += f"; the process has {size(self['resident'])}, at most {size(self['peak'])} so far"
        for one in self.get("budgets", ()):
            most = "" if one.limit is None else f" of {size(one.limit)}"
            text += f"; lean graphs {size(one.used)}{most} for {one.questions} questions"
        return text

    def tables(self) -> list[tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
        """Headers and rows of two tables, largest first: the owners, and what they hold."""
        holders = [(h["name"], h["kind"], size(h["share"]), size(h["freed"])) for h in self["holders"]]
        kept = [
            (a["name"], a["scope"], a["updates"], size(a["bytes"]), a["readers"], ", ".join(a["for"]))
            for a in self["arrangements"]
        ]
        return [
            (("name", "kind", "share", "freed if dropped"), holders),
            (("arrangement", "scope", "updates", "size", "readers", "for"), kept),
        ]

    def __str__(self) -> str:
        lines = [self.summary()]
        for heads, rows in self.tables():
            if rows:
                types = [INT if isinstance(v, int) or h in RIGHT else STR for h, v in zip(heads, rows[0], strict=True)]
                lines += ["", *rendering.lines(heads, types, rows)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<p>{html.escape(self.summary())}</p>"]
        for heads, rows in self.tables():
            types = [INT if h in RIGHT else STR for h in heads]
            parts.append(rendering.page(heads, types, rows, "", with_types=False) if rows else "")
        return "".join(parts)


RIGHT = ("share", "freed if dropped", "updates", "size", "readers")
"""Right-aligned columns."""


def size(count: int) -> str:
    """Format bytes.

    >>> size(999), size(2_500_000)
    ('999 bytes', '2.5 MB')
    """
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def memory(core: Core) -> Memory:
    """Implements `Session.memory`; call it in a turn."""
    core.alive()
    core.transactions.catch_up()
    needed = _needed(core)
    held = arrangements(core)
    described = []
    for entry, operator in zip(held, _stateful(core.runtime.dataflow), strict=True):
        entry["for"] = needed.get(operator, [])
        entry["history"] = _history(core, operator, entry)
        described.append((operator, entry))
    running, replicas = core.runtime.dataflows()
    copies = sum(b for d in replicas for b in _held(d))
    here = sum(b for d in running for b in _held(d))
    dictionary = core.interner.nbytes
    working = max(0, 8 * int(cell[CELL_TRACKED_WORDS]) - sum(_of_process()) - sum(_untouched()))
    resident, peak = _resident()
    files = spill.spilled if (spill := getattr(core.runtime, "spill", None)) is not None else 0
    return Memory(
        {
            "time": core.time,
            "total": here - files + copies + dictionary + working,
            "files": files,
            "arrangements": sorted((e for _, e in described), key=lambda e: -e["bytes"]),
            "holders": _holders(core, described),
            "history": sum(e["history"] for _, e in described),
            "provenance": sum(e["bytes"] for o, e in described if o is core.runtime.dataflow.provenance),
            "copies": copies,
            "elsewhere": 0 if running else sum(a["bytes"] for a in held),
            "dictionary": dictionary,
            "working": working,
            "step": sum(d.step_peak() for d in running),
            "unused": unused_memory(),
            "resident": resident,
            "peak": peak,
            "budgets": budgets(core),
        }
    )


def _stateful(dataflow: Dataflow) -> list[Operator]:
    return [o for o in dataflow.operators() if o.trace is not None and not o.trace.stateless]


def _held(dataflow: Dataflow) -> Iterable[int]:
    """Bytes of each arrangement in this process."""
    return (o.measure()[2] for o in _stateful(dataflow))


def _all_dataflows() -> Iterable[Dataflow]:
    for core in list(CORES):
        if not core.closed:
            yield from (d for some in core.runtime.dataflows() for d in some)


def _of_process() -> Iterable[int]:
    return (held for dataflow in _all_dataflows() for held in _held(dataflow))


def _untouched() -> Iterable[int]:
    """Bytes reserved for provenance nodes but never written, so not resident."""
    return (d.provenance.untouched for d in _all_dataflows() if d.provenance is not None)


def _needed(core: Core) -> dict[Operator, list[str]]:
    """The tables and views that need each operator. Clock followers and constraints count for their tables."""
    catalog, dataflow = core.catalog, core.runtime.dataflow
    found: dict[Operator, list[str]] = {}
    roots: dict[str, set[Operator]] = {}
    for table in catalog.tables.values():
        owner = table
        while (origin := relation_of(owner).origin) is not None:
            owner = origin
        kept = relation_of(table).arrangements
        roots.setdefault(relation_of(owner).label, set()).update(a.operator for a in kept)
    for follower in core.clock.followers:
        roots.setdefault(relation_of(follower.table).label, set()).update(a.operator for a in follower.indexes())
    for name, view in catalog.views.items():
        rule = relation_of(view).rule
        roots.setdefault(name if rule is None else rule.table, set()).update(
            a.operator for a in relation_of(view).arrangements
        )
    for name, operators in roots.items():
        for operator in dataflow.needed(operators):
            found.setdefault(operator, []).append(name)
    return found


def _holders(core: Core, held: list[tuple[Operator, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Each table's and view's share, and what dropping it would free."""
    share: dict[str, float] = {}
    freed: dict[str, int] = {}
    for _, entry in held:
        for name in entry["for"]:
            share[name] = share.get(name, 0.0) + entry["bytes"] / len(entry["for"])
            freed.setdefault(name, 0)
        if len(entry["for"]) == 1:
            freed[entry["for"][0]] += entry["bytes"]
    views = core.catalog.views
    found = [
        {"name": n, "kind": "view" if n in views else "table", "share": round(s), "freed": freed[n]}
        for n, s in share.items()
    ]
    return sorted(found, key=lambda h: -h["share"])


def _history(core: Core, operator: Operator, entry: dict[str, Any]) -> int:
    """Estimated bytes of an arrangement outside loops that only earlier times need."""
    trace = operator.trace
    if trace is None or not operator.scope.is_root or not entry["updates"] or trace.since >= core.runtime.dataflow.time:
        return 0
    superfluous = min(2 * _deletions(trace), entry["updates"])
    return int(entry["bytes"] * superfluous / entry["updates"])


def _deletions(trace: Trace) -> int:
    """The number of deletions in a trace."""
    count = 0
    table = structures.peek(trace.address, trace_k.TRACE_TABLE)
    for place in range(structures.peek(trace.address, trace_k.TRACE_COUNT)):
        batch = structures.peek(table, place)
        if structures.peek(batch, batch_k.BATCH_DIFF_MASK):
            start = structures.peek(batch, batch_k.BATCH_DATA) + 8 * structures.peek(batch, batch_k.BATCH_DIFF_AT)
            words = (ctypes.c_int64 * structures.batch_rows(batch)).from_address(start)
            count += int((np.ctypeslib.as_array(words) < 0).sum())
    return count


def _resident() -> tuple[int, int]:
    """Resident and peak memory of the process in bytes; 0 where the system does not report it."""
    found = {"VmRSS": 0, "VmHWM": 0}
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in found:
                found[name] = 1024 * int(rest.split()[0])
    except OSError:
        pass
    return found["VmRSS"], found["VmHWM"]
