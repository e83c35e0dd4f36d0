"""Finds operators of two different dataflows that hold the same rows.

A dataflow and its sharded counterpart are built from the same history by the same builder, but not always identically:
a global index must have all rows on one shard, and a join of many inputs reads copies of rows. Most operators have a
counterpart all the same and can take over its state; only the others must be computed.

Operators are compared by *piece* (`Builder.pieces`): what was created when the same plan was requested by the same
keys. A piece matches if it has operators of the same identities (`everview.dataflow.identity`) in the same order, and
each reads the counterparts of what the other reads. An operator with a counterpart therefore depends only on operators
that have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from everview.dataflow.builder import Piece
from everview.dataflow.identity import identity
from everview.dataflow.operators import Operator


class OperatorMatching:
    """Maps operators of a dataflow under construction to those of an existing one."""

    def __init__(self, pieces: Mapping[Piece, Sequence[Operator]], *, strict: bool = False) -> None:
        """`strict`: a piece with dropped operators has no counterpart."""
        self._pieces = pieces
        self._strict = strict
        self.of: dict[Operator, Operator] = {}

    def find(self, piece: Piece, made: Sequence[Operator]) -> bool:
        """Whether all operators of a piece have counterparts; it is all or none."""
        others = self._pieces.get(piece, ())
        if len(others) != len(made) or (self._strict and any(o.freed for o in others)):
            return False
        tried = self.of | dict(zip(made, others, strict=True))
        for operator, other in zip(made, others, strict=True):
            if identity(operator) != identity(other) or [tried.get(i) for i in operator.inputs] != other.inputs:
                return False
        self.of = tried
        return True
