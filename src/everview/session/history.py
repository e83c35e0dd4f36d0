"""Retention: how far back tables and views can be read, in epochs (`connect(history=1000)`) or by time (`history="10
minutes"`).

With a duration, at least the times completed within it can be read: `as_of`, `changes(since)`, SUBSCRIBE AS OF, and
server clients that resume with a token. A reopened session counts from its opening.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from everview.codes.durations import seconds
from everview.dataflow.timed_history import TimedHistory
from everview.errors import InputError
from everview.runtime.base import Runtime
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.names.arguments import check_count

History = int | str | dt.timedelta
"""Epochs, or a duration."""


def kept(runtime: Runtime, history: Any) -> int:
    """Configure a runtime's retention; return the number of epochs that each trace keeps.

    >>> import everview as ev
    >>> db = ev.connect(history="1 hour")
    >>> t = db.table("t", {"x": int})
    >>> for i in range(2000):
    ...     t.insert([(i,)])
    >>> len(t.as_of(5).rows())
    5
    """
    if not isinstance(history, (str, dt.timedelta)):
        check_count("history", history, 0)
        return int(history)
    try:
        said = seconds(history)
    except InputError:
        raise InputError("E_RANGE", f"history={history!r}", 'give epochs, or a time such as "10 minutes"') from None
    if not said:
        return 0
    if not isinstance(runtime, EmbeddedRuntime):
        what = f"history={history!r}: shards keep history by epochs"
        raise InputError("E_UNSUPPORTED", what, "give a number, such as history=1000")
    runtime.dataflow.timed_history = TimedHistory(said)
    return 1
