"""asyncpg: binary values and the extended protocol for everything."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import uuid
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.server.pg.conftest import Running

asyncpg = pytest.importorskip("asyncpg")


def talk(server: Running, conversation: Callable[[Any], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        db = await asyncpg.connect(server.dsn, timeout=30)
        try:
            return await conversation(db)
        finally:
            await db.close()

    return asyncio.run(main())


def test_rows_and_parameters(fresh: Running) -> None:
    async def conversation(db: Any) -> None:
        rows = await db.fetch("SELECT id, shop, amount, day, at, ok, w FROM sale WHERE id = $1", 1)
        assert [tuple(r) for r in rows] == [
            (1, "north", Decimal("5.50"), dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 10), True, 1.5)
        ]
        assert await db.fetchval("SELECT count(*) FROM sale WHERE shop = ANY($1)", ["north", "south"]) == 2
        assert await db.execute("INSERT INTO sale (id, shop) VALUES ($1, $2)", 3, "east") == "INSERT 0 1"
        assert await db.execute("UPDATE sale SET amount = $1 WHERE shop = $2", Decimal("9.99"), "east") == "UPDATE 1"
        assert await db.execute("DELETE FROM sale WHERE id >= $1", 2) == "DELETE 2"

    talk(fresh, conversation)


def test_every_type_in_binary(fresh: Running) -> None:
    given: tuple[Any, ...] = (
        2**62, -7, 2.5, False, "ü", b"\0\xff", dt.date(1999, 12, 31), dt.datetime(1970, 1, 1, 0, 0, 0, 1),
        dt.datetime(2026, 2, 3, 4, 5, 6, 7, dt.UTC), dt.time(1, 2, 3, 4), Decimal("-0.00001"), Decimal("1234.5"),
        dt.timedelta(days=-3, microseconds=5), uuid.UUID(int=2**127 + 1), '{"a": 1}', [1, None, 3], [],
    )  # fmt: skip

    async def conversation(db: Any) -> None:
        await db.execute(
            "CREATE TABLE every (i bigint, s smallint, f double, b boolean, t text, y bytea, d date, ts timestamp, "
            "tz timestamptz, tm time, n numeric(30, 5), g decimal(12, 3), iv interval, u uuid, "
            "j jsonb, a int[], ta text[])"
        )
        marks = ", ".join(f"${i + 1}" for i in range(len(given)))
        await db.execute(f"INSERT INTO every VALUES ({marks})", *given)
        assert tuple(await db.fetchrow("SELECT * FROM every")) == given

    talk(fresh, conversation)


def test_transactions_and_cursors(fresh: Running) -> None:
    async def conversation(db: Any) -> None:
        async with db.transaction():
            await db.executemany("INSERT INTO sale (id, shop) VALUES ($1, $2)", [(i, "m") for i in range(10, 60)])
            found = [r["id"] async for r in db.cursor("SELECT id FROM sale ORDER BY id", prefetch=7)]
            assert found == [1, 2, *range(10, 60)]
        with pytest.raises(asyncpg.UniqueViolationError):
            async with db.transaction():
                await db.execute("INSERT INTO sale (id, shop) VALUES (99, 'x')")
                async with db.transaction():
                    await db.execute("INSERT INTO sale (id, shop) VALUES (1, 'x')")
        assert await db.fetchval("SELECT count(*) FROM sale WHERE id = 99") == 0

    talk(fresh, conversation)


def test_copy(fresh: Running) -> None:
    async def conversation(db: Any) -> None:
        said = await db.copy_records_to_table(
            "sale", records=[(i, "r") for i in range(100, 400)], columns=["id", "shop"]
        )
        assert said == "COPY 300"
        out = io.BytesIO()
        await db.copy_from_query("SELECT id, shop FROM sale WHERE id < 3 ORDER BY id", output=out, format="csv")
        assert out.getvalue() == b"1,north\n2,south\n"

    talk(fresh, conversation)


def test_describing_does_nothing(fresh: Running) -> None:
    async def conversation(db: Any) -> None:
        found = await db.prepare("INSERT INTO sale (id, shop) VALUES ($1, $2) RETURNING id, amount")
        assert [p.name for p in found.get_parameters()] == ["int8", "text"]
        assert [(a.name, a.type.name) for a in found.get_attributes()] == [("id", "int8"), ("amount", "numeric")]

    before = fresh.do(lambda s: s.time)
    talk(fresh, conversation)
    assert fresh.do(lambda s: s.time) == before


def test_a_statement_can_be_cancelled(fresh: Running) -> None:
    fresh.do(lambda s: s.sql("CREATE TABLE big (x int)"))
    fresh.do(lambda s: s["big"].insert({"x": range(100_000)}))

    async def conversation(db: Any) -> None:
        with pytest.raises(asyncio.TimeoutError):
            await db.fetch("SELECT count(*) FROM big a CROSS JOIN big b WHERE a.x + b.x > 7", timeout=0.5)
        assert await db.fetchval("SELECT 1") == 1
        await db.execute("SET statement_timeout = 300")
        with pytest.raises(asyncpg.QueryCanceledError):
            await db.fetch("SELECT count(*) FROM big a CROSS JOIN big b WHERE a.x + b.x > 7")

    talk(fresh, conversation)
