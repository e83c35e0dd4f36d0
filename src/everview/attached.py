"""Attached sessions: `everview.connect("directory", read_only=True)`, reading what another process writes.

An attached session has the tables and views of the directory as of when it was opened, and as of the last `refresh()`
after that: it reads the store's newest version and then does what the log says, as the writer does when it is opened
again. It changes nothing in the directory but its pin, by which the writer knows what not to collect yet. Several may
be attached at once.

A new version says nothing that the log before it has not said, so its batches need not be read again: following logs
from version to version is enough.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from everview.catalogue import TRANSIENT
from everview.collection import Collection
from everview.durable import Stored
from everview.errors import InputError
from everview.store import Store
from everview.store.logs import read_log
from everview.table import Table
from everview.turns import reads
from everview.view import View


class AttachedSession(Stored):
    """A session that reads a directory which another one writes; made by `everview.connect(..., read_only=True)`.

    >>> import tempfile
    >>> import everview as ev
    >>> where = tempfile.mkdtemp()
    >>> writer = ev.connect(where)
    >>> t = writer.table("t", {"x": int})
    >>> reader = ev.connect(where, read_only=True)
    >>> t.insert([(1,), (2,)])
    >>> reader["t"].rows(), reader.refresh(), reader["t"].rows()
    ([], 1, [(1,), (2,)])
    >>> reader.close(); writer.close()
    """

    def __init__(self, location: str | os.PathLike[str], **options: Any) -> None:
        self._closed = True  # until it is open
        store = Store(location, read_only=True)
        try:
            super().__init__(store, **options)
            self._load(store.manifest)
            self._place = 0  # up to which the log was followed
            self.refresh()
        except BaseException:
            if not self._closed:
                super().close()
            store.close()
            raise

    @reads
    def close(self) -> None:
        """Free everything, and let the writer collect what only this reader needed."""
        if not self._closed:
            super().close()
            self._store.close()

    # catching up

    @reads
    def refresh(self) -> int:
        """Catch up with the writer; gives the time that was reached. Subscribers are called for the times between."""
        self._alive()
        while True:
            overtaken = self._store.overtaken()  # before the log is read: then it is complete
            self._follow_log()
            if not overtaken:
                break
            self._place = 0
            commit = self._store.follow()
            # a log was collected before it was read, or the directory is Spark's now
            if commit.time != self._graph.time or self._store.manifest.is_sharded:
                raise self._store.stale()
        self._again = {*self._tables, *self._views}
        return self.time

    def _follow_log(self) -> None:
        store = self._store
        for end, payload in read_log(store.files, store.manifest.version, self._place, done=True, bound=store.bound):
            self._replay(payload)
            self._place = end

    # what it does not do

    def _keep(self, entry: bytes) -> None:
        """Indexes for lookups are this session's own."""

    def _refuse(self, what: str) -> NoReturn:
        raise InputError(
            "E_READ_ONLY",
            f"{what} in a session that only reads {self._store.files.root}",
            "do it in the session that writes there, and call refresh() here",
        )

    def table(
        self,
        name: str,
        schema: Mapping[str, Any],
        key: str | Sequence[str] | None = None,
        *,
        ttl: dt.timedelta | None = None,
    ) -> Table:
        if not self._quiet and name not in self._again:
            self._refuse(f"table {name!r} cannot be made")
        return super().table(name, schema, key, ttl=ttl)

    def view(self, name: str, collection: Collection, **options: Any) -> View:
        if not self._quiet and name not in self._again and not str(name).startswith(TRANSIENT):
            self._refuse(f"view {name!r} cannot be made")
        return super().view(name, collection, **options)

    def _drop_table(self, table: Table, cascade: bool) -> None:
        if not self._quiet:
            self._refuse(f"table {table._label!r} cannot be dropped")
        super()._drop_table(table, cascade)

    def _drop_view(self, view: View) -> None:
        if not self._quiet and not view._name.startswith(TRANSIENT):
            self._refuse(f"view {view._name!r} cannot be dropped")
        super()._drop_view(view)

    def _stage(self, table: Table, codes: Any, diff: int) -> None:
        self._refuse(f"table {table._label!r} cannot be changed")

    def _stage_upsert(self, table: Table, codes: Any) -> None:
        self._refuse(f"table {table._label!r} cannot be changed")

    def _stage_clear(self, table: Table) -> None:
        self._refuse(f"table {table._label!r} cannot be changed")

    def _accept(self, changes: Any) -> None:
        self._refuse("nothing can be committed")
