"""Opens a directory as the right kind of session.

>>> import tempfile
>>> import everview as ev
>>> where = tempfile.mkdtemp()
>>> with ev.connect(where) as db:
...     t = db.table("t", {"x": int})
...     v = db.view("v", t.select(y=t.x * 2).distinct())
...     t.insert([(1,), (2,)])
>>> with ev.connect(where) as db:
...     db["t"].insert([(3,)])
...     sorted(db["v"].rows()), db.time
([(2,), (4,), (6,)], 2)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from everview.errors import InputError, StoreError, did_you_mean
from everview.plan.trust import Trust
from everview.recovery.directory import Directory
from everview.recovery.follower import Follower
from everview.recovery.shard_follower import follow_shards
from everview.session.core import core_of
from everview.session.session import Session
from everview.store import Store, dictionary_gc
from everview.store.logs import read_log
from everview.store.wal import Sync

_KNOWN = ("history", "merge_effort", "threads", "memory")
"""Options that an in-memory session accepts, too."""


def open_directory(
    location: str | os.PathLike[str],
    *,
    read_only: bool = False,
    sync: Sync = "normal",
    trust: bool = False,
    functions: Any = (),
    **options: Any,
) -> Session:
    """Open the session in a directory, for `everview.connect`."""
    for name in options:
        if name not in _KNOWN:
            known = did_you_mean(name, (*_KNOWN, "read_only", "sync", "trust", "functions", "adaptive", "files"))
            raise InputError("E_OPTION", f"a session in a directory has no option {name!r}", known)
    options["trust"] = Trust.of(trust, functions, str(location))
    if sync not in ("normal", "full"):
        raise InputError("E_OPTION", f"sync is {sync!r}", 'use "normal" (survives kill -9) or "full" (power loss)')
    if not read_only:
        return open_to_write(location, sync, **options)
    if options.pop("memory", None) is not None:
        raise InputError("E_OPTION", "a session that only reads has no memory=", "give it to the one that writes")
    return _follow(location, options)


def open_to_write(location: str | os.PathLike[str], sync: Sync = "normal", **options: Any) -> Session:
    """An embedded session that writes a directory."""
    store = Store(location)
    try:
        if dictionary_gc.due(store.manifest):
            _forget_words(store, options)
        session = Session(Directory(store, sync, **options).core)
        core_of(session).clock.catch_up()
        return session
    except BaseException:
        store.close()
        raise


def _follow(location: str | os.PathLike[str], options: Mapping[str, Any]) -> Session:
    """A session that reads what another process writes."""
    store = Store(location, read_only=True)
    try:
        if store.manifest.is_sharded:
            return Session(follow_shards(store, **options))
        return Session(Follower(store, **options).core)
    except BaseException:
        store.close()
        raise


def _forget_words(store: Store, options: Mapping[str, Any]) -> None:
    """Remove unused dictionary entries from a store, if there is room for it."""
    with suppress(OSError, StoreError):
        log = read_log(store.files, store.manifest.version, bound=store.bound)
        if next(log, None) is not None:  # the last session was killed
            Directory(store, "normal", **options).fold()
        dictionary_gc.forget(store)
