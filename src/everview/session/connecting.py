"""`connect`, the entry point, in a module of its own so that importing the package loads nothing else.

The first call loads the engine and its compiled kernels, compiling them if necessary.
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
    eagerly indexes are merged (1 lazy, 4 default, 64 eager). If a step has tens of thousands of rows to sort, join or
    reduce, `threads` threads share the work: by default one per core. This speeds up bulk loads and leaves small
    changes as they are; results are the same. `threads=1` leaves the other cores free.

    `memory` ("64MB", "2GB", bytes) limits what indexes and steps use together. State beyond it is kept in memory-mapped
    files, in the directory or the system's temporary folder; a step that does not fit fails with E_MEMORY and changes
    nothing. See docs/durability.md.

    With `files=False` SQL cannot read or write files: CREATE SOURCE and CREATE SINK are refused (E_FORBIDDEN). Use it
    when running untrusted SQL.

    With `adaptive=True` join plans adapt to the workload (`Session.adapt`, docs/optimiser.md).

    A directory takes `sync` and `read_only`. With `sync="normal"` acknowledged changes survive the death of the
    process, with "full" that of the machine too. `read_only` attaches to a directory that another process writes;
    `db.refresh()` catches up. Python functions in a directory's views run only if the program supplies them: through
    `functions` (a list, or a dict by name), or by declaring the views again; `trust=True` runs the code in the
    directory, see docs/durability.md. With a SparkSession, steps are Spark jobs: it takes `state`, the directory,
    `shards`, and the options in docs/spark.md; `threads` has no effect there, because parallelism comes from shards.

    `everview.connect("everview://host:port", token="...")` returns a client of `everview serve` (`everviews://` with
    TLS) with the same methods: see docs/server.md.

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
