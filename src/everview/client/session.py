"""`ClientSession`: a session's methods, each a call to a server."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from everview.client.relations import ClientTable, ClientView, arrow_of, sent_rows
from everview.client.results import ClientResult
from everview.client.rules import ClientRules
from everview.client.subscriptions import Following
from everview.client.transport import Transport, address_of
from everview.client.what_if import ClientWhatIf, Steps, moved
from everview.codes.durations import seconds
from everview.codes.type_declarations import data_type
from everview.errors import InputError, PlanError, did_you_mean
from everview.language.collection import Collection, common_owner
from everview.language.relation import relation_of
from everview.plan.provenance import Provenance, wanted
from everview.wire import plans
from everview.wire.values import plain, value_of

if TYPE_CHECKING:
    import pyarrow as pa

    from everview.expr.resolve import Column

QUERIES = ("SELECT", "WITH", "VALUES", "EXPLAIN", "SHOW", "TABLE", "FROM", "(", "DESCRIBE")
"""Prefixes of read-only statements."""

ELSEWHERE = ("source", "run", "read", "function", "attribute", "transact", "retract_source", "register", "refresh")
"""Session methods that are only available locally."""


def connect(
    address: str,
    *,
    token: str = "",
    user: str = "",
    password: str = "",
    timeout: float = 300.0,
    certificate: str = "",
) -> ClientSession:
    """A client of a server: `everview.connect("everview://127.0.0.1:8080", token="...")`, or `everviews://` for TLS.
    Instead of a token there may be a role's name (`user`) and its `password`.

    `timeout` is in seconds per response; `certificate` is a file with certificates to trust.
    """
    if not isinstance(token, str):
        raise InputError("E_TYPE", "the token must be a string", "give the text that everview serve shows")
    if not isinstance(user, str) or not isinstance(password, str) or bool(user) != bool(password) or (user and token):
        raise InputError("E_TYPE", "a token is needed, or a user and a password", "give one of the two")
    return ClientSession(Transport(address_of(address, token or password, timeout, certificate, user)))


class ClientSession:
    """A session of a server; created by `everview.connect("everview://...")`.

    It is thread-safe; a transaction belongs to the thread that began it.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._of_thread = _OfThread()
        self._numbers: dict[tuple[str, tuple[Any, ...]], int] = {}
        self._followed: list[Following] = []
        self._call("hello")

    # lifetime

    def __enter__(self) -> ClientSession:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the subscriptions and disconnect. The server's data is not affected."""
        for following in self._followed:
            following()
        self._followed.clear()
        self._transport.close()

    def __repr__(self) -> str:
        address = self._transport.address
        where = f"{address.host}:{address.port}"
        return f"ClientSession({where}{', closed' if self._transport.closed else ''})"

    # calls

    def _call(
        self, do: str, head: Mapping[str, Any] | None = None, tables: Sequence[pa.Table] = ()
    ) -> tuple[dict[str, Any], list[pa.Table]]:
        more: dict[str, Any] = {}
        sent = list(tables)
        if (supposed := self._of_thread.supposed) is not None and do not in ("hello", "names", "relation"):
            more["suppose"] = moved(supposed.steps, len(sent))
            sent += supposed.tables
        if self._of_thread.limits:
            more["limits"] = self._of_thread.limits[-1]
        return self._transport.call(do, {**(head or {}), **more}, sent)

    def _value(self, do: str, head: Mapping[str, Any], name: str) -> Any:
        return value_of(self._call(do, head)[0][name])

    def _number(self, name: str, columns: Sequence[Column]) -> int:
        """The number of a table or view in plans."""
        known = name, tuple((c.name, c.type) for c in columns)
        return self._numbers.setdefault(known, len(self._numbers))

    # what there is

    def __getitem__(self, name: str) -> Any:
        """A table or view by name."""
        if not isinstance(name, str):
            raise InputError("E_NAME", f"no table or view is called {name!r}", did_you_mean(name, self._names()))
        return self._made(self._call("relation", {"name": name})[0])

    def _names(self) -> list[str]:
        return [*self.tables, *self.views]

    def _made(self, described: dict[str, Any]) -> ClientTable | ClientView:
        return (ClientTable if described["kind"] == "table" else ClientView)(self, described)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._names()

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(self._call("names")[0]["tables"])

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the views."""
        return tuple(self._call("names")[0]["views"])

    @property
    def time(self) -> int:
        """The last complete time."""
        return int(self._call("hello")[0]["time"])

    @property
    def now(self) -> dt.datetime:
        """The server's clock (UTC)."""
        moment: dt.datetime = self._value("now", {}, "now")
        return moment

    def advance(self, moment: dt.datetime | None = None) -> None:
        """Move the server's clock; without a moment, to its system time."""
        self._refuse_supposed("the clock cannot be moved")
        self._call("advance", {"moment": plain(moment)} if moment is not None else {})

    # making

    def table(
        self,
        name: str,
        schema: Any,
        key: str | Sequence[str] | None = None,
        *,
        ttl: dt.timedelta | str | None = None,
    ) -> ClientTable:
        """Create a base table of columns, {"name": type}, or of initial data."""
        self._refuse_supposed("tables cannot be made")
        if isinstance(ttl, str):
            ttl = dt.timedelta(seconds=seconds(ttl))
        head: dict[str, Any] = {"name": name, "key": key, "ttl": None if ttl is None else plain(ttl)}
        tables: list[pa.Table] = []
        if isinstance(schema, Mapping) and not any(
            isinstance(v, list) or hasattr(v, "tolist") for v in schema.values()
        ):
            if any(not isinstance(column, str) or not column for column in schema):
                raise InputError("E_NAME", f"table {name!r}: a column has no name", "give a non-empty string")
            head["columns"] = [[column, plans.written_type(data_type(kind))] for column, kind in schema.items()]
        elif (table := arrow_of(schema)) is not None:
            tables.append(table)
        else:
            head["rows"] = [plain(row) for row in schema]
        made = self._made(self._call("table", head, tables)[0])
        assert isinstance(made, ClientTable)
        return made

    def view(
        self,
        name: str,
        collection: Collection,
        *,
        index_by: str | Sequence[str] | None = None,
        history: int | None = None,
        plan: str | None = None,
        provenance: Provenance | Literal["lazy", "bdd"] | None = None,
    ) -> ClientView:
        """Install a collection on the server: it is computed now and kept up to date until dropped."""
        self._refuse_supposed("views cannot be made")
        if not isinstance(collection, Collection):
            raise InputError(
                "E_TYPE",
                f"db.view needs a collection, got {type(collection).__name__}",
                "build one from db.table(...), ending in .agg(...) after a group_by",
            )
        if common_owner(collection) is not self:
            raise PlanError(
                "E_SESSION", "the collection belongs to another session", "build it from this session's tables"
            )
        names = {number: name for (name, _), number in self._numbers.items()}
        head: dict[str, Any] = {
            "name": name,
            "columns": [c.name for c in relation_of(collection).columns],
            "index_by": index_by,
        }
        if provenance is not None:
            head["provenance"] = asdict(wanted(provenance))
        head |= {"history": history, "how": plan, **plans.written(relation_of(collection).node, names)}
        made = self._made(self._call("view", head)[0])
        assert isinstance(made, ClientView)
        return made

    # languages

    def sql(self, text: str, *values: Any, **named: Any) -> Any:
        """Run SQL: CREATE VIEW returns the view, SELECT a result with rows(). Inside a transaction, statements that
        change rows are sent when it ends.
        """
        if not isinstance(text, str):
            raise InputError("E_TYPE", f"{text!r} is not SQL", "give the text of a statement")
        if values or named:
            raise InputError(
                "E_PARAMETER", "db.sql takes a text and nothing else", "name the parameters ($x) and use db.prepare"
            )
        staged = self._of_thread.staged
        asks = text.lstrip().upper().startswith(QUERIES)
        if (staged is not None or self._of_thread.supposed is not None) and not asks:
            self._stage({"how": "sql", "text": text})
            return None
        if staged is not None and staged.steps:  # it sees what the transaction has changed so far
            with self._supposing(staged):
                return self._answer(*self._call("sql", {"text": text}))
        return self._answer(*self._call("sql", {"text": text}))

    def _answer(self, head: dict[str, Any], tables: list[pa.Table]) -> Any:
        if "columns" in head:
            return ClientResult(head, tables)
        if head["relation"]:
            return self[head["relation"]]
        return head["text"] or None

    def datalog(self, text: str, *, plan: str | None = None) -> ClientRules:
        """Install the rules of a Datalog program; its relations are views: `rules.reach`, `db["reach"]`."""
        self._refuse_supposed("rules cannot be installed")
        head, _ = self._call("datalog", {"text": text, "how": plan})
        return ClientRules(self, head["relations"], head["program"])

    def prepare(self, name: str, text: str, keep: int = 1000) -> Callable[..., ClientResult]:
        """A query with parameters `$name`, called with their values: one dataflow for all of them."""
        self._refuse_supposed("queries cannot be prepared")
        self._call("prepare", {"name": name, "text": text, "keep": keep})

        def ask(*values: Any, **named: Any) -> ClientResult:
            written = {n: plain(v) for n, v in named.items()}
            head, tables = self._call("execute", {"name": name, "values": [plain(v) for v in values], "named": written})
            return ClientResult(head, tables)

        return ask

    # changing

    def _change(self, how: str, name: str, rows: Any) -> None:
        tables: list[pa.Table] = []
        self._stage({"how": how, "name": name, "rows": sent_rows(rows, tables)}, tables)

    def _stage(self, step: dict[str, Any], tables: Sequence[pa.Table] = ()) -> None:
        into = self._of_thread.supposed or self._of_thread.staged
        if into is not None:
            into.add(step, tables)
        else:
            self._transport.call("change", {"steps": [step], "key": uuid.uuid4().hex, **self._limits()}, tables)

    def _limits(self) -> dict[str, Any]:
        return {"limits": self._of_thread.limits[-1]} if self._of_thread.limits else {}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes inside at one time: they are sent when the block ends. An exception undoes them. A nested
        transaction joins the outer one.
        """
        self._refuse_supposed("a transaction cannot be begun")
        around = self._of_thread.staged
        staged = self._of_thread.staged = Steps() if around is None else around
        length = len(staged.steps)
        try:
            yield
        except BaseException:
            del staged.steps[length:]
            raise
        finally:
            self._of_thread.staged = around
        if around is None:
            head = {"steps": staged.steps, "key": uuid.uuid4().hex, **self._limits()}
            self._transport.call("change", head, staged.tables)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Transactions inside keep their own times; a client sends each when it ends."""
        yield

    def what_if(
        self,
        *,
        delete: Mapping[str, Any] | None = None,
        insert: Mapping[str, Any] | None = None,
        upsert: Mapping[str, Any] | None = None,
    ) -> ClientWhatIf:
        """Make hypothetical changes: see `Session.what_if`."""
        steps = Steps()
        for how, given in (("delete", delete), ("insert", insert), ("upsert", upsert)):
            for name, rows in (given or {}).items():
                tables: list[pa.Table] = []
                steps.add({"how": how, "name": name, "rows": sent_rows(rows, tables)}, tables)
        return ClientWhatIf(self, steps)

    @contextmanager
    def _supposing(self, steps: Steps) -> Iterator[None]:
        before, self._of_thread.supposed = self._of_thread.supposed, steps
        try:
            yield
        finally:
            self._of_thread.supposed = before

    def _refuse_supposed(self, what: str) -> None:
        if self._of_thread.supposed is not None:
            raise InputError("E_WHAT_IF", f"{what} inside what_if", "do it before or after")

    # limits

    @contextmanager
    def limits(self, *, seconds: Any = None, memory: Any = None) -> Iterator[None]:
        """Limit the calls that this thread makes inside: their duration, and their memory growth."""
        if isinstance(seconds, dt.timedelta):
            seconds = seconds.total_seconds()
        self._of_thread.limits.append({"seconds": seconds, "memory": memory})
        try:
            yield
        finally:
            self._of_thread.limits.pop()

    def cancel(self) -> bool:
        """Cancel this client's call in another thread: it fails there with E_CANCELLED."""
        return self._transport.cancel()

    # following

    def _follow(
        self, wanted: Mapping[str, Any], function: Callable[[Any], Any], snapshot: bool, granularity: float
    ) -> Following:
        self._refuse_supposed("nothing can be subscribed to")
        found = Following(self._transport.address, wanted, function, snapshot, granularity).begin()
        self._followed.append(found)
        return found

    def subscribe(
        self, query: str, function: Callable[[Any], Any], *, snapshot: bool = True, granularity: float = 0.0
    ) -> Following:
        """Call a function with the changes of a query, like `view.subscribe`."""
        return self._follow({"query": query}, function, snapshot, granularity)

    # introspection

    def stats(self) -> dict[str, Any]:
        """Time, bytes, and every arrangement held."""
        found: dict[str, Any] = self._value("stats", {}, "stats")
        return found

    def memory(self) -> dict[str, Any]:
        """Memory usage of the server."""
        found: dict[str, Any] = self._value("memory", {}, "memory")
        return found

    def check(self) -> list[str]:
        """Recompute every view and compare; return the differences as texts."""
        return list(self._call("check")[0]["differences"])

    def checkpoint(self) -> None:
        """Write all state of the server into files."""
        self._call("checkpoint")

    def __getattr__(self, name: str) -> NoReturn:
        if name in ELSEWHERE:
            raise InputError(
                "E_UNSUPPORTED", f"db.{name} cannot be called through a server", "call it in the program that serves"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class _OfThread(threading.local):
    """The state of a thread."""

    def __init__(self) -> None:
        self.staged: Steps | None = None
        self.supposed: Steps | None = None
        self.limits: list[dict[str, Any]] = []
