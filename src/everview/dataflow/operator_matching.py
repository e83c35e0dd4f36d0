"""Counterparts: operators of two dataflows that hold the same rows, though the dataflows are not the same.

One dataflow and one that is cut into shards are built from the same history by the same builder, but not always in
the same way: an index must have all rows on one shard, a join of many inputs reads copies of rows. Most operators have
a counterpart all the same, and can take over its state; only the others have to be computed.

Operators are compared *piece* by piece (`Builder.pieces`): what was made when the same plan was asked for by the same
keys. A piece corresponds if it has operators of the same identities (`everview.dataflow.identity`) in the same order
and each reads the counterparts of what the other reads. So nothing that has a counterpart depends on anything that has
none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from everview.dataflow.builder import Piece
from everview.dataflow.identity import identity
from everview.dataflow.operators import Operator


class OperatorMatching:
    """For operators of a dataflow under construction, those of one that exists."""

    def __init__(self, pieces: Mapping[Piece, Sequence[Operator]], *, strict: bool = False) -> None:
        """`strict`: a piece of which some operators were dropped has no counterpart."""
        self._pieces = pieces
        self._strict = strict
        self.of: dict[Operator, Operator] = {}

    def find(self, piece: Piece, made: Sequence[Operator]) -> bool:
        """Whether the operators made for a piece have counterparts: all of them, or none."""
        others = self._pieces.get(piece, ())
        if len(others) != len(made) or (self._strict and any(o.freed for o in others)):
            return False
        tried = self.of | dict(zip(made, others, strict=True))
        for operator, other in zip(made, others, strict=True):
            if identity(operator) != identity(other) or [tried.get(i) for i in operator.inputs] != other.inputs:
                return False
        self.of = tried
        return True
