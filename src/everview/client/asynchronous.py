"""The asyncio client.

    db = await everview.client.connect_async("everview://127.0.0.1:8080", token="...")
    total = await db.sql("CREATE VIEW total AS SELECT shop, sum(amount) AS amount FROM sale GROUP BY shop")
    await (await db.table("sale", {"shop": str, "amount": int})).insert([("north", 5)])
    async for batch in db.follow("total"):
        print(batch.time, batch.rows())

An `Asynchronous` object wraps a session, a table or a view, with the same methods, to be awaited: each call runs in a
thread of its own, so the event loop is not blocked. Properties (`db.time`) are awaited with `get`. Returned objects
that have calls of their own are wrapped in turn; rows, results and Arrow tables are returned as they are. Transactions
are lists of changes: `await db.together([("sale", "insert", rows), ...])`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from everview.client.relations import ClientRelation
from everview.client.results import ClientBatch
from everview.client.rules import ClientRules
from everview.client.session import ClientSession, connect
from everview.language.collection import Collection

WRAPPED = (ClientRelation, ClientSession, ClientRules)

MOST_WAITING = 1000
"""Maximum number of batches queued for a program that follows a view; then reading from the server pauses."""


async def connect_async(address: str, *, token: str = "", **options: Any) -> Asynchronous:
    """The asyncio client; see `everview.client.asynchronous`."""
    return Asynchronous(await asyncio.to_thread(connect, address, token=token, **options))


class Asynchronous:
    """A session, table or view whose methods are awaited."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._method(name)

    def _method(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            given = [a._of if isinstance(a, Asynchronous) else a for a in arguments]
            method = getattr(self._of, name)
            return _wrapped(await asyncio.to_thread(method, *given, **named))

        return call

    async def get(self, name: str) -> Any:
        """A property, or (of a session) a table or view by name."""
        if isinstance(self._of, ClientSession) and not isinstance(getattr(type(self._of), name, None), property):
            return _wrapped(await asyncio.to_thread(self._of.__getitem__, name))
        return await asyncio.to_thread(getattr, self._of, name)

    @property
    def collection(self) -> Collection:
        """The table or view itself, to build queries from."""
        found: Collection = self._of
        return found

    async def together(self, changes: Sequence[tuple[str, str, Any]]) -> None:
        """Make changes at one time: (table, "insert", rows), (table, "delete", rows) or (table, "upsert", rows)."""

        def work() -> None:
            with self._of.transaction():
                for name, how, rows in changes:
                    self._of._change(how, name, rows)

        await asyncio.to_thread(work)

    async def follow(
        self, name: str = "", *, query: str = "", snapshot: bool = True, granularity: float = 0.0
    ) -> AsyncGenerator[ClientBatch, None]:
        """Iterate over the changes of a table, view or query."""
        loop, batches = asyncio.get_running_loop(), asyncio.Queue[ClientBatch](MOST_WAITING)

        def heard(batch: ClientBatch) -> None:
            asyncio.run_coroutine_threadsafe(batches.put(batch), loop).result()

        wanted = {"query": query} if query else {"view": name}
        stop = await asyncio.to_thread(self._of._follow, wanted, heard, snapshot, granularity)
        try:
            while True:
                yield await batches.get()
        finally:
            stop._stopped.set()
            asyncio.get_running_loop().run_in_executor(None, stop)

    async def __aenter__(self) -> Asynchronous:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.to_thread(self._of.close)


def _wrapped(found: Any) -> Any:
    return Asynchronous(found) if isinstance(found, WRAPPED) else found
