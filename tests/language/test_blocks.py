"""Blocks (`with db.transaction()`, `batch`, `limits`) that end without having begun."""

from __future__ import annotations

import pytest

import everview as ev


@pytest.mark.parametrize("kind", ["transaction", "batch", "limits"])
def test_a_block_that_never_began_cannot_end(kind: str) -> None:
    with ev.connect() as db:
        t = db.table("t", {"x": int})
        given = {"seconds": 5} if kind == "limits" else {}
        block = getattr(db, kind)(**given)
        with pytest.raises(ev.InputError, match=f"there is no {kind} to end") as caught:
            block.__exit__(None, None, None)
        assert caught.value.code == "E_TRANSACTION"
        with block:
            t.insert([(1,)])
        with pytest.raises(ev.InputError, match=f"there is no {kind} to end"):
            block.__exit__(None, None, None)
        t.insert([(2,)])
        assert sorted(t.rows()) == [(1,), (2,)]
