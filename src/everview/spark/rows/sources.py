"""Creating the source for a DataFrame, streaming or static."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.errors import InputError
from everview.io.source import Source
from everview.spark.rows.frames import Frame
from everview.spark.rows.streams import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def frame_source(frame: DataFrame) -> Source:
    """The source for a DataFrame, streaming or static."""
    if not hasattr(type(frame), "isStreaming"):
        raise InputError(
            "E_SOURCE", f"a {type(frame).__name__} is not a DataFrame", "give what spark.read or spark.readStream makes"
        )
    if frame.isStreaming:
        return Stream(frame)
    return Frame(frame)
