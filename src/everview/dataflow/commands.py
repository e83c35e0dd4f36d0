"""Serialisation of the commands that build a dataflow (`everview.dataflow.replica`), for directories and other
processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from everview.codes.type_declarations import data_type
from everview.dataflow.replica import Command, Install, Keep, MakeTable, Replica, Swap
from everview.errors import PlanError, StoreError
from everview.plan import legacy
from everview.plan import nodes as plan
from everview.plan.hot_keys import Hot
from everview.plan.serialisation import Functions, freeze, thaw
from everview.store import records


class Commands:
    """The commands that built a dataflow, as bytes that can be read from any position."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self.encoded: list[bytes] = []
        self._known: list[int] = [0]

    def __len__(self) -> int:
        return len(self.encoded)

    def go_back(self, count: int) -> None:
        """Keep only the first `count` commands."""
        del self.encoded[count:]
        del self._known[count + 1 :]
        self._functions.go_back(self._known[-1])

    def append(self, command: Command) -> None:
        """Add a command."""
        header: dict[str, Any] = {"command": type(command).__name__}
        parts: list[bytes] = []
        if isinstance(command, (Install, Swap)):
            node = plan.Union((command.join, command.target)) if isinstance(command, Swap) else command.node
            parts.append(freeze(node, self._functions))
            new = list(self._functions.unwritten())
            parts += [data for _, data in new]
            header["functions"] = [name for name, _ in new]
        if isinstance(command, Install):
            header |= {"keys": command.keys, "history": command.history, "choice": command.choice}
            if command.hot:
                header["hot"] = command.hot
        elif isinstance(command, MakeTable):
            table = command.node
            header |= {"id": table.id, "columns": [repr(c) for c in table.columns], "key": table.key}
            header |= {"order": command.order, "name": command.name, "history": command.history, "rows": command.rows}
        elif isinstance(command, Keep):
            header["roots"] = command.roots
        self.encoded.append(records.encode(header, parts))
        self._known.append(len(self._functions))


def read_command(data: bytes, functions: Functions) -> Command:
    """Parse a command and register its new functions."""
    if data[: len(records.MAGIC)] != records.MAGIC:
        return _read_old(data, functions)
    header, parts = records.decode(data, "a command")
    try:
        if header["command"] in ("Install", "Swap"):
            for name, code in zip(header["functions"], parts[1:], strict=True):
                functions.read(str(name), bytes(code))
            node = thaw(bytes(parts[0]), functions)
            if header["command"] == "Swap":
                join, target = node.children()
                return Swap(join, target)
            hot = _hot(header.get("hot", ()))
            return Install(node, _numbers(header["keys"]), int(header["history"]), header["choice"], hot)
        if header["command"] == "MakeTable":
            columns = tuple(data_type(str(c)) for c in header["columns"])
            table = plan.Table(int(header["id"]), columns, _numbers(header["key"]))
            rows = tuple(_numbers(row) for row in header["rows"])
            return MakeTable(table, _numbers(header["order"]), str(header["name"]), int(header["history"]), rows)
        if header["command"] == "Keep":
            return Keep(_numbers(header["roots"]))
    except (KeyError, TypeError, ValueError) as error:
        raise records.damaged("a command", 0, f"{type(error).__name__}: {error}") from None
    raise records.damaged("a command", 0, f"{header['command']!r} is unknown")


def _numbers(given: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in given)


def _hot(given: Any) -> Hot:
    return tuple((int(table), int(column), tuple((int(k), int(n)) for k, n in keys)) for table, column, keys in given)


def _read_old(data: bytes, functions: Functions) -> Command:
    kind, new, body = legacy.command(data, functions)
    for name, code in new:
        functions.read(name, code)
    if kind == "Install":
        frozen, keys, history, *choice = body
        return Install(thaw(frozen, functions), keys, history, *(choice or ("binary",)))  # once there was no choice
    if kind == "MakeTable":
        node, order, name, history, rows = body
        return MakeTable(plan.Table(*node), order, name, history, rows)
    return Keep(body)


def rebuild(
    replica: Replica,
    built: Iterable[bytes],
    functions: Functions,
    expected: Sequence[str],
    where: str,
    follow: Callable[[Command], None] | None = None,
) -> None:
    """Rebuild in a replica what was built on shards, and verify it: batches refer to operators by number."""
    commands = (read_command(data, functions) for data in built)
    check_built(built_again(replica, commands, follow), expected, where)


def built_again(
    replica: Replica, commands: Iterable[Command], follow: Callable[[Command], None] | None = None
) -> str | None:
    """Build the same in a replica; return the fingerprint it had when the last of it was built, or None if a command
    makes no sense to the operators that are built today.
    """
    found = ""
    for command in commands:
        if isinstance(command, Keep) and not all(map(replica.has, command.roots)):
            return None
        try:
            replica.load([command]) if follow is None else follow(command)
        except PlanError:  # a join that is not there cannot be built by another plan
            return None
        found = found if isinstance(command, Keep) else replica.fingerprint()
    return found


def is_as_built(found: str | None, expected: Sequence[str] | None) -> bool:
    """Whether the operators are those that were built then; early versions stored no fingerprint."""
    return found is not None and (not expected or found == expected[0])


def check_built(found: str | None, expected: Sequence[str] | None, where: str) -> None:
    """Refuse shards whose operators differ from what would be built today."""
    if not is_as_built(found, expected):
        raise StoreError(
            "E_VERSION",
            f"{where} was written by another version of Everview, which built other operators from its views",
            "open it once to write, which computes its views again, or read it with that version",
        )
