"""What the driver and the members of a gang say to each other, and how it is written.

    driver to member      Meet, Roster, Order, GiveUp
    member to driver      Here, Stands, Report

All of it is data (`everview.spark.transport.message`): a header, and runs of bytes behind it for what only the worker
understands, the job of an `Order` and the answer of a `Report`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from everview.errors import InternalError
from everview.spark.transport.message import Buffer, pack, unpack

Address = tuple[str, int]

DONE, FAILED, AGAIN = "done", "failed", "again"
"""How a step ended for a member: well; with an error that would come again; because of others, so it can be tried
again.
"""


@dataclass(frozen=True)
class Meet:
    """Hang up on all other members, and say where you can be called: a generation begins."""

    generation: int


@dataclass(frozen=True)
class Here:
    """Where a member listens, and what its process holds: (shard, version, attempt)."""

    generation: int
    at: Address
    held: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True)
class Roster:
    """Who belongs to a generation: where each rank listens, and which rank runs each shard. Call those below you."""

    generation: int
    rank: int
    at: tuple[Address, ...]
    owners: tuple[int, ...]


@dataclass(frozen=True)
class Stands:
    """A member is connected to all others, or could not reach one."""

    generation: int
    connected: bool


@dataclass(frozen=True)
class Order:
    """Run a step; its job travels behind. `attempt` counts the tries of one step."""

    step: int
    generation: int
    attempt: int
    same: bool = False
    """whether the commands are those of the last order, so that they are not sent again"""


@dataclass(frozen=True)
class GiveUp:
    """A step has no prospects: somebody is lost, or has failed."""

    step: int


@dataclass(frozen=True)
class Report:
    """How a step ended for a member; its answer travels behind."""

    step: int
    how: str
    why: str = ""


ToMember = Meet | Roster | Order | GiveUp
FromMember = Here | Stands | Report
Said = ToMember | FromMember

_KINDS: dict[str, Callable[..., Said]] = {
    kind.__name__: kind for kind in (Meet, Here, Roster, Stands, Order, GiveUp, Report)
}


def written(said: Said, parts: Sequence[Buffer] = ()) -> list[Buffer]:
    """A message as pieces for a line.

    >>> order = Order(7, 2, 0)
    >>> found, parts = read(b"".join(written(order, [b"a job"])))
    >>> found == order, [bytes(part) for part in parts]
    (True, [b'a job'])
    >>> roster = Roster(2, 0, (("127.0.0.1", 99),), (0, 0))
    >>> read(b"".join(written(roster)))[0] == roster
    True
    """
    return pack({"said": type(said).__name__, **asdict(said)}, parts)


def read(data: Buffer) -> tuple[Said, list[memoryview]]:
    """What was said, and what travelled behind it."""
    header, parts = unpack(data)
    kind = _KINDS.get(header.pop("said", ""))
    try:
        if kind is None:
            raise TypeError
        return kind(**{name: _frozen(value) for name, value in header.items()}), parts
    except TypeError:
        raise InternalError("E_PEER", "a message of a gang makes no sense", "report this") from None


def _frozen(value: object) -> object:
    """JSON has lists where the messages have tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
