"""Every code of ours is told as an SQLSTATE, and errors say where they are."""

from __future__ import annotations

import re

from everview.error_codes import CODES
from everview.errors import EverviewError
from everview.server.pg import sqlstates
from everview.server.pg.error_responses import fields_of
from everview.server.pg.sqlstates import STATES, state_of
from everview.sql.text.error_positions import SqlError


def test_every_code_has_a_state_and_no_state_is_left_over() -> None:
    assert set(STATES) == set(CODES)
    assert set(sqlstates._OWN) <= set(CODES)
    assert {code for code, state in STATES.items() if state == "XX000"} == {"E_INTERNAL", "E_REPLICA", "E_TASK"}


def test_states_are_five_letters_and_none_means_success() -> None:
    for code, state in STATES.items():
        assert re.fullmatch(r"[0-9A-Z]{5}", state), code
        assert state[:2] not in ("00", "01"), code


def test_what_is_not_an_error_of_ours_tells_nothing_of_itself() -> None:
    fields = fields_of(ValueError("secret: 42"))
    assert fields["C"] == "XX000"
    assert "secret" not in "".join(fields.values())


def test_the_place_is_counted_in_what_the_client_sent() -> None:
    text = "SELECT $1, $2,\n nope FROM t"
    spaced = "SELECT $1 , $2 ,\n nope FROM t"
    error = SqlError("E_COLUMN", "there is no column nope", "", 2, 2, spaced)
    fields = fields_of(error, text=text, start=10)
    assert fields["P"] == str(10 + text.index("nope") + 1)
    assert fields["M"] == "there is no column nope"
    assert state_of(EverviewError("E_KEY", "")) == "23505"
