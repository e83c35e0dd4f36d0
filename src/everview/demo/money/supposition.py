"""What if a payment had never been made? Asked of the views, which answer without anything having happened.

`db.what_if` runs the step that the deletion would be, and undoes it. Plain Python does the same with a copy of its
books, and both must lose the same accounts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from everview.demo.money.data import Payment
from everview.demo.money.program import Program
from everview.demo.money.recompute import Books, recompute


@dataclass(frozen=True)
class Supposition:
    """A payment that might not have been made, and what would be different."""

    payment: Payment
    lost: int
    """Accounts that would no longer reach a sanctioned one"""
    seconds: float
    equal: bool
    """Whether plain Python says the same"""


def last_link(books: Books) -> Payment | None:
    """The largest payment to a sanctioned account, which most ways are likely to end with."""
    paid = [payment for payment in books.recent() if payment.payee in books.listed]
    return max(paid, key=lambda payment: (payment.amount, payment.id), default=None)


def suppose(program: Program, books: Books) -> Supposition | None:
    """What if the last link were missing? None if there is none."""
    payment = last_link(books)
    if payment is None:
        return None
    began = time.perf_counter()
    changes = program.db.what_if(delete={"transfer": [tuple(payment)]}).changes("reaches")
    seconds = time.perf_counter() - began
    stays = {account for (account, _), diff in changes if diff > 0}
    lost = {account for (account, _), diff in changes if diff < 0} - stays
    return Supposition(payment, len(lost), seconds, lost == _lost(books, payment))


def _lost(books: Books, payment: Payment) -> set[str]:
    """The same by plain Python, whose books are put back afterwards."""
    before = recompute(books).reaches
    del books.payments[payment.id]
    after = recompute(books).reaches
    books.payments[payment.id] = payment
    return before.keys() - after.keys()
