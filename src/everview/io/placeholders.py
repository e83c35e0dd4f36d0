"""Placeholders for Spark's streams and sinks in a check, which does not start Spark.

The columns of a stream are known if the file has a `schema`; otherwise only Spark could tell, and the check ends.
"""

from __future__ import annotations

from typing import NoReturn

from everview.errors import InputError
from everview.io.sink import Sink
from everview.io.source import Source


class PlaceholderStream(Source):
    """A Spark stream that is not opened.

    >>> PlaceholderStream("kafka", "p.toml, [source.orders]").schema()
    Traceback (most recent call last):
        ...
    everview.errors.InputError: [E_SPARK] p.toml, [source.orders]: only Spark knows the columns of a kafka stream...
      hint: ...
    """

    def __init__(self, format: str, place: str) -> None:
        self._format = format
        self._place = place

    def schema(self) -> NoReturn:
        """Refused: see above."""
        raise InputError(
            "E_SPARK",
            f"{self._place}: only Spark knows the columns of a {self._format} stream, and a check does not start it",
            'tell them: schema = { column = "type", ... }; or try it: everview run FILE --until 1s',
        )

    def describe(self) -> str:
        """A few words."""
        return f"{self._format} through Spark"


class PlaceholderSink(Sink):
    """A Spark sink that is not opened: a topic, a table or a path.

    >>> PlaceholderSink("kafka", "orders").describe()
    'kafka orders'
    """

    def __init__(self, format: str, place: str) -> None:
        self._words = f"{format} {place}"

    def describe(self) -> str:
        """A few words."""
        return self._words
