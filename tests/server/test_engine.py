"""The engine: work in order, errors as they are, cancelling, closing; subscriptions in one process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import everview as ev
from everview.errors import ClosedError, EverviewError, InputError, StoppedError
from everview.server import feeds
from everview.server.engine import Engine
from everview.server.feeds import Feed
from everview.server.subscription import Commit, Subscription, Wanted
from everview.session.rights.principal import Principal, acting

LONG = 60.0


def with_engine(body: Callable[[Engine], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        engine = Engine(ev.connect(), **options)
        try:
            await asyncio.wait_for(body(engine), LONG)
        finally:
            await engine.close()

    asyncio.run(main())


def blocking(began: threading.Event, held: threading.Event) -> Callable[[ev.Session], None]:
    """Work that lasts until somebody lets it go."""

    def work(db: ev.Session) -> None:
        began.set()
        held.wait()

    return work


def test_work_is_done_in_the_order_in_which_it_was_asked_for() -> None:
    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.table("t", {"x": int}))
        calls = [engine.run(lambda db, i=i: db["t"].insert([(i,)])) for i in range(50)]  # type: ignore[misc]
        await asyncio.gather(*calls)
        changes = await engine.run(lambda db: db["t"].changes(since=0))
        assert [(row[0], time) for row, time, _ in changes] == [(i, i + 1) for i in range(50)]

    with_engine(body)


def test_errors_come_back_as_they_are() -> None:
    async def body(engine: Engine) -> None:
        with pytest.raises(EverviewError) as found:
            await engine.run(lambda db: db.sql("SELECT * FROM nowhere"))
        assert found.value.code == "E_TABLE"
        with pytest.raises(ZeroDivisionError):
            await engine.run(lambda db: 1 / 0)
        assert await engine.run(lambda db: db.time) == 0

    with_engine(body)


def test_what_waits_under_a_key_is_dropped_and_what_runs_is_stopped() -> None:
    begun = threading.Event()

    def endless(db: ev.Session) -> None:
        begun.set()
        db.sql("SELECT count(*) FROM t AS a CROSS JOIN t AS b CROSS JOIN t AS c WHERE a.x + b.x > c.x").rows()

    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.table("t", {"x": int}).insert({"x": range(100_000)}))
        running = asyncio.create_task(engine.run(endless, key="one"))
        waiting = asyncio.create_task(engine.run(lambda db: db["t"].insert([(1,)]), key="one"))
        other = asyncio.create_task(engine.run(lambda db: db.time, key="two"))
        await asyncio.to_thread(begun.wait)
        assert not engine.cancel("nobody")
        assert engine.cancel("one")
        for task in (running, waiting):
            with pytest.raises(StoppedError) as found:
                await task
            assert found.value.code == "E_CANCELLED"
        assert await other == 1

    with_engine(body)


def test_work_whose_caller_goes_away_is_given_up() -> None:
    began, held = threading.Event(), threading.Event()

    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.table("t", {"x": int}))
        first = asyncio.create_task(engine.run(blocking(began, held)))
        second = asyncio.create_task(engine.run(lambda db: db["t"].insert([(1,)])))
        await asyncio.to_thread(began.wait)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        held.set()
        await first
        assert await engine.run(lambda db: db["t"].count()) == 0

    with_engine(body)


def test_limits_are_of_that_work_alone() -> None:
    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.table("t", {"x": int}).insert({"x": range(50_000)}))
        cross = "SELECT count(*) FROM t AS a CROSS JOIN t AS b WHERE a.x + b.x > 7"
        with pytest.raises(StoppedError) as found:
            await engine.run(lambda db: db.sql(cross).rows(), seconds=0.2)
        assert found.value.code == "E_TIMEOUT"
        assert await engine.run(lambda db: db["t"].count()) == 50_000

    with_engine(body)


def test_too_much_work_is_refused() -> None:
    began, held = threading.Event(), threading.Event()

    async def body(engine: Engine) -> None:
        first = asyncio.create_task(engine.run(blocking(began, held)))
        await asyncio.to_thread(began.wait)
        second = asyncio.create_task(engine.run(lambda db: db.time))
        await asyncio.sleep(0)
        with pytest.raises(InputError) as found:
            await engine.run(lambda db: db.time)
        assert found.value.code == "E_BUSY"
        held.set()
        await first
        assert await second == 0

    with_engine(body, most_waiting=1)


def test_closing_ends_what_waits_and_the_session() -> None:
    async def main() -> None:
        session = ev.connect()
        engine = Engine(session)
        began, held = threading.Event(), threading.Event()
        first = asyncio.create_task(engine.run(blocking(began, held)))
        await asyncio.to_thread(began.wait)
        second = asyncio.create_task(engine.run(lambda db: db.time))
        await asyncio.sleep(0)
        closing = asyncio.create_task(engine.close())
        with pytest.raises(ClosedError):
            await second
        held.set()
        await first
        await closing
        with pytest.raises(ClosedError):
            await engine.run(lambda db: db.time)
        with pytest.raises(ClosedError):
            session.sql("SELECT 1")

    asyncio.run(asyncio.wait_for(main(), LONG))


# subscriptions


class Replica:
    """What a client makes of what it is told."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.contents: dict[int, Counter[tuple[Any, ...]]] = {}
        self.resets = 0
        self.time = -1

    async def hear(self) -> Commit:
        commit = await self.subscription.next()
        assert commit.start == self.time
        for frame in commit.frames:
            assert frame.chunk is not None
            if frame.kind == "snapshot":
                self.contents[frame.id] = Counter()
                self.resets += bool(frame.reset)
            found = self.contents[frame.id]
            for row, diff in frame.chunk.signed():
                found[row] += diff
                assert found[row] >= 0
        self.time = commit.time
        return commit

    async def until(self, at: int) -> None:
        while self.time < at:
            await self.hear()

    def of(self, number: int) -> dict[tuple[Any, ...], int]:
        return {row: n for row, n in self.contents[number].items() if n}


SCHEMA = """
    CREATE TABLE t (k int, x int);
    CREATE VIEW total AS SELECT k, sum(x) AS s FROM t GROUP BY k;
    CREATE VIEW n AS SELECT count(*) AS n FROM t;
"""


def test_several_views_are_told_at_one_time() -> None:
    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.sql(SCHEMA))
        wanted = [Wanted("total"), Wanted("n"), Wanted(query="SELECT max(x) AS m FROM t")]
        replica = Replica(await engine.subscribe(wanted, granularity=0))
        for i in range(60):
            await engine.run(lambda db, i=i: db["t"].insert([(i % 3, i)]))  # type: ignore[misc]
            if i % 7 == 0:
                await replica.hear()
                assert replica.of(2) == {(replica.time,): 1}, (
                    "each transaction brings one row, so the count is the time"
                )
                assert sum(s for _, s in replica.of(1)) == sum(range(replica.time))
        await replica.until(60)
        assert replica.of(3) == {(59,): 1}
        await replica.subscription.close()
        assert await engine.run(lambda db: db.views) == ("total", "n"), "the query's view is gone"

    with_engine(body)


def test_a_subscriber_that_fell_out_of_the_ring_is_served_from_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everview.server.feeds.MOST_CELLS", 20)
    monkeypatch.setattr("everview.server.feeds.TICK", 0.0)

    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.sql(SCHEMA))
        slow = Replica(await engine.subscribe([Wanted("total"), Wanted("n")], granularity=0))
        await slow.hear()
        for i in range(100):
            await engine.run(lambda db, i=i: db["t"].insert([(i, i)]))  # type: ignore[misc]
        await slow.until(100)
        assert slow.resets == 0
        assert slow.of(1) == await engine.run(lambda db: db["total"].counts())
        assert all(feed._cells <= 40 for feed in engine.feeds.known)

    with_engine(body)


def test_a_subscriber_that_history_does_not_reach_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everview.server.feeds.MOST_CELLS", 20)
    monkeypatch.setattr("everview.server.feeds.TICK", 0.0)

    async def main() -> None:
        engine = Engine(ev.connect(history=5))
        await engine.run(lambda db: db.sql(SCHEMA))
        slow = Replica(await engine.subscribe([Wanted("total"), Wanted("n")], granularity=0))
        await slow.hear()
        for i in range(100):
            await engine.run(lambda db, i=i: db["t"].insert([(i, i)]))  # type: ignore[misc]
        await slow.until(100)
        assert slow.resets == 2
        assert slow.of(1) == await engine.run(lambda db: db["total"].counts())
        assert slow.of(2) == {(100,): 1}
        await engine.close()

    asyncio.run(asyncio.wait_for(main(), LONG))


def _noting(method: Callable[..., Any], calls: list[Feed]) -> Callable[..., Any]:
    def noted(feed: Feed, *arguments: Any) -> Any:
        calls.append(feed)
        return method(feed, *arguments)

    return noted


def test_a_cut_costs_what_has_changed_however_many_feeds_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "LOOK", 3600.0)
    looked: list[Feed] = []

    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.sql("CREATE TABLE t (x int)"))
        found = []
        for i in range(20):
            wanted = Wanted(query=f"SELECT x FROM t WHERE x = {i}")
            found.append(await engine.subscribe([wanted], granularity=0))
            await found[-1].next()
        await engine.run(lambda db: db["t"].insert([(3,)]))  # the first after a definition looks at all of them
        await found[3].next()
        for name in ("cut", "dropped"):
            monkeypatch.setattr(Feed, name, _noting(getattr(Feed, name), looked))
        await engine.run(lambda db: db["t"].insert([(7,)]))
        (frame,) = (await found[7].next()).frames
        assert frame.chunk is not None and frame.chunk.rows == [(7,)]
        assert looked == list(found[7].feeds.values())
        monkeypatch.undo()

    with_engine(body)


class Idle:
    """A subscription that has nothing to hear."""

    def __init__(self) -> None:
        self.position = 0
        self.news = asyncio.Event()


def test_idle_subscribers_hear_of_the_time_but_not_all_at_once() -> None:
    async def body(engine: Engine) -> None:
        engine.feeds.time = 5
        idle = [Idle() for _ in range(100)]
        engine.feeds.subscriptions |= set(idle)  # type: ignore[arg-type]
        heard = []
        for _ in range(50):
            engine.feeds._beating.cancel()
            engine.feeds._beat()
            heard.append(sum(each.news.is_set() for each in idle))
        assert heard == list(range(2, 101, 2))
        engine.feeds.subscriptions.clear()

    with_engine(body)


def test_what_is_dropped_ends_and_the_rest_goes_on() -> None:
    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.sql(SCHEMA))
        subscription = await engine.subscribe([Wanted("total"), Wanted("n")], granularity=0)
        await subscription.next()
        await engine.run(lambda db: db["total"].drop())
        commit = await subscription.next()
        assert [(f.id, f.kind, f.error and f.error.code) for f in commit.frames] == [(1, "end", "E_DROPPED")]
        await engine.run(lambda db: db["t"].insert([(1, 1)]))
        commit = await subscription.next()
        assert [(f.id, f.chunk and f.chunk.signed()) for f in commit.frames] == [(2, [((0,), -1), ((1,), 1)])]

    with_engine(body)


def test_subscribing_to_what_is_not_there_leaves_nothing_behind() -> None:
    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.sql(SCHEMA))
        with pytest.raises(InputError):
            await engine.subscribe([Wanted("n"), Wanted("nothing")])
        assert engine.feeds.known == []

    with_engine(body)


def test_who_reads_does_not_wait_for_a_long_step() -> None:
    """A view's function holds a step up; meanwhile rows are read as they were, and a subscriber misses nothing."""
    began, held = threading.Event(), threading.Event()

    def slow(x: int) -> int:
        if x == 7:
            began.set()
            held.wait(LONG)
        return x

    async def body(engine: Engine) -> None:
        t = await engine.run(lambda db: db.table("t", {"x": int}))
        await engine.run(lambda db: db.view("v", t.map(slow, {"y": int})))
        await engine.run(lambda db: t.insert([(1,)]))
        assert await engine.read(lambda db: db["v"].rows()) == [(1,)]
        replica = Replica(await engine.subscribe([Wanted("v")], granularity=0))
        await replica.hear()
        step = asyncio.create_task(engine.run(lambda db: t.insert([(7,)])))
        await asyncio.to_thread(began.wait, LONG)
        assert await engine.read(lambda db: (db["v"].rows(), db["t"].count(), db.time)) == ([(1,)], 1, 1)
        assert not step.done()
        held.set()
        await step
        await replica.until(2)
        assert replica.of(1) == {(1,): 1, (7,): 1}

    with_engine(body)


def test_clients_that_begin_while_another_begins_do_not_wait_for_each_other_forever() -> None:
    """Who begins to follow a query may run a step, and holds the feeds meanwhile. Guests of that step are waited for,
    so they must not wait for the feeds."""
    began, held = threading.Event(), threading.Event()

    def slow(x: int) -> int:
        if x == 7:
            began.set()
            held.wait(LONG)
        return x

    def prepare(db: ev.Session) -> None:
        db.function("slow", slow, returns=int)
        db.sql("CREATE TABLE t (k int, x int); INSERT INTO t VALUES (1, 1), (2, 7); CREATE ROLE app LOGIN")
        db.sql("GRANT SELECT ON t TO app; GRANT EXECUTE ON FUNCTION slow TO app")
        db.sql("CREATE POLICY own ON t USING (k = current_setting('k')); ALTER TABLE t ENABLE ROW LEVEL SECURITY")

    def begin(engine: Engine, k: int, wanted: Wanted) -> asyncio.Task[Subscription]:
        with acting(Principal("app", {"k": k})):
            return asyncio.create_task(engine.subscribe([wanted], granularity=0))

    async def body(engine: Engine) -> None:
        await engine.run(prepare)
        query = Wanted(query="SELECT slow(x) AS y FROM t")
        first = await begin(engine, 1, query)
        second = begin(engine, 2, query)  # its value is a step of the shared dataflow
        await asyncio.to_thread(began.wait, LONG)
        others = [begin(engine, 2, Wanted("t")) for _ in range(3)]
        await asyncio.sleep(0.2)  # they come as guests of the step
        held.set()
        replicas = list(map(Replica, [first, *await asyncio.wait_for(asyncio.gather(second, *others), 20)]))
        await engine.run(lambda db: db["t"].insert([(1, 2), (2, 2)]))
        now = engine.session.time
        wanted = [{(1,): 1, (2,): 1}, {(7,): 1, (2,): 1}, *[{(2, 7): 1, (2, 2): 1}] * 3]
        for replica, rows in zip(replicas, wanted, strict=True):
            await replica.until(now)
            assert replica.of(1) == rows
            await replica.subscription.close()

    with_engine(body)


def test_the_loop_does_not_wait_for_who_holds_the_feeds() -> None:
    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.table("t", {"x": int}))
        replica = Replica(await engine.subscribe([Wanted("t")], granularity=0))
        for i in range(5):
            await engine.run(_add(i), kind="add")
        alone = engine.feeds.alone
        free, taken = threading.Event(), threading.Event()

        def hold() -> None:
            with engine.feeds._turn():
                taken.set()
                free.wait(LONG)

        holder = threading.Thread(target=hold)

        @contextmanager
        def then_taken() -> Iterator[bool]:
            """Somebody else takes the feeds right after the work is done."""
            with alone() as quiet:
                yield quiet
            if not holder.ident:
                holder.start()
                taken.wait(LONG)

        engine.feeds.alone = then_taken  # type: ignore[method-assign]
        began = time.monotonic()
        await engine.run(_add(5), kind="add")
        assert holder.ident and time.monotonic() - began < LONG / 2
        free.set()
        await asyncio.wait_for(replica.until(6), 4)  # before the heartbeat
        holder.join()
        await replica.subscription.close()

    with_engine(body)


def test_readers_beside_writers_never_see_or_cause_half_a_step() -> None:
    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.sql(SCHEMA))
        replica = Replica(await engine.subscribe([Wanted("total"), Wanted("n")], granularity=0))
        await replica.hear()

        async def write() -> None:
            for i in range(150):
                await engine.run(lambda db, i=i: db["t"].insert([(i % 3, i), (0, -i)]))  # type: ignore[misc]

        async def look() -> int:
            seen = 0
            for _ in range(150):
                rows = await engine.read(lambda db: db["t"].rows())
                assert len(rows) % 2 == 0, "a step brings two rows"
                seen += 1
            return seen

        async def hear() -> None:
            while replica.time < 150:
                await replica.hear()
                assert replica.of(2) == {(2 * replica.time,): 1}

        await asyncio.gather(write(), look(), look(), hear())
        assert replica.of(1) == await engine.run(lambda db: db["total"].counts())

    with_engine(body)


# short work


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be busy: what is short here takes longer there."""
    monkeypatch.setattr("everview.server.short_work.SHORT", 10.0)
    monkeypatch.setattr("everview.server.engine.AT_MOST", 1.0)


def _add(x: int) -> Callable[[ev.Session], int]:
    """A change of one row, which tells its thread."""

    def work(db: ev.Session) -> int:
        db["t"].insert([(x,)])
        return threading.get_ident()

    return work


@pytest.mark.usefixtures("patient")
def test_short_work_that_is_repeated_is_done_on_the_loop() -> None:
    async def body(engine: Engine) -> None:
        here = threading.get_ident()
        await engine.run(lambda db: db.table("t", {"x": int}))
        seen = [await engine.run(_add(i), kind="add") for i in range(200)]
        assert seen[0] != here, "nothing is known of it at first"
        assert seen.count(here) > 100
        assert all([await engine.run(_add(i)) != here for i in range(200, 210)]), "this is not said to be repeated"
        rows = await engine.run(lambda db: db["t"].changes(since=0))
        assert [(row[0], time) for row, time, _ in rows] == [(i, i + 1) for i in range(210)]
        assert engine.jobs == 212

    with_engine(body)


@pytest.mark.usefixtures("patient")
def test_short_work_waits_its_turn_behind_other_work() -> None:
    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.table("t", {"x": int}))
        for i in range(10):
            await engine.run(_add(i), kind="add")
        began, held = threading.Event(), threading.Event()
        long = asyncio.create_task(engine.run(blocking(began, held)))
        await asyncio.to_thread(began.wait)
        short = asyncio.create_task(engine.run(_add(10), kind="add"))
        await asyncio.sleep(0.05)
        assert not short.done()
        held.set()
        await long
        assert await short != threading.get_ident()

    with_engine(body)


@pytest.mark.usefixtures("patient")
def test_short_work_does_not_wait_for_another_threads_transaction() -> None:
    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.table("t", {"x": int}))
        for i in range(10):
            await engine.run(_add(i), kind="add")
        opened, held = threading.Event(), threading.Event()

        def other() -> None:
            with engine.session.transaction():
                opened.set()
                held.wait(LONG)

        thread = threading.Thread(target=other)
        thread.start()
        await asyncio.to_thread(opened.wait)
        waiting = asyncio.create_task(engine.run(_add(10), kind="add"))
        await asyncio.sleep(0.05)  # the loop goes on
        assert not waiting.done()
        held.set()
        await waiting
        thread.join()

    with_engine(body)


def test_work_that_is_long_this_time_is_undone_and_done_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it but its caller, and it is done once."""
    monkeypatch.setattr("everview.server.short_work.SHORT", 0.02)
    monkeypatch.setattr("everview.server.engine.AT_MOST", 0.01)

    async def body(engine: Engine) -> None:
        def tables(db: ev.Session) -> None:
            db.sql("CREATE TABLE t (x int); CREATE TABLE big (x int)")
            db["big"].insert({"x": range(3_000)})
            db.sql("CREATE VIEW v AS SELECT count(*) AS n FROM t, big AS a, big AS b WHERE t.x = 1 AND a.x < b.x")

        await engine.run(tables)
        seen = [await engine.run(_add(0), kind="add") for _ in range(50)]
        assert threading.get_ident() in seen
        longest, ended = 0.0, asyncio.Event()

        async def beat() -> None:
            nonlocal longest
            while not ended.is_set():
                before = time.thread_time()  # of the loop's thread: the machine may be busy
                await asyncio.sleep(0.001)
                longest = max(longest, time.thread_time() - before)

        beating = asyncio.create_task(beat())
        took = time.process_time()
        assert await engine.run(_add(1), kind="add") != threading.get_ident()
        took = time.process_time() - took
        ended.set()
        await beating
        assert longest < took / 2
        assert await engine.run(_add(0), kind="add") != threading.get_ident(), "it is known to be long"
        counts = await engine.run(lambda db: (len(db["t"].rows()), db["v"].rows()))
        assert counts == (52, [(3_000 * 2_999 // 2,)])

    with_engine(body)


def test_a_change_given_up_on_the_loop_is_not_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client is told that it was done, so that is what the log says, too."""
    monkeypatch.setattr("everview.server.short_work.SHORT", 0.02)
    monkeypatch.setattr("everview.server.engine.AT_MOST", 0.01)

    async def body(engine: Engine) -> None:
        def tables(db: ev.Session) -> None:
            db.sql("CREATE TABLE t (x int); CREATE TABLE big (x int)")
            db["big"].insert({"x": range(3_000)})
            db.sql("CREATE VIEW v AS SELECT count(*) AS n FROM t, big AS a, big AS b WHERE t.x = 1 AND a.x < b.x")

        await engine.run(tables)
        given_up = 0
        taken_here = engine._done_here

        def counted(job: Any) -> bool:
            nonlocal given_up
            found = taken_here(job)
            given_up += not found
            return found

        engine._done_here = counted  # type: ignore[method-assign]
        await engine.run(lambda db: db.system.log())
        for x in [*[0] * 20, 1]:
            await engine.run(lambda db, x=x: db.sql(f"INSERT INTO t VALUES ({x})"), kind="add")  # type: ignore[misc]
        assert given_up, "all was done at once: the test tries nothing"
        said = await engine.run(lambda db: [(r[4], r[5]) for r in db.sql("SELECT * FROM ev.statements").rows()])
        errors = await engine.run(lambda db: db.sql("SELECT error FROM ev.steps WHERE error <> ''").rows())
        assert len(said) == 21 and not any(error for _, error in said) and not errors

    with_engine(body)


@pytest.mark.usefixtures("patient")
def test_subscribers_hear_of_short_work() -> None:
    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.table("t", {"x": int}))
        replica = Replica(await engine.subscribe([Wanted("t")], granularity=0))
        seen = [await engine.run(_add(i), kind="add") for i in range(100)]
        assert threading.get_ident() in seen
        await replica.until(100)
        assert replica.of(1) == {(i,): 1 for i in range(100)}
        await engine.run(_add(100), kind="add")  # after a pause, too
        await asyncio.wait_for(replica.until(101), 4)  # before the heartbeat
        await replica.subscription.close()

    with_engine(body)


def test_a_function_that_sleeps_does_not_hold_up_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everview.server.short_work.SHORT", 0.5)

    def slow(x: int) -> list[int]:
        if x == 1:
            time.sleep(1.0)
        return [x]

    async def body(engine: Engine) -> None:
        await engine.run(lambda db: db.view("v", db.table("t", {"x": int}).flat_map(slow, {"y": int})))
        seen = [await engine.run(_add(0), kind="add") for _ in range(50)]
        assert threading.get_ident() in seen
        changing = asyncio.create_task(engine.run(_add(1), kind="add"))
        await asyncio.sleep(0)  # it is tried here, and given up
        beats, end = 0, time.monotonic() + LONG
        while not changing.done() and time.monotonic() < end:
            beats += 1
            await asyncio.sleep(0.01)
        assert await changing != threading.get_ident()
        assert beats > 5
        assert len(await engine.run(lambda db: db["v"].rows())) == 51

    with_engine(body)
