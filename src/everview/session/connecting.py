"""`connect`: the way in, on its own, so that importing the package loads nothing behind it.

The first call loads the engine and its compiled kernels. Where those are not there yet, it has them compiled.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from everview.errors import InputError
from everview.session import doors

if TYPE_CHECKING:
    from everview.session.session import Session


def connect(
    target: Any = None,
    *,
    history: int | str | dt.timedelta = 1000,
    merge_effort: int = 4,
    threads: int | None = None,
    memory: int | str | None = None,
    files: bool = True,
    adaptive: bool = False,
    **options: Any,
) -> Session:
    """Open a session: `everview.connect()` is embedded and in memory, `everview.connect("directory")` durable.

    `history` is how many epochs back views can be read, or for how long ("10 minutes", a timedelta); `merge_effort` how
    eagerly indexes are merged (1 lazy, 4 usual, 64 eager). Where a step has tens of thousands of rows to sort, join or
    reduce, `threads` threads share the work: by default as many as there are cores. Bulk loads end sooner, small
    changes stay as they are; the answers are the same. `threads=1` leaves the other cores alone.

    `memory` ("64MB", "2GB", bytes) is what indexes and steps may take together. State beyond it lies in files that are
    mapped, in the directory or where the system keeps temporary ones; a step that cannot fit fails with E_MEMORY and
    changes nothing. See docs/durability.md.

    With `files=False` SQL cannot choose files to read or write: CREATE SOURCE and CREATE SINK are refused
    (E_FORBIDDEN). Say so where texts of strangers are run.

    With `adaptive=True` the plans of joins follow what happens to the session (`Session.adapt`, docs/optimiser.md).

    A directory takes `sync` ("normal": what was acknowledged survives the death of the process, "full": that of the
    machine too) and `read_only` (attach to what another process writes; `db.refresh()` catches up).
    Of the Python functions in a directory's views only those run that the program has given: `functions` (a list, or a
    dict by name), the views it declares again; `trust=True` runs the code in the directory, see docs/durability.md.
    With a SparkSession, steps are Spark jobs: it takes `state`, the directory, `shards`, and what docs/spark.md lists;
    `threads` has no effect there, shards are what runs side by side.

    `everview.connect("everview://host:port", token="...")` is a client of `everview serve` (`everviews://` with TLS),
    with the same methods: see docs/server.md.

    >>> import everview as ev
    >>> ev.connect()
    Session(time 0, tables: none, views: none)
    """
    if not isinstance(files, bool):
        raise InputError("E_TYPE", f"files={files!r}: SQL may use files or not", "give True or False")
    if isinstance(target, str) and target.startswith(("everview://", "everviews://")):
        return doors.open_client(target, **options)  # type: ignore[return-value]
    from everview.session.opening import opened  # may take a while the first time, so it can be interrupted

    if memory is not None:
        options["memory"] = memory
    session = opened(target, history=history, merge_effort=merge_effort, threads=threads, options=options)
    session._core.may_use_files = files
    if adaptive is not False:
        session.adapt(adaptive)
    return session
