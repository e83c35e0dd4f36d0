"""The crowd: families who share a card, pay each other and the shops, and now and then somebody else.

Made up, and the same for the same seed; `names.txt` has given names, surnames and shops. What keeps its rings small is
that payments between families are rare: with less than one such link per family and month, the graph of families falls
into small trees instead of one large piece.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

Paid = tuple[dt.datetime, str, str, str, int]
"""When, who, whom, with what, how much."""

BETWEEN_FAMILIES, WITHIN = 0.01, 0.27
"""Parts of all payments; the rest goes to shops."""
ANTIQUES = 0.0001
"""Payments to the shop of the story: even a front has customers."""
FRONT = "Moonlight Antiques"


@cache
def names() -> tuple[list[str], list[str], list[str]]:
    """Given names, surnames, and shops."""
    text = files(__package__).joinpath("names.txt").read_text(encoding="utf-8")
    given, surnames, shops = ([n.strip() for n in part.replace("\n", " ").split(",")] for part in text.split("\n\n"))
    return given, surnames, shops


def shops() -> list[str]:
    """Where people buy."""
    return names()[2]


def payments(
    people: int, first: dt.datetime, start: dt.datetime, number: int, last: dt.datetime, seed: int = 7
) -> Iterator[Paid]:
    """So many payments from first to start, and then as many per hour until last; in order of time."""
    dice = random.Random(seed)
    homes = list(families(people, dice))
    seconds, total = (start - first).total_seconds(), (last - first).total_seconds()
    moments = sorted(dice.random() * total for _ in range(round(number * total / seconds)))
    markets = shops()
    for moment in moments:
        yield (first + dt.timedelta(minutes=moment // 60), *_payment(dice, homes, markets))


def _payment(dice: random.Random, homes: list[list[str]], markets: list[str]) -> tuple[str, str, str, int]:
    home = dice.choice(homes)
    who, luck = dice.choice(home), dice.random()
    if luck < BETWEEN_FAMILIES and (other := dice.choice(dice.choice(homes))) not in home:
        return who, other, f"{who}'s phone", dice.randrange(20, 900, 5)
    if luck < BETWEEN_FAMILIES + WITHIN and len(home) > 1:
        other = dice.choice([person for person in home if person != who])
        return who, other, f"{who}'s phone", dice.randrange(10, 400, 5)
    if luck > 1 - ANTIQUES:
        return who, FRONT, f"{who}'s phone", dice.randrange(40, 300, 10)
    device = f"{home[0]}'s card" if dice.random() < 0.5 else f"{who}'s phone"
    return who, dice.choice(markets), device, dice.randrange(3, 120)


def families(people: int, dice: random.Random) -> Iterator[list[str]]:
    """Full names in families of one to five: a surname's given names are used up one after the other."""
    given, surnames, _ = names()
    left = {surname: dice.sample(given, len(given)) for surname in surnames}
    while people:
        surname = dice.choice([s for s in surnames if left[s]])
        size = min(dice.choice((1, 2, 2, 3, 4, 5)), len(left[surname]), people)
        yield [f"{left[surname].pop()} {surname}" for _ in range(size)]
        people -= size
