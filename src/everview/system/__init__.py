"""The session's own events as relations: what it consists of, what it holds, what it does.

    relations   what each relation says, computed from a session
    log         steps and statements as they happen, while somebody wants to know
    observing   the inner session that holds the relations, and how it follows

Two rules carry it. The relations are tables of *another* session, in memory, with times of its own: asking or
subscribing never makes the observed session's time pass, nothing observes the observer, and so no event can cause
another. And nothing is noted that nobody asked for: without a log, no line of code runs because of this package.
"""

from __future__ import annotations
