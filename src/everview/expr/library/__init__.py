"""The function library: Python functions beyond those specified in `everview.expr.functions`.

Text, patterns, numbers and dates, mostly with PostgreSQL's names and semantics. `everview.expr.evaluate` calls them on
*distinct* values if only one argument varies. In reading order:

    signatures    the definition of a library function: signatures
    strings       texts and bytes
    regex_matches, regex_functions  regular expressions
    numbers       mathematics
    datetimes, intervals  dates, timestamps and intervals
    other_dialects  functions of other systems
    date_formats, number_formats  to_char and to_date: templates of dates and times, and of numbers
"""

from __future__ import annotations

from everview.expr import functions
from everview.expr.library import datetimes, intervals, numbers, other_dialects, regex_functions, strings
from everview.expr.library.signatures import Routine

LIBRARY: dict[str, Routine] = {
    **strings.SHELF.routines,
    **regex_functions.SHELF.routines,
    **numbers.SHELF.routines,
    **datetimes.SHELF.routines,
    **intervals.SHELF.routines,
    **other_dialects.SHELF.routines,
}
"""Every routine by name; none is also in `everview.expr.functions.FUNCTIONS`."""

functions.LIBRARY.update({name: routine.described() for name, routine in LIBRARY.items()})
