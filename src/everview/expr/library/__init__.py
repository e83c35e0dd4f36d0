"""The library: functions in Python beside those that `everview.expr.functions` describes to the last corner.

Text, patterns, numbers and dates, mostly with PostgreSQL's names and meanings. `everview.expr.evaluate` calls them on
*distinct* values where only one argument varies. In reading order:

    routines      what a function of the library is: signatures
    texts         texts and bytes
    matching, patterns    regular expressions
    numbers       of mathematics
    moments, spans    dates, timestamps and intervals
    elsewhere     what other systems have beside these
    formats, figures    to_char and to_date: templates of moments, and of numbers
"""

from __future__ import annotations

from everview.expr import functions
from everview.expr.library import elsewhere, moments, numbers, patterns, spans, texts
from everview.expr.library.routines import Routine

LIBRARY: dict[str, Routine] = {
    **texts.SHELF.routines,
    **patterns.SHELF.routines,
    **numbers.SHELF.routines,
    **moments.SHELF.routines,
    **spans.SHELF.routines,
    **elsewhere.SHELF.routines,
}
"""Every routine by name; no name is one of `everview.expr.functions.FUNCTIONS`."""

functions.LIBRARY.update({name: routine.described() for name, routine in LIBRARY.items()})
