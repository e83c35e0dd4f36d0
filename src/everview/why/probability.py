"""Probabilities as results: exact, or by their bounds. Clients of a server have them without the engine."""

from __future__ import annotations

from dataclasses import dataclass

from everview.errors import InputError


@dataclass(frozen=True)
class Probability:
    """The probability of a row: exact, or between two bounds.

    >>> p = Probability(0.25, 0.25)
    >>> p.exact, float(p), str(p)
    (True, 0.25, '0.25')
    >>> p = Probability(0.25, 0.5)
    >>> p.exact, str(p)
    (False, 'between 0.25 and 0.5')
    """

    lower: float
    upper: float

    @property
    def exact(self) -> bool:
        """Whether this is the probability itself; else it lies between `lower` and `upper`."""
        return self.lower == self.upper

    def __float__(self) -> float:
        if not self.exact:
            raise InputError(
                "E_BOUNDS",
                f"the probability is only known to be {self}",
                "take .lower or .upper, or give more nodes=",
            )
        return self.lower

    def __str__(self) -> str:
        if self.exact:
            return f"{self.lower:.6g}"
        return f"between {self.lower:.6g} and {self.upper:.6g}"
