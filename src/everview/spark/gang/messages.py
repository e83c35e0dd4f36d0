"""The messages between the driver and the members of a gang, and their encoding.

    driver to member      Meet, Roster, Order, GiveUp
    member to driver      Here, Stands, Report

All of them are plain data (`everview.spark.transport.message`): a header, followed by opaque payloads for the worker,
namely the job of an `Order` and the answer of a `Report`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from everview.errors import InternalError
from everview.spark.transport.message import Buffer, pack, unpack

Address = tuple[str, int]

DONE, FAILED, AGAIN = "done", "failed", "again"
"""The status of a step on a member: success, a deterministic error, or a failure of other members, which can be
retried.
"""


@dataclass(frozen=True)
class Meet:
    """Close the connections to all other members and report your address: a generation begins."""

    generation: int


@dataclass(frozen=True)
class Here:
    """A member's address, and what its process holds: (shard, version, attempt)."""

    generation: int
    at: Address
    held: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True)
class Roster:
    """Members of a generation: the address of each rank, and the rank of each shard. Call the lower ranks."""

    generation: int
    rank: int
    at: tuple[Address, ...]
    owners: tuple[int, ...]


@dataclass(frozen=True)
class Stands:
    """A member is connected to all others, or failed to reach one."""

    generation: int
    connected: bool


@dataclass(frozen=True)
class Order:
    """Run a step; its job follows as payload. `attempt` counts the attempts at one step."""

    step: int
    generation: int
    attempt: int
    same: bool = False
    """whether the commands are those of the last order, and so are not sent again"""


@dataclass(frozen=True)
class GiveUp:
    """The step cannot succeed: a member is lost or has failed."""

    step: int


@dataclass(frozen=True)
class Report:
    """The result of a step on a member; its answer follows as payload."""

    step: int
    how: str
    why: str = ""


ToMember = Meet | Roster | Order | GiveUp
FromMember = Here | Stands | Report
Message = ToMember | FromMember

_KINDS: dict[str, Callable[..., Message]] = {
    kind.__name__: kind for kind in (Meet, Here, Roster, Stands, Order, GiveUp, Report)
}


def written(message: Message, parts: Sequence[Buffer] = ()) -> list[Buffer]:
    """A message as parts to send.

    >>> order = Order(7, 2, 0)
    >>> found, parts = read(b"".join(written(order, [b"a job"])))
    >>> found == order, [bytes(part) for part in parts]
    (True, [b'a job'])
    >>> roster = Roster(2, 0, (("127.0.0.1", 99),), (0, 0))
    >>> read(b"".join(written(roster)))[0] == roster
    True
    """
    return pack({"said": type(message).__name__, **asdict(message)}, parts)


def read(data: Buffer) -> tuple[Message, list[memoryview]]:
    """The message and its payload."""
    header, parts = unpack(data)
    kind = _KINDS.get(header.pop("said", ""))
    try:
        if kind is None:
            raise TypeError
        return kind(**{name: _frozen(value) for name, value in header.items()}), parts
    except TypeError:
        raise InternalError("E_PEER", "a message of a gang makes no sense", "report this") from None


def _frozen(value: object) -> object:
    """Lists from JSON as the tuples that messages have."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
