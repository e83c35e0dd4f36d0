"""Keys of rows: encoding what callers pass, and the errors for existing, missing and duplicate keys."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.arrays import encode_column
from everview.codes.codec import ONE_BY_ONE_ROWS
from everview.codes.values import decoder, encode_value
from everview.errors import InputError
from everview.language.relation import relation_of
from everview.session.changes.current_rows import last_of_each

if TYPE_CHECKING:
    from everview.session.table import Table


def key_codes(table: Table, keys: Any) -> np.ndarray:
    """Encode keys as columns of codes: a key of one column is its value, of several a tuple."""
    relation = relation_of(table)
    if not relation.key:
        raise InputError(
            "E_NO_KEY",
            f"table {relation.label!r} has no key",
            'delete whole rows, or declare one: key="column"',
        )
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InputError("E_TYPE", f"keys={keys!r}: a list of keys is needed", "put a single key into a list")
    names = [relation.codec.names[c] for c in relation.key]
    types = [relation.codec.types[c] for c in relation.key]
    keys = [*keys]
    if len(names) == 1 and len(keys) > ONE_BY_ONE_ROWS and not any(isinstance(key, tuple) for key in keys):
        with suppress(InputError):  # the code below reports which one is wrong
            return encode_column(keys, types[0], relation.codec.interner).reshape(1, -1)
    found = []
    for key in keys:
        values = key if isinstance(key, tuple) and (len(names) > 1 or types[0].kind != "tuple") else (key,)
        if len(values) != len(names):
            raise InputError(
                "E_KEY", f"the key is ({', '.join(names)}), got {len(values)} value(s): {key!r}", "give a tuple of them"
            )
        pairs = zip(types, values, strict=True)
        found.append([encode_value(declared, value, relation.codec.interner) for declared, value in pairs])
    return np.array(found, dtype=np.int64).reshape(len(found), len(names)).T


def shown_key(table: Table, codes: np.ndarray) -> str:
    """Format a key for messages."""
    interner = relation_of(table).codec.interner
    decoders = [decoder(relation_of(table).codec.types[c], interner) for c in relation_of(table).key]
    return ", ".join(repr(decode(int(code))) for decode, code in zip(decoders, codes, strict=True))


def key_present(table: Table, codes: np.ndarray) -> InputError:
    return InputError(
        "E_KEY",
        f"table {relation_of(table).label!r} already has a row with key {shown_key(table, codes)}",
        "upsert(rows) replaces rows by key",
    )


def key_twice(table: Table, keys: np.ndarray) -> InputError:
    """Return the error for rows that contain a key twice."""
    kept = set(last_of_each(keys).tolist())
    first = next(i for i in range(keys.shape[1]) if i not in kept)
    return InputError(
        "E_KEY",
        f"table {relation_of(table).label!r}: the key {shown_key(table, keys[:, first])} is given twice",
        "upsert(rows) takes the last row of each key",
    )


def key_missing(table: Table, codes: np.ndarray) -> InputError:
    return InputError(
        "E_KEY",
        f"table {relation_of(table).label!r} has no row with the key {shown_key(table, codes)}",
        "nothing was deleted; lookup(key) says whether a row is there",
    )
