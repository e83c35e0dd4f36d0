"""Follows a directory that another process writes: `everview.connect("directory", read_only=True)`.

The session has the tables and views of the directory as of its opening, and after that as of the last `refresh()`: it
reads the store's newest version and then replays the log, like a reopening writer. It changes nothing in the directory
but its pin, which tells the writer what not to collect yet. There may be several followers.

A new version contains nothing beyond the preceding log, so its batches need not be read again: following logs from
version to version is enough.
"""

from __future__ import annotations

from everview.errors import InputError
from everview.plan.trust import NOBODY, Trust
from everview.recovery.rebuild import Loaded
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.core import Core
from everview.session.history import History
from everview.session.names.catalog import Unkept
from everview.store import Store
from everview.store.logs import read_log


class Follower:
    """The storage of a read-only embedded session.

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

    read_only = True

    def __init__(
        self,
        store: Store,
        *,
        history: History = 1000,
        merge_effort: int = 4,
        threads: int | None = 1,
        trust: Trust = NOBODY,
    ) -> None:
        self.store: Store | None = store
        self._store = store
        self._runtime = EmbeddedRuntime(merge_effort=merge_effort, threads=threads)
        self.core = Core(self._runtime, history=history, trust=trust)
        self.core.catalog.entry_log = Unkept()
        self._place = 0  # position up to which the log was followed
        try:
            self._loaded = Loaded(self.core, self._runtime, store)
            self._loaded.load(store.manifest)
            self.refresh()
            self._runtime.backing = self
        except BaseException:
            self.core.closed = True
            self._runtime.dataflow.close()
            raise

    def refresh(self) -> None:
        """Catch up with the writer."""
        store, catalog = self._store, self.core.catalog
        while True:
            overtaken = store.overtaken()  # before the log is read: then it is complete
            self._follow_log()
            if not overtaken:
                break
            self._place = 0
            commit = store.follow()
            # a log was collected before it was read, or the directory is Spark's now
            if commit.time != self._runtime.dataflow.time or store.manifest.is_sharded:
                raise store.stale()
        catalog.redeclarable = {*catalog.tables, *catalog.views}

    def _follow_log(self) -> None:
        store = self._store
        for end, payload in read_log(store.files, store.manifest.version, self._place, done=True, bound=store.bound):
            self._loaded.replay(payload)
            self._place = end

    def check_writable(self, what: str) -> None:
        """Refuse: it is read-only."""
        raise InputError(
            "E_READ_ONLY",
            f"{what} in a session that only reads {self._store.files.root}",
            "do it in the session that writes there, and call refresh() here",
        )

    def checkpoint(self) -> None:
        """Only the writer does that."""
        self.check_writable("nothing can be written")

    def close(self) -> None:
        """Let the writer collect what only this reader needed."""
        self._store.close()

    def abandon(self) -> None:
        self._store.close()
