"""Nexmark's events: people come, open auctions and bid. The same for the same seed.

Of every 50 events one is a person, three are auctions and 46 are bids. Half of the bids go to a hot auction (the last
hundredth one), the others to one of the last hundred; half come from a hot bidder. Prices are spread over six powers of
ten. Every event is a constant time after the one before; `arrived` is when the system is told, up to two seconds later.
Unlike Nexmark's own generator it makes columns, and no padding: `extra` is a short text.

>>> made = tables(1000)
>>> {name: table.num_rows for name, table in made.items()}
{'person': 20, 'auction': 60, 'bid': 920, 'side_input': 100}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

START = np.datetime64("2015-07-15T00:00:00", "us")
PEOPLE, AUCTIONS, ALL = 1, 3, 50
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CATEGORIES = 5
SIDE_ROWS = 100

Data = dict[str, pa.Table]
Ints = NDArray[np.int64]


def tables(count: int, seed: int = 1, per_second: int = 1000) -> Data:
    """The tables after so many events, in the order of their events."""
    chance = np.random.default_rng(seed)
    number = np.arange(count)
    group, place = number // ALL, number % ALL
    moment = START + (number * (1_000_000 // per_second)).astype("timedelta64[us]")
    people, auctions, bids = place < PEOPLE, (place >= PEOPLE) & (place < PEOPLE + AUCTIONS), place >= PEOPLE + AUCTIONS
    return {
        "person": _people(group[people], moment[people], chance),
        "auction": _auctions(
            group[auctions] * AUCTIONS + place[auctions] - PEOPLE, group[auctions], moment[auctions], chance
        ),
        "bid": _bids(group[bids], moment[bids], chance),
        "side_input": pa.table({"key": np.arange(SIDE_ROWS), "value": [f"side {i}" for i in range(SIDE_ROWS)]}),
    }


def parts(data: Data, events: int) -> Iterator[Data]:
    """The streams cut into transactions of so many events."""
    first = {name: data[name]["date_time"].to_numpy() for name in ("person", "auction", "bid")}
    moments = np.sort(np.concatenate(list(first.values())))
    edges = [*moments[::events], moments[-1] + np.timedelta64(1, "us")]
    for low, high in pairwise(edges):
        places = {name: np.searchsorted(times, (low, high)) for name, times in first.items()}
        yield {name: data[name].slice(a, b - a) for name, (a, b) in places.items()}


def _people(ids: Ints, moment: NDArray[np.datetime64], chance: np.random.Generator) -> pa.Table:
    n = len(ids)
    first, last = _picked(FIRST_NAMES, n, chance), _picked(LAST_NAMES, n, chance)
    names = [f"{a} {b}" for a, b in zip(first, last, strict=True)]
    return pa.table(
        {
            "id": ids,
            "name": names,
            "email": [f"{name.lower().replace(' ', '.')}@example.org" for name in names],
            "card": [f"{card:016d}" for card in chance.integers(0, 10**16, n)],
            "city": _picked(CITIES, n, chance),
            "state": _picked(STATES, n, chance),
            "date_time": moment,
            "extra": _extra(n, chance),
        }
    )


def _auctions(ids: Ints, known: Ints, moment: NDArray[np.datetime64], chance: np.random.Generator) -> pa.Table:
    n = len(ids)
    initial = _prices(n, chance)
    length = chance.integers(1_000_000, 20_000_000, n).astype("timedelta64[us]")
    return pa.table(
        {
            "id": ids,
            "item_name": [f"item {i % 997}" for i in ids],
            "description": [f"about item {i % 89}" for i in ids],
            "initial_bid": initial,
            "reserve": initial + _prices(n, chance),
            "date_time": moment,
            "expires": moment + length,
            "seller": _recent(known, 50, 10, chance),
            "category": 10 + chance.integers(0, CATEGORIES, n),
            "extra": _extra(n, chance),
        }
    )


def _bids(group: Ints, moment: NDArray[np.datetime64], chance: np.random.Generator) -> pa.Table:
    n = len(group)
    channel = chance.integers(0, 200, n)
    named = [CHANNELS[c] if c < len(CHANNELS) else f"channel-{c}" for c in (channel % 8 * (channel % 2 + 1)).tolist()]
    address = [
        f"https://www.example.org/{c % 7}/{c % 11}/{c % 13}/item.htm?query=1" + (f"&channel_id={c}" if c % 3 else "")
        for c in channel.tolist()
    ]
    return pa.table(
        {
            "auction": _recent(group * AUCTIONS + AUCTIONS - 1, 100, 100, chance),
            "bidder": _recent(group, 1000, 100, chance),
            "price": _prices(n, chance),
            "channel": named,
            "url": address,
            "date_time": moment,
            "arrived": moment + chance.integers(0, 2_000_000, n).astype("timedelta64[us]"),
            "extra": _extra(n, chance),
        }
    )


def _recent(last: Ints, many: int, every: int, chance: np.random.Generator) -> Ints:
    """Half hot ones (the last that `every` divides), half any of the last `many`."""
    n = len(last)
    some = last - chance.integers(0, np.minimum(last + 1, many), n)
    return np.where(chance.random(n) < 0.5, last // every * every, some)


def _prices(n: int, chance: np.random.Generator) -> Ints:
    return (10 ** (chance.random(n) * 6) * 100).astype(np.int64)


def _extra(n: int, chance: np.random.Generator) -> list[str]:
    letters = np.array(list("abcde"))[chance.integers(0, 5, (n, 8))]
    return ["".join(row) for row in letters]


def _picked(words: Sequence[str], n: int, chance: np.random.Generator) -> list[str]:
    return [words[i] for i in chance.integers(0, len(words), n)]
