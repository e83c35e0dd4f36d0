"""State on an object store, here one in memory: names that only one writer gets, a log of objects, takeovers.

The same on real servers is test_servers.py.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from obstore.store import MemoryStore
from pyarrow import fs

import everview as ev
from everview import col
from everview.dataflow.dataflow import Dataflow
from everview.recovery import directory as durable
from everview.recovery.opening import open_directory, open_to_write
from everview.recovery.rebuild import Loaded
from everview.store import Store, owner, repair, wal_objects
from everview.store.files import RemoteFiles
from everview.store.objects import ObjectFiles
from tests.inside import inside


@pytest.fixture
def files() -> ObjectFiles:
    return ObjectFiles("memory://", MemoryStore())


def program(db: ev.Session) -> tuple[ev.Table, ev.View]:
    sale = db.table("sale", {"shop": str, "amount": int})
    return sale, db.view("total", sale.group_by("shop").agg(amount=col.amount.sum()))


def opened(files: ObjectFiles) -> tuple[ev.Session, ev.Table, ev.View]:
    db = open_to_write(files)  # type: ignore[arg-type]
    return db, *program(db)


def test_a_name_is_given_to_one_of_many(files: ObjectFiles) -> None:
    with ThreadPoolExecutor(16) as pool:
        for name in "abc":
            won = list(pool.map(lambda i, name=name: files.create(name, b"writer %d" % i), range(16)))
            assert won.count(True) == 1 and files.read(name) == b"writer %d" % won.index(True)


def test_a_put_whose_answer_was_lost_is_recognised_as_ones_own(files: ObjectFiles) -> None:
    assert files.create("a", b"mine") and files.create("a", b"mine") and not files.create("a", b"another's")
    tag = files.swap("b", b"one", None)
    assert tag is not None and files.swap("b", b"one", None) == tag
    assert files.swap("b", b"two", "no such tag") is None and files.swap("b", b"two", None) is None
    assert files.swap("b", b"two", tag) is not None and files.read("b") == b"two"
    assert files.swap("gone", b"two", tag) is None and not files.exists("gone")


def test_transactions_are_there_again(files: ObjectFiles) -> None:
    for round in range(1, 4):
        db, sale, total = opened(files)
        assert total.rows() == ([("north", 3 * (round - 1))] if round > 1 else [])
        for amount in (0, 1, 2):
            sale.insert([("north", amount)])
        assert inside(db).runtime.backing._wal.size > 3 * wal_objects.COST
        if round == 3:
            db.checkpoint()
            assert not [
                n
                for n in files.list("wal")
                if not n.startswith(f"{inside(db).runtime.backing.store.manifest.version:020d}")
            ]
        inside(db).abandon()  # without folding the log into a version, as a death would
    db, _, total = opened(files)
    assert total.rows() == [("north", 9)] and db.time == 9
    assert len(total.changes(since=0)) == 1 + 2 * 6  # the first row, then a sum for another; two zeros change nothing
    db.close()


def test_a_step_that_fails_leaves_no_record(files: ObjectFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    db, sale, total = opened(files)
    sale.insert([("north", 1)])
    before = list(wal_objects.read(files, 0))
    with monkeypatch.context() as patch:
        patch.setattr(Dataflow, "run", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            sale.insert([("north", 10)])
    assert list(wal_objects.read(files, 0)) == before
    sale.insert([("north", 5)])
    inside(db).abandon()
    db, _, total = opened(files)
    assert total.rows() == [("north", 6)]
    db.close()


def test_the_second_writer_is_refused_and_one_that_slept_is_fenced(
    files: ObjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, sale, _ = opened(files)
    sale.insert([("north", 1)])
    with pytest.raises(ev.StoreError, match="E_LOCKED"):
        Store(files)
    monkeypatch.setattr(owner, "STALE", -60.0)  # the first is silent for so long that it counts as gone
    second, sale_2, _ = opened(files)
    with pytest.raises(ev.StoreError, match="E_FENCED"):
        sale.insert([("north", 10)])  # its record is in a log that the second has read already
    assert first.time == 1
    second.checkpoint()
    with pytest.raises(ev.StoreError, match="E_FENCED"):
        first.checkpoint()
    with pytest.raises(ev.StoreError, match="E_FENCED"):
        sale.insert([("north", 100)])  # its name is free, because the log was folded: nobody would read it
    assert (
        inside(first).runtime.backing.store.owner is not None and inside(second).runtime.backing.store.owner is not None
    )
    inside(first).runtime.backing.store.owner._beat()  # it does not take the directory back
    assert inside(second).runtime.backing.store.owner.holds() and not inside(first).runtime.backing.store.owner.holds()
    sale_2.insert([("south", 7)])
    inside(first).abandon()
    second.close()
    with Store(files, read_only=True):  # and its end did not take the second's claim away
        db, _, total = opened(files)
        assert ("south", 7) in total.rows() and sorted(total.rows())[0][0] == "north"
        db.close()


def taken_over(files: ObjectFiles, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A second writer, of a directory whose first one is silent for so long that it counts as gone."""
    monkeypatch.setattr(owner, "STALE", -60.0)
    return opened(files)


def test_a_writer_that_slept_before_its_commit_does_not_overwrite_what_another_did(
    files: ObjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, sale, _ = opened(files)
    sale.insert([("north", 1)])
    second: list[Any] = []
    commit = inside(first).runtime.backing.store.commit

    def late(*args: Any, **more: Any) -> int:
        second.extend(taken_over(files, monkeypatch))
        second[1].insert([("south", 7)])
        return commit(*args, **more)

    monkeypatch.setattr(inside(first).runtime.backing.store, "commit", late)
    with pytest.raises(ev.StoreError, match="E_FENCED"):
        first.checkpoint()
    inside(first).abandon()
    inside(second[0]).abandon()
    db, _, total = opened(files)
    assert sorted(total.rows()) == [("north", 1), ("south", 7)]
    db.close()


def test_a_writer_that_slept_in_a_step_does_not_take_back_what_another_has_read(
    files: ObjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, sale, _ = opened(files)
    sale.insert([("north", 1)])
    second: list[Any] = []
    run = Dataflow.run

    def late(self: Any, *step: Any) -> None:
        if self is inside(first).runtime.dataflow:
            second.extend(taken_over(files, monkeypatch))
            second[1].insert([("south", 7)])
            raise KeyboardInterrupt
        run(self, *step)

    monkeypatch.setattr(Dataflow, "run", late)
    with pytest.raises((KeyboardInterrupt, ev.StoreError)):
        sale.insert([("north", 10)])
    inside(first).abandon()
    assert sorted(second[2].rows()) == [("north", 11), ("south", 7)]  # it was in the log, never acknowledged
    second[1].insert([("south", 1)])
    inside(second[0]).abandon()
    db, _, total = opened(files)
    assert sorted(total.rows()) == [("north", 11), ("south", 8)]
    db.close()


def test_removing_the_owners_object_ends_the_first_writers_right(files: ObjectFiles) -> None:
    first, sale, _ = opened(files)
    sale.insert([("north", 1)])
    files.delete("owner")
    second, sale_2, _ = opened(files)
    with pytest.raises(ev.StoreError, match="E_FENCED"):
        sale.insert([("north", 10)])
    sale_2.insert([("south", 7)])
    with pytest.raises(ev.StoreError, match="E_FENCED"):
        first.checkpoint()
    inside(first).abandon()
    inside(second).abandon()
    db, _, total = opened(files)
    assert sorted(total.rows()) == [("north", 1), ("south", 7)]
    db.close()


def test_the_last_records_of_a_closed_log_are_missed(files: ObjectFiles) -> None:
    db, sale, _ = opened(files)
    for i in range(3):
        sale.insert([("north", i)])
    inside(db).runtime.backing._wal.sync()
    inside(db).abandon()
    names = files.list("wal")
    files.delete(f"wal/{names[-1]}")
    with pytest.raises(ev.StoreError, match=r"E_DAMAGED.*is missing"):
        opened(files)


def test_a_reader_follows_and_is_told_of_the_last_transaction_at_once(files: ObjectFiles) -> None:
    db, sale, _ = opened(files)
    sale.insert([("north", 1)])
    reader = open_directory(files, read_only=True)  # type: ignore[arg-type]
    assert reader.time == 1
    sale.insert([("north", 2)])
    assert reader.refresh() == 2 and reader["total"].rows() == [("north", 3)]
    db.checkpoint()
    sale.insert([("south", 2)])
    db.close()
    assert reader.refresh() == 3 and sorted(reader["total"].rows()) == [("north", 3), ("south", 2)]
    reader.close()


def test_a_record_that_is_gone_is_noticed(files: ObjectFiles) -> None:
    db, sale, _ = opened(files)
    for i in range(3):
        sale.insert([("north", i)])
    names = [f"wal/{n}" for n in files.list("wal")]
    inside(db).abandon()
    data = files.read(names[2])
    files.delete(names[2])
    with pytest.raises(ev.StoreError, match=r"E_DAMAGED.*is missing"):
        opened(files)
    files.write(names[2], data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ev.StoreError, match=r"E_DAMAGED.*is not what was written"):
        opened(files)
    files.write(names[2], data)
    db, _, total = opened(files)
    assert total.rows() == [("north", 3)]
    db.close()


def killed(db: ev.Session) -> None:
    """Leave everything as it is: the owner's note is the last sign of life."""
    kept = inside(db).runtime.backing.store.owner
    kept._stop.set()
    kept._tag = None  # it does not take the note away
    inside(db).abandon()


class Deadly:
    """Replaying a record that says 13 ends the process, once it is armed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.armed = True
        replay = Loaded.replay

        def dies(loaded: Any, payload: bytes) -> None:
            if self.armed and (13).to_bytes(8, "little") in payload:
                raise SystemExit
            replay(loaded, payload)

        monkeypatch.setattr(Loaded, "replay", dies)
        monkeypatch.setattr(owner, "STALE", -60.0)


def test_a_transaction_that_ends_the_process_is_set_aside_after_one_attempt(
    files: ObjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly = Deadly(monkeypatch)
    db, sale, _ = opened(files)
    sale.insert([("north", 1)])
    inside(db).runtime.backing._wal.done = lambda: None  # it dies before it can say so
    sale.insert([("north", 13)])
    killed(db)
    with pytest.raises(SystemExit):
        opened(files)
    with pytest.warns(UserWarning, match="never acknowledged; it is set aside"):
        db, sale, total = opened(files)
    assert total.rows() == [("north", 1)]
    [kept] = files.list("aside")
    assert (13).to_bytes(8, "little") in files.read(f"aside/{kept}")
    sale.insert([("north", 2)])
    killed(db)
    deadly.armed = False
    db, _, total = opened(files)
    assert total.rows() == [("north", 3)] and files.list("aside") == [kept]
    db.close()


def test_what_was_acknowledged_is_never_set_aside(files: ObjectFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often an opening dies while it runs it, and whatever the openings before have left of the note."""
    deadly = Deadly(monkeypatch)
    db, sale, _ = opened(files)
    sale.insert([("north", 13)])
    killed(db)
    for _ in range(5):
        with pytest.raises(SystemExit):
            opened(files)
    deadly.armed = False
    db, _, total = opened(files)
    assert total.rows() == [("north", 13)] and not files.list("aside")
    db.close()


@pytest.mark.parametrize("note", ["gone", "old"])
def test_without_the_note_nobody_knows_what_was_acknowledged(
    files: ObjectFiles, monkeypatch: pytest.MonkeyPatch, note: str
) -> None:
    deadly = Deadly(monkeypatch)
    db, sale, _ = opened(files)
    sale.insert([("north", 1)])
    said = json.loads(files.read("owner"))
    sale.insert([("north", 13)])
    killed(db)
    if note == "gone":
        files.delete("owner")
    else:  # of an Everview whose notes were up to five seconds late
        del said["prompt"]
        files.write("owner", json.dumps(said).encode())
    for _ in range(3):
        with pytest.raises(SystemExit):
            opened(files)
    with pytest.raises(ev.StoreError, match=r"E_STUCK.*ended 3 times"):
        opened(files)
    assert repair.examine(files).stuck and not files.list("aside")
    with pytest.warns(UserWarning, match="set aside"):
        assert repair.set_aside(files) == f"aside/{files.list('aside')[0]}"
    db, sale, total = opened(files)
    assert total.rows() == [("north", 1)]
    deadly.armed = False
    db.close()


def test_the_last_record_of_a_killed_writer_is_missed(files: ObjectFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "STALE", -60.0)
    db, sale, _ = opened(files)
    sale.insert([("north", 1)])
    sale.insert([("north", 2)])
    killed(db)
    files.delete(f"wal/{files.list('wal')[-1]}")
    for _ in range(2):  # the first opening does not take what it knows with it
        with pytest.raises(ev.StoreError, match=r"E_DAMAGED.*is missing"):
            opened(files)


def test_an_opening_that_is_refused_is_no_attempt(files: ObjectFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that was not given, say: the record was not run, and did not end anything."""
    Deadly(monkeypatch).armed = False
    db, sale, _ = opened(files)
    sale.insert([("north", 1)])
    inside(db).runtime.backing._wal.done = lambda: None
    sale.insert([("north", 2)])
    killed(db)
    replay = Loaded.replay

    def refused(loaded: Any, payload: bytes) -> None:
        raise ev.StoreError("E_TRUST", "a function is missing", "give it")

    monkeypatch.setattr(Loaded, "replay", refused)
    for _ in range(2):
        with pytest.raises(ev.StoreError, match="E_TRUST"):
            opened(files)
    monkeypatch.setattr(Loaded, "replay", replay)
    db, _, total = opened(files)
    assert total.rows() == [("north", 3)] and not files.list("aside")
    db.close()


def test_long_logs_become_versions(files: ObjectFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LOG_BYTES", 5 * wal_objects.COST)
    db, sale, _ = opened(files)
    for i in range(30):
        sale.insert([("north", i)])
    assert inside(db).runtime.backing.store.manifest.version > 2 and len(files.list("wal")) <= 7
    db.close()


def test_stores_that_cannot_claim_a_name_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    with pytest.raises(ev.InputError, match=r"E_TARGET.*cannot claim a name"):
        RemoteFiles(fs.S3FileSystem(anonymous=True, region="us-east-1"), "bucket/state")
    generic = RemoteFiles(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "")
    with pytest.raises(ev.StoreError, match=r"E_TARGET.*cannot claim a name"):
        open_to_write(generic)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ev.InputError, match=r"E_TARGET.*obstore"):
        ev.connect("s3://bucket/state")
