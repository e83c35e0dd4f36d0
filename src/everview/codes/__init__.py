"""Values and codes: the edge where what people give becomes int64, and comes back.

In reading order: `scalars` (numbers, dates, times), `hashing` and `interner` (texts, bytes, tuples), `declare` (types),
`values` (one value), `arrays` (one column), `tables` (other libraries' frames), `codec` (rows and tables of a schema).
"""

from everview.codes.codec import Codec
from everview.codes.declare import arrow_field, arrow_type, data_type
from everview.codes.interner import Interner
from everview.codes.scalars import code_to_float, float_to_code
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
