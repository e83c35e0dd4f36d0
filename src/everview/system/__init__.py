"""Introspection relations: the session's objects, state and activity.

    relations     the contents of each relation, computed from a session
    log           a log of steps and statements, while enabled
    observer      the inner session that holds the relations, and how it follows
    inner_rights  what statements in it may do: read, and what the outer session allows

Two principles: the relations are tables of *another*, in-memory session with its own times. Querying or subscribing
never advances the observed session's time, nothing observes the observer, and so no event can cause another. And
nothing is recorded unless requested: without a log, none of this package's code runs.
"""

from __future__ import annotations
