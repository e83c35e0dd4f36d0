"""Calls of Everview's own client: `POST /v1/call`, an envelope (`everview.wire.envelopes`) in and one out.

The header names the operation (`do`) and its arguments; a table of rows may follow. The operations are in `CALLS`: each
a function of the session, on the engine's thread, from a message to a message. Most are one method of a session, table
or view, so the client's classes are thin.

A client's transaction is a list of changes sent as one call (`change`): no lock is held while a client thinks.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from everview import __version__
from everview.codes.durations import seconds
from everview.errors import InputError
from everview.expr.resolve import Column
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan.provenance import Provenance
from everview.server.http.answers import Door
from everview.server.http.relations import Once, columns_of, key_of, looking, may_change, table_of
from everview.server.sql_calls import Answer, answer_of, ask, only_reads
from everview.session.core import core_of
from everview.session.limits import size_of
from everview.session.table import Table
from everview.session.view import View
from everview.sql.answers.prepared import Prepared
from everview.sql.rights import shown_plans, visible_relations
from everview.sql.rights.shares import Share
from everview.wire import plans
from everview.wire.envelopes import KIND, packed, unpacked
from everview.wire.values import plain, rows_of, rows_written, value_of

if TYPE_CHECKING:
    import pyarrow as pa

    from everview.session.session import Session
    from everview.types import DataType
    from everview.why.derivation import Derivation
    from everview.why.expression import Expression

Message = dict[str, Any]
Sent = tuple[Message, list[Any]]
"""A message, and the Arrow tables behind it."""

EXACT = frozenset({"int", "float", "bool", "str", "bytes", "date", "timestamp", "decimal"})
"""Kinds that Arrow represents exactly; rows with others are sent value by value."""


LOOKS = frozenset({"hello", "names", "relation", "rows", "count", "counts", "lookup", "now"})
"""Read-only calls, which need not wait for a step. So is an SQL query."""


async def call(door: Door, request: Request) -> Response:
    """Execute a client's call."""
    head, tables = unpacked(await request.body())
    name = head.get("do")
    if name not in CALLS:
        raise InputError("E_MESSAGE", f"there is no call {str(name)[:40]!r}", "is the client as new as the server?")

    def work(db: Session) -> Sent:
        try:
            answer, parts = _done(db, name, Given(head, tables))
        except (KeyError, TypeError, IndexError) as error:
            if _ours(error):
                raise
            raise InputError(
                "E_MESSAGE", f"the call {name} lacks something: {error}", "is the client as new?"
            ) from None
        return {"time": db.time, **answer}, parts

    looks = name in LOOKS or (name == "sql" and only_reads(str(head.get("text"))))
    looks = looks and not head.get("suppose") and head.get("at") is None
    do = looking(work) if looks and name != "sql" else work
    answer, parts = await door.run(request, do, **_limits(head.get("limits")), looks=looks)
    return Response(packed(answer, parts), media_type=KIND)


def _done(db: Session, name: str, given: Given) -> Sent:
    """Execute it; with hypothetical changes, as if they were made."""
    supposed = given.get("suppose")
    if not supposed:
        return CALLS[name](db, given)
    with db.what_if():
        for step in supposed:
            _step(db, given, step)
        return CALLS[name](db, given)


def _limits(given: Any) -> dict[str, Any]:
    """The limits of a client's call."""
    if not isinstance(given, dict):
        return {}
    seconds_said, memory_said = given.get("seconds"), given.get("memory")
    return {
        "seconds": None if seconds_said is None else seconds(seconds_said),
        "memory": None if memory_said is None else size_of(memory_said),
    }


def _ours(error: BaseException) -> bool:
    """Whether an error came from deeper than the functions here: then it is a bug, not an invalid message."""
    trace, deep = error.__traceback__, 0
    while trace is not None:
        deep += 1
        trace = trace.tb_next
    return deep > 5


class Given:
    """The arguments of a call."""

    def __init__(self, head: Mapping[str, Any], tables: list[pa.Table]) -> None:
        self.head = head
        self.tables = tables

    def __getitem__(self, name: str) -> Any:
        if name not in self.head:
            raise InputError("E_MESSAGE", f"the call lacks {name!r}", "is the client as new as the server?")
        return self.head[name]

    def get(self, name: str) -> Any:
        """An optional argument."""
        return self.head.get(name)

    def rows(self, given: Any) -> Any:
        """Rows: the number of a table, or a list of them."""
        if isinstance(given, int) and 0 <= given < len(self.tables):
            return self.tables[given]
        return rows_of(given)


def _relation(db: Session, name: Any) -> Any:
    found = visible_relations.seen(db, name)
    found._alive()
    return found


def _managed(db: Session, what: str) -> None:
    core_of(db).access.may_manage(what, look=True)


def sent(names: list[str], types: list[DataType], rows: Callable[[], list[Any]], arrow: Callable[[], Any]) -> Sent:
    """Rows for a client: a table, if that is exact; else one by one."""
    head: Message = {"columns": [[n, plans.written_type(t)] for n, t in zip(names, types, strict=True)]}
    if all(t.kind in EXACT for t in types) and len({*names}) == len(names):
        return head, [arrow()]
    return {**head, "rows": rows_written(rows())}, []


def _contents(found: Any, of: Any) -> Sent:
    return sent(list(relation_of(of).codec.names), list(relation_of(of).codec.types), found.rows, found.to_arrow)


# what there is


def hello(db: Session, given: Given) -> Sent:
    """Check the token, and return who is there."""
    return {"version": __version__}, []


def names(db: Session, given: Given) -> Sent:
    """Tables and views."""
    views = [v for v in db.views if not v.startswith("(")]
    return {"tables": list(db.tables), "views": views}, []


def relation(db: Session, given: Given) -> Sent:
    """What a table or view is."""
    found = table_of(db, given["name"])
    found._alive()
    there = columns_of(db, found)
    names = [c.name for c in there]
    key = [names.index(c) for c in key_of(found, names)] if isinstance(found, Table) else []
    columns = [[c.name, plans.written_type(c.type)] for c in there]
    return {"name": relation_of(found).label, "kind": relation_of(found).kind, "columns": columns, "key": key}, []


def table(db: Session, given: Given) -> Sent:
    """Create a table from columns or data."""
    ttl = given.get("ttl")
    life = None if ttl is None else value_of(ttl)
    if given.tables:
        schema: Any = given.tables[0]
    elif given.get("rows") is not None:
        schema = rows_of(given["rows"])
    else:
        schema = {name: plans.type_of(kind) for name, kind in given["columns"]}
    made = db.table(given["name"], schema, given.get("key"), ttl=life)
    return relation(db, Given({"name": relation_of(made).label}, []))


def view(db: Session, given: Given) -> Sent:
    """Install a plan as a view."""
    core = core_of(db)
    known = visible_relations.readable(db)
    node = plans.read(given.head, known)
    columns = [Column(n, t) for n, t in zip(given["columns"], node.types, strict=True)]
    parents = [db[n] for n in given["names"].values() if n in known]
    collection = Collection(node, columns, core, parents=parents)
    if (who := core.access.acting()) is not None:
        relation_of(collection).bound = {**who.attributes, "current_user": who.name}
    kept = given.get("provenance")
    made = db.view(
        given["name"],
        collection,
        index_by=given.get("index_by"),
        history=given.get("history"),
        plan=given.get("how"),
        provenance=None if kept is None else _kept(kept),
    )
    return relation(db, Given({"name": relation_of(made).label}, []))


def _kept(given: Any) -> Provenance:
    """The provenance options of a client; the session validates them."""
    names = [field.name for field in fields(Provenance)]
    if not isinstance(given, Mapping) or "kind" not in given or not set(given) <= set(names):
        raise InputError("E_PROVENANCE", f"{given!r} is not a kind of provenance", f"give {', '.join(names)}")
    return Provenance(**given)


def drop(db: Session, given: Given) -> Sent:
    """Drop a table or view."""
    found: Any = table_of(db, given["name"])
    found.drop(**({"cascade": True} if given.get("cascade") else {}))
    return {}, []


# languages


def sql(db: Session, given: Given) -> Sent:
    """Run SQL."""
    return _answered(ask(db, given["text"]))


def _answered(answer: Answer) -> Sent:
    message: Message = {
        "time": answer.time,
        "relation": answer.relation,
        "text": answer.text,
        "affected": answer.affected,
    }
    if answer.result is None:
        return message, []
    result = answer.result
    head, tables = sent(result.columns, result.types, result.rows, result.to_arrow)
    return {**message, **head}, tables


def datalog(db: Session, given: Given) -> Sent:
    """Install rules; return the names of their relations."""
    rules = db.datalog(given["text"], plan=given.get("how"))
    return {"relations": list(rules), "program": repr(rules)}, []


def prepare(db: Session, given: Given) -> Sent:
    """Prepare a query."""
    _prepared(db)[given["name"]] = db.prepare(given["name"], given["text"], given["keep"])
    return {}, []


def execute(db: Session, given: Given) -> Sent:
    """Run a prepared query."""
    core_of(db).access.may_read(given["name"])
    found = _prepared(db).get(given["name"])
    if found is None:
        raise InputError("E_NAME", f"no query {given['name']!r} is prepared", "prepare it again")
    return _answered(
        answer_of(
            db, found(*(value_of(v) for v in given["values"]), **{n: value_of(v) for n, v in given["named"].items()})
        )
    )


def _prepared(db: Session) -> dict[str, Prepared]:
    found: dict[str, Prepared] = core_of(db).attached.setdefault("prepared by clients", {})
    return found


# changing


def change(db: Session, given: Given) -> Sent:
    """Do several things at one time, or none."""
    key, once = given.get("key"), Once(db)
    if key is not None and (done := once.known(key)) is not None:
        return {"time": done}, []
    steps = given["steps"]
    if len(steps) == 1 and key is None:
        _step(db, given, steps[0])
        return {}, []
    with db.transaction():
        for step in steps:
            _step(db, given, step)
        if key is not None:
            once.note(key, db.time + 1)
    once.done(key, db.time)
    return {}, []


def _step(db: Session, given: Given, step: Message) -> None:
    how = step["how"]
    if how == "sql":
        ask(db, step["text"])
        return
    found = table_of(db, step["name"])
    if not isinstance(found, Table):
        raise InputError("E_TABLE", f"{step['name']!r} is a view", "change the tables that it is made of")
    may_change(db, found, how)
    if how == "clear":
        found.clear()
    elif how == "delete keys":
        found.delete(keys=[value_of(k) for k in step["keys"]])
    elif how in ("insert", "delete", "upsert"):
        getattr(found, how)(given.rows(step["rows"]))
    else:
        raise InputError("E_MESSAGE", f"a table cannot {str(how)[:40]}", "is the client as new as the server?")


def advance(db: Session, given: Given) -> Sent:
    """Move the clock."""
    core_of(db).access.may_manage("move the clock")
    moment = given.get("moment")
    db.advance(None if moment is None else value_of(moment))
    return {}, []


def what_if(db: Session, given: Given) -> Sent:
    """What would change in some tables and views if tables changed."""
    with db.what_if() as supposed:
        for step in given["steps"]:
            _step(db, given, step)
        changes = {}
        for name in given["names"]:
            told = _shown(db, name, supposed.changes(name))
            changes[name] = [rows_written([row for row, _ in told]), [diff for _, diff in told]]
    return {"changes": changes}, []


def _shown(db: Session, name: str, told: Any) -> list[Any]:
    """Changes of a table or view, as seen by the current user."""
    found = visible_relations.seen(db, name)
    if not isinstance(found, Share):
        return list(visible_relations.whole(db, name, "this") and told)
    kept = found._mask(relation_of(found._of).codec.encode([row for row, _ in told])) if told else ()
    return [told[i] for i in kept]


# reading


def rows(db: Session, given: Given) -> Sent:
    """Contents, now or at a time."""
    found = _relation(db, given["name"])
    at = given.get("at")
    contents = found._now() if at is None else found.as_of(at)
    core_of(db).access.check_rows(len(contents))
    if given.get("arrow"):
        return {"at": contents.time}, [contents.to_arrow()]
    head, tables = _contents(contents, found)
    return {**head, "at": contents.time}, tables


def count(db: Session, given: Given) -> Sent:
    """How many rows."""
    found, at = _relation(db, given["name"]), given.get("at")
    return {"count": len(found._now() if at is None else found.as_of(at))}, []


def counts(db: Session, given: Given) -> Sent:
    """Distinct rows with multiplicities."""
    found, at = _relation(db, given["name"]), given.get("at")
    told = (found._now() if at is None else found.as_of(at)).counts()
    core_of(db).access.check_rows(len(told))
    return {"rows": rows_written(list(told)), "counts": list(told.values())}, []


def changes(db: Session, given: Given) -> Sent:
    """What changed since a time."""
    told = _relation(db, given["name"]).changes(given["since"])
    core_of(db).access.check_rows(len(told))
    return {
        "rows": rows_written([row for row, _, _ in told]),
        "times": [time for _, time, _ in told],
        "diffs": [diff for _, _, diff in told],
    }, []


def lookup(db: Session, given: Given) -> Sent:
    """Rows by key."""
    found = _relation(db, given["name"]).lookup(value_of(given["key"]))
    core_of(db).access.check_rows(len(found))
    return {"rows": rows_written(found)}, []


def errors(db: Session, given: Given) -> Sent:
    """The row errors of a view."""
    core_of(db).access.may_own("relation", given["name"])
    return {"errors": [[text, n] for text, n in _relation(db, given["name"]).errors()]}, []


def explain(db: Session, given: Given) -> Sent:
    """How a view is maintained."""
    found = visible_relations.whole(db, given["name"], "its plan")
    core = core_of(db)
    if core.access.acting() is None or not isinstance(found, View):
        return {"text": str(found.explain())}, []
    return {"text": "\n".join(shown_plans.lines(core, shown_plans.of_view(core, found)))}, []


def text(db: Session, given: Given) -> Sent:
    """A table or view for display."""
    return {"text": _relation(db, given["name"])._text(given["rows"])}, []


def stats(db: Session, given: Given) -> Sent:
    """Figures of a view, or of the session."""
    _managed(db, "see how large things are")
    name = given.get("name")
    return {"stats": plain(db.stats() if name is None else _relation(db, name).stats())}, []


def memory(db: Session, given: Given) -> Sent:
    """What holds how much memory."""
    _managed(db, "see what holds memory")
    found = db.memory()
    return {"memory": plain(found), "text": str(found)}, []


def check(db: Session, given: Given) -> Sent:
    """Whether every view is correct."""
    core_of(db).access.may_manage("have all views checked")
    return {"differences": [str(d) for d in db.check()]}, []


def checkpoint(db: Session, given: Given) -> Sent:
    """Write all state into files."""
    core_of(db).access.may_manage("write a checkpoint")
    db.checkpoint()
    return {}, []


def now(db: Session, given: Given) -> Sent:
    """The clock's reading."""
    moment: dt.datetime = db.now
    return {"now": plain(moment)}, []


# explaining rows


def why(db: Session, given: Given) -> Sent:
    """Why a row is there."""
    found = visible_relations.whole(db, given["name"], "WHY").why(
        value_of(given["row"]), all=given.get("all"), time=given.get("at")
    )
    trees = list(found) if given.get("all") is not None else [found]
    return {"derivations": [_tree(tree) for tree in trees], "truncated": getattr(found, "truncated", False)}, []


def _tree(root: Derivation) -> Message:
    """A derivation as a list of its parts; shared parts occur once."""
    parts = list(root.walk())
    places = {id(part): number for number, part in enumerate(parts)}
    return {
        "parts": [
            {
                "row": plain(d.row), "source": d.source, "kind": d.kind, "columns": list(d.columns), "rule": d.rule,
                "how": d.how, "round": d.round, "of": d.of, "children": [places[id(c)] for c in d.children],
            }
            for d in parts
        ]
    }  # fmt: skip


def why_not(db: Session, given: Given) -> Sent:
    """Why a row is not there."""
    found = visible_relations.whole(db, given["name"], "WHY").why_not(value_of(given["row"]), time=given.get("at"))
    return {"text": str(found), "missing": [[name, plain(row)] for name, row in found.missing()]}, []


def trust(db: Session, given: Given) -> Sent:
    """Whether a row would still be there without some rows of tables."""
    view = visible_relations.whole(db, given["name"], "WHY")
    return {"holds": view.trust(value_of(given["row"]), without=value_of(given["without"]))}, []


def probability(db: Session, given: Given) -> Sent:
    """The probability of a row if rows of tables may be missing."""
    view = visible_relations.whole(db, given["name"], "WHY")
    found = view.probability(value_of(given["row"]), value_of(given["chances"]), nodes=given["nodes"])
    return {"lower": found.lower, "upper": found.upper}, []


def provenance(db: Session, given: Given) -> Sent:
    """The expression of a row, or of all rows, as data."""
    view = visible_relations.whole(db, given["name"], "WHY")
    if given.get("row") is None:
        return {"expressions": [[plain(row), _expression(e)] for row, e in view.provenances().items()]}, []
    return _expression(view.provenance(value_of(given["row"]))), []


def _expression(found: Expression) -> Message:
    written = found.written()
    return {**written, "variables": [[label, table, plain(row)] for label, table, row in written["variables"]]}


CALLS: dict[str, Callable[[Session, Given], Sent]] = {
    function.__name__: function
    for function in (
        hello, names, relation, table, view, drop, sql, datalog, prepare, execute, change, advance, what_if, rows,
        count, counts, changes, lookup, errors, explain, text, stats, memory, check, checkpoint, now, why, why_not,
        trust, probability, provenance,
    )
}  # fmt: skip
