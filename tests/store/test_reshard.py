"""A store split anew has the same rows, each where its hash says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import everview as ev
from everview.dataflow.partitioning import HASH_BY_FIRST, SINGLE_SHARD, HyperCube
from everview.kernels.run import exchange
from everview.store import Image, Store
from everview.store.reshard import reshard

WEDGE = HyperCube(((0, 1), (1, 2), (0, 2)), (1, 2))


def rows_of(image: Image) -> Counter[tuple[int, ...]]:
    words = np.concatenate([image.columns(), image.times()[None], image.weights()])
    return Counter(map(tuple, words.T.tolist()))


def contents(store: Store, operator: int) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for (number, _), refs in store.manifest.lists.items():
        if number == operator:
            for ref in refs:
                found += rows_of(store.get(ref))
    return found


def filled(path: Path, shards: int) -> Store:
    """A store with a keyed operator (0), one that is all on one shard (1), one without columns (2) and one in cells
    (3).
    """
    store = Store(path, shards=shards)
    rng = np.random.default_rng(3)
    adds = []
    for batch in range(4):
        columns = np.sort(rng.integers(-(2**60), 2**60, (2, 700)), axis=1)
        owner = np.empty(700, dtype=np.int64)
        exchange.shard_of(np.ascontiguousarray(columns[0]), shards, owner)
        whole = Image.of(columns, rng.integers(0, 9, 700) if batch % 2 else batch, rng.integers(-2, 3, (3, 700)))
        adds += [(0, s, store.put(whole.take(np.flatnonzero(owner == s)))) for s in range(shards)]
        adds.append((1, 0, store.put(whole)))
        adds += [(3, s, store.put(whole.take(places))) for s, places in WEDGE.parts(columns, shards)]
    adds.append((2, 0, store.put(Image.of(np.zeros((0, 1), dtype=np.int64), 4, np.array([[7]])))))
    store.commit(9, adds=adds, marks={"a": "b"})
    return store


@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2), (1, 3), (3, 1), (4, 4)])
def test_all_rows_are_where_they_belong(tmp_path: Path, before: int, after: int) -> None:
    with filled(tmp_path, before) as store:
        expected = [contents(store, operator) for operator in range(3)]
        cells = expected[1]  # the same rows, in copies
        reshard(store, after, {0: HASH_BY_FIRST, 1: SINGLE_SHARD, 2: SINGLE_SHARD, 3: WEDGE})
    with Store(tmp_path) as store:
        m = store.manifest
        assert (m.shards, m.time, m.marks) == (after, 9, {"a": "b"})
        assert [contents(store, operator) for operator in range(3)] == expected
        for (operator, shard), refs in m.lists.items():
            assert shard == 0 or (operator in (0, 3) and shard < after)
            for ref in refs:
                image = store.get(ref)
                if operator == 0:
                    owner = np.empty(image.rows, dtype=np.int64)
                    exchange.shard_of(image.columns()[0].copy(), after, owner)
                    assert set(owner.tolist()) == {shard}
                    assert (np.diff(image.columns()[0]) >= 0).all()
        copies = [(s, store.get(ref)) for (operator, s), refs in m.lists.items() if operator == 3 for ref in refs]
        own = (rows_of(image.take(WEDGE.once(image.columns(), after, shard))) for shard, image in copies)
        assert sum(own, Counter()) == cells
        for shard, image in copies:
            assert image.rows in [len(p) for s, p in WEDGE.parts(image.columns(), after) if s == shard]
        store.collect()
        assert set(store.files.list("batches")) == {r.file for r in m.refs() if r.file}


def test_what_has_no_shards_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path) as store, pytest.raises(ev.InputError, match="E_SHARDS"):
        reshard(store, 4, {})
    with Store(tmp_path / "b", shards=2) as store, pytest.raises(ev.InputError, match="E_SHARDS"):
        reshard(store, 0, {})
