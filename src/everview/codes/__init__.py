"""Values and codes: the boundary where user values become int64 codes, and back.

In reading order: `scalars` (numbers, dates, times), `hashing` and `interner` (texts, bytes, tuples),
`type_declarations` (types), `values` (one value), `arrays` (one column), `tables` (other libraries' frames), `codec`
(rows and tables of a schema), `multiplicity` (rows expanded by multiplicity).

Further modules:

    plain_columns, buffers, runs         columns that are codes already; Arrow's buffers; stored dictionaries
    sharing                              long columns, encoded by several threads
    limits                               what columns refuse although plans know nothing of it
    packed, immutable, jsons, intervals  values that do not fit 64 bits
    digits, durations                    parsing of numbers and durations
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everview.codes.codec import Codec
    from everview.codes.interner import Interner
    from everview.codes.scalars import code_to_float, float_to_code
    from everview.codes.type_declarations import arrow_field, arrow_type, data_type
    from everview.codes.values import decode_value, decoder, encode_value, encoder

__all__ = [
    "Codec",
    "Interner",
    "arrow_field",
    "arrow_type",
    "code_to_float",
    "data_type",
    "decode_value",
    "decoder",
    "encode_value",
    "encoder",
    "float_to_code",
]

_HOMES = {
    "codec": "Codec",
    "interner": "Interner",
    "scalars": "code_to_float float_to_code",
    "type_declarations": "arrow_field arrow_type data_type",
    "values": "decode_value decoder encode_value encoder",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load one of the names above on first use: intervals, say, need no interner and so no kernels."""
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"everview.codes.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'everview.codes' has no attribute {name!r}")
