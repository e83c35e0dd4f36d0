"""`db.system`: relations about a session, in a separate session.

`refresh` computes the relations and applies the difference to the inner session as one transaction, if there is any.
This happens before each query, and periodically while watching (`watch`), so that views over the relations and
subscriptions to them follow.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from everview.codes import durations
from everview.errors import InputError
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.changes.turns import reads
from everview.session.core import Core, core_of
from everview.session.rights.principal import acting
from everview.session.session import Session
from everview.system.inner_rights import enclosed
from everview.system.log import Log
from everview.system.relations import LOGGED, PRESENT, Relation, Rows

if TYPE_CHECKING:
    from everview.session.table import Table


class System:
    """The session's objects, state and activity as tables `ev.operators`, `ev.views`, `ev.steps`, ... of a separate
    session. From SQL they are read like any table: `db.sql("SELECT * FROM ev.views")`.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> v = db.view("v", t.distinct())
    >>> db.system.rows("dependencies")
    [('v', 't')]
    >>> db.sql("SELECT v.name, o.kind FROM ev.views v JOIN ev.operators o ON o.id = v.operator").rows()
    [('v', 'reduce')]
    """

    def __init__(self, core: Core, sql: Any) -> None:
        self._core = core
        self.lock = threading.RLock()
        """held while the relations change"""
        self._log: Log | None = None
        self._relations: dict[str, Relation] = {}
        self._tables: dict[str, Table] = {}
        self._held: dict[str, Counter[tuple[Any, ...]]] = {}
        self._watching: threading.Event | None = None
        self.session = Session(Core(EmbeddedRuntime(core.interner), history=1))
        """the inner session"""
        enclosed(core_of(self.session), core)
        self.statements = type(sql)(self.session)
        """its SQL"""
        self.statements.is_inner = True
        for relation in PRESENT:
            self.offer(relation)
        for relation in LOGGED:
            self.offer(replace(relation, rows=partial(self._logged, relation.name)))

    def offer(self, relation: Relation) -> None:
        """Add a relation: a server's connections, say."""
        with self.lock:
            self._relations[relation.name] = relation
            self._tables[relation.name] = self.session.table(relation.name, relation.columns)
            self._held[relation.name] = Counter()

    def _logged(self, name: str, _: Core) -> Rows:
        """The rows of a relation that the log fills, while it is on."""
        return list(getattr(self._log, name)) if self._log is not None else ()

    def log(self, on: bool = True) -> None:
        """Record steps and statements from now on, in `ev.steps` and `ev.statements`, the last thousand each; or
        stop."""
        with self.lock:
            if on and self._log is None:
                self._log = Log(self._core)
            elif not on and self._log is not None:
                self._log.remove()
                self._log = None

    @reads
    def time_operators(self, on: bool = True) -> None:
        """Measure the time that each operator takes from now on, in `ev.work`; or stop. Not on Spark.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> v = db.view("v", t.distinct())
        >>> db.system.time_operators()
        >>> t.insert([(1,), (1,)])
        >>> db.sql("SELECT sum(ns) > 0 AS measured FROM ev.work").rows()
        [(True,)]
        >>> db.system.time_operators(False)
        """
        self._core.alive()
        running, _ = self._core.runtime.dataflows()
        if not running:
            raise InputError("E_UNSUPPORTED", "operators in other processes are not timed", "use an embedded session")
        for dataflow in running:
            dataflow.time_operators(on)

    def refresh(self) -> int:
        """Bring the relations up to date; return how many rows have changed."""
        with self.lock, acting(None):
            self._complete()
            found = self._found(self._relations)
            changed = 0
            with self.session.transaction():
                for name, rows in found.items():
                    changed += self._replace(name, rows)
            return changed

    def present(self, names: Iterable[str] | None) -> Mapping[str, list[tuple[Any, ...]]]:
        """The current rows of some relations, or of all of them, without bringing the inner session up to date."""
        with self.lock, acting(None):
            self._complete()
            wanted = self._relations if names is None else names
            return self._found({name: self._relations[name] for name in wanted})

    def _complete(self) -> None:
        """Offer what has been attached since: a server may have come."""
        for relation in self._core.attached.get("ev", ()):
            if relation.name not in self._relations:
                self.offer(relation)

    @reads
    def _found(self, relations: Mapping[str, Relation]) -> Mapping[str, list[tuple[Any, ...]]]:
        self._core.alive()
        return {name: list(relation.rows(self._core)) for name, relation in relations.items()}

    def _replace(self, name: str, rows: Rows) -> int:
        now = Counter(rows)
        before, self._held[name] = self._held[name], now
        gone, new = list((before - now).elements()), list((now - before).elements())
        if gone:
            self._tables[name].delete(gone)
        if new:
            self._tables[name].insert(new)
        return len(gone) + len(new)

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """The current rows of a relation."""
        self.refresh()
        found: list[tuple[Any, ...]] = self.session[name].rows()
        return found

    def sql(self, text: str) -> Any:
        """Query the relations, or create a view of them, in SQL; names without `ev.`"""
        self.refresh()
        return self.statements.run(text)

    def datalog(self, text: str) -> Any:
        """The same in Datalog."""
        self.refresh()
        return self.session.datalog(text)

    def __getitem__(self, name: str) -> Any:
        """A relation, or a view of some, to be read, subscribed to or built on."""
        return self.session[name]

    def watch(self, every: Any = 1.0) -> None:
        """Refresh every so many seconds, in a thread, until `unwatch` or the session's end; views over the relations
        and subscriptions to them follow.
        """
        seconds = durations.seconds(every)
        with self.lock:
            if self._watching is not None:
                raise InputError("E_IN_USE", "the session is already watched", "unwatch() first")
            self._watching = stop = threading.Event()
            threading.Thread(target=self._follow, args=(stop, seconds), daemon=True, name="everview system").start()

    def unwatch(self) -> None:
        """Stop refreshing."""
        with self.lock:
            if self._watching is not None:
                self._watching.set()
                self._watching = None

    def _follow(self, stop: threading.Event, seconds: float) -> None:
        while not stop.wait(seconds):
            if self._core.closed:
                return
            self.refresh()

    def close(self) -> None:
        """Release everything."""
        self.unwatch()
        self.log(False)
        self.session.close()
