"""The worker's end of the connection on which a driver sends steps to a long-lived task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from everview.errors import InternalError
from everview.spark.transport.channel import Channel, call
from everview.spark.transport.message import Buffer, unpack

PURPOSE = b"steps"
UNREACHABLE = b"unreachable"
"""The answer of a worker that cannot reach the driver."""
REACH_SECONDS = 10.0
"""Seconds in which a worker must reach the driver."""


def reach(address: tuple[str, int], secret: bytes) -> Channel:
    """In a worker: connect to the driver."""
    return call(address, secret, PURPOSE, 0, REACH_SECONDS)


def steps(line: Channel) -> Iterator[tuple[Buffer, Sequence[bytes]]]:
    """In a worker: yield the steps that the driver sends until it disconnects, each with all commands. Answers go back
    on the same connection.
    """
    commands: Sequence[bytes] = ()
    while True:
        try:
            header, (job, *more) = unpack(line.receive())
        except (InternalError, ConnectionError):
            return
        commands = commands if header["same"] else [bytes(each) for each in more]
        yield job, commands
