"""The exception tree and its texts."""

from __future__ import annotations

import copy
import pickle

import pytest

from everview import errors


def test_tree_is_what_the_docstring_draws() -> None:
    drawn = {word for word in (errors.__doc__ or "").split() if word.endswith(("Error", "Errors"))}
    made = {n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.EverviewError)}
    assert made == drawn


def test_fields_and_text() -> None:
    error = errors.PlanError("E_X", "wrong", "do this")
    assert (error.code, error.message, error.hint) == ("E_X", "wrong", "do this")
    assert str(error) == "[E_X] wrong\n  hint: do this"
    assert str(errors.PlanError("E_X", "wrong")) == "[E_X] wrong"
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert str(again) == str(error)


@pytest.mark.parametrize(
    ("name", "candidates", "hint"),
    [
        ("wieght", ["src", "weight"], "did you mean 'weight'?"),
        ("SRC", ["src"], "did you mean 'src'?"),
        ("qqq", ["src", "dst"], "available: 'src', 'dst'"),
        ("qqq", [], "there are none"),
    ],
)
def test_did_you_mean(name: str, candidates: list[str], hint: str) -> None:
    assert errors.did_you_mean(name, candidates) == hint
