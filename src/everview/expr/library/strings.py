"""Functions of texts and bytes, following PostgreSQL where it has them.

`sha256` and the like return bytes for bytes, as in PostgreSQL; for texts they return hexadecimal digits, as in DuckDB
and Spark.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from typing import Any

from everview.codes.digits import whole_number
from everview.expr.library.signatures import Shelf
from everview.expr.string_functions import CASTS, MOST_LETTERS, RowFailure
from everview.kernels.expressions.scalars import ERROR_CAST, ERROR_DOMAIN, ERROR_OVERFLOW
from everview.types import STR

SHELF = Shelf()


def written(value: Any) -> str:
    """Print a value as PostgreSQL does: like a cast to text, except for bools.

    >>> written(True), written(1.5), written("x")
    ('t', '1.5', 'x')
    """
    if isinstance(value, (str, bool)):
        return value if isinstance(value, str) else "t" if value else "f"
    kind = {"datetime": "timestamp", "Decimal": "decimal"}.get(type(value).__name__, type(value).__name__)
    return str(CASTS[kind, "str"](value, STR))


def _repeat(text: str, count: int) -> str:
    if len(text) * max(count, 0) > MOST_LETTERS:
        raise RowFailure(ERROR_OVERFLOW)
    return text * count


def _initcap(text: str) -> str:
    return re.sub(r"[^\W_]+", lambda m: m[0][:1].upper() + m[0][1:].lower(), text)


def _translate(text: str, letters: str, by: str) -> str:
    table = {ord(c): (by[i] if i < len(by) else None) for i, c in reversed(list(enumerate(letters)))}
    return text.translate(table)


def _chr(code: int) -> str:
    if not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
        raise RowFailure(ERROR_DOMAIN)
    return chr(code)


def _concat_ws(separator: str | None, *values: Any) -> str | None:
    return None if separator is None else separator.join(written(v) for v in values if v is not None)


def _left(text: str, count: int) -> str:
    return text[:count] if count >= 0 else text[: max(len(text) + count, 0)]


def _right(text: str, count: int) -> str:
    return text[max(len(text) - count, 0) :] if count >= 0 else text[-count:]


def _overlay(text: str, by: str, start: int, count: int | None = None) -> str:
    count = len(by) if count is None else count
    if start < 1 or count < 0:
        raise RowFailure(ERROR_DOMAIN)
    return text[: start - 1] + by + text[start - 1 + count :]


def quote_ident(name: str) -> str:
    """Quote a name for SQL, if necessary.

    >>> quote_ident("plain"), quote_ident("My table")
    ('plain', '"My table"')
    """
    return name if re.fullmatch("[a-z_][a-z0-9_$]*", name) else '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Quote a text as an SQL literal.

    >>> quote_literal("it's")
    "'it''s'"
    """
    plain = text.replace("'", "''")
    return f"E'{plain}'".replace("\\", "\\\\") if "\\" in text else f"'{plain}'"


_SPECIFIER = re.compile(r"%(?:(%)|(?:(\d+)\$)?(-)?(?:(\d+)|\*(?:(\d+)\$)?)?([sIL]))")


def _format(template: str | None, *values: Any) -> str | None:
    """PostgreSQL's format: %s, %I, %L with positions, widths and -."""
    if template is None:
        return None
    result, last, following = [], 0, 0
    for match in _SPECIFIER.finditer(template):
        if "%" in template[last : match.start()]:
            raise RowFailure(ERROR_DOMAIN)
        result.append(template[last : match.start()])
        last = match.end()
        percent, position, minus, width, width_at, kind = match.groups()
        if percent:
            result.append("%")
            continue
        if "*" in match[0]:
            following = whole_number(width_at) if width_at else following + 1
            width = _nth(values, following)
        following = whole_number(position) if position else following + 1
        text = _specified(kind, _nth(values, following))
        size = whole_number(width) if isinstance(width, str) else int(width or 0)
        if abs(size) > MOST_LETTERS:
            raise RowFailure(ERROR_OVERFLOW)
        result.append(text.ljust(abs(size)) if minus or size < 0 else text.rjust(size))
    if "%" in template[last:]:
        raise RowFailure(ERROR_DOMAIN)
    return "".join(result) + template[last:]


def _nth(values: tuple[Any, ...], number: int) -> Any:
    if not 1 <= number <= len(values):
        raise RowFailure(ERROR_DOMAIN)
    return values[number - 1]


def _specified(kind: str, value: Any) -> str:
    if kind == "L":
        return "NULL" if value is None else quote_literal(written(value))
    if kind == "I":
        if value is None:
            raise RowFailure(ERROR_DOMAIN)
        return quote_ident(written(value))
    return "" if value is None else written(value)


def _escaped(data: bytes) -> str:
    """bytea's escape format: zeros and bytes over 127 in octal, backslashes doubled."""
    return "".join("\\\\" if b == 92 else chr(b) if 0 < b < 128 else f"\\{b:03o}" for b in data)


def _encode(data: bytes, how: str) -> str:
    match how.lower():
        case "hex":
            return data.hex()
        case "base64":
            coded = base64.b64encode(data).decode()
            return "\n".join(coded[i : i + 76] for i in range(0, len(coded), 76))
        case "escape":
            return _escaped(data)
    raise RowFailure(ERROR_DOMAIN)


def as_bytea(text: str) -> bytes:
    r"""Parse a bytea as PostgreSQL does: hexadecimal digits after \x, else with \\ and \ooo for bytes.

    >>> as_bytea(r"\x6869"), as_bytea(r"a\\b\101")
    (b'hi', b'a\\bA')
    """
    if text.startswith("\\x"):
        return _decode(text[2:], "hex")
    return text.encode() if "\\" not in text else _decode(text, "escape")


def _decode(text: str, how: str) -> bytes:
    try:
        match how.lower():
            case "hex":
                return bytes.fromhex(text)
            case "base64":
                return base64.b64decode(re.sub(r"\s", "", text), validate=True)
            case "escape":
                unescaped = re.sub(r"\\(\\|[0-3][0-7]{2})", lambda m: _unescaped(m[1]), text)
                return unescaped.encode("latin-1")
    except (ValueError, binascii.Error):
        raise RowFailure(ERROR_CAST) from None
    raise RowFailure(ERROR_DOMAIN)


def _unescaped(what: str) -> str:
    return "\\" if what == "\\" else chr(int(what, 8))


def _hashed(algorithm: str) -> Callable[[str | bytes], str | bytes]:
    def function(data: str | bytes) -> str | bytes:
        if isinstance(data, str):
            return hashlib.new(algorithm, data.encode()).hexdigest()
        return hashlib.new(algorithm, data).digest()

    return function


def _md5(data: str | bytes) -> str:
    return hashlib.md5(data.encode() if isinstance(data, str) else data, usedforsecurity=False).hexdigest()


def _hex(number: int) -> str:
    return format(number & 0xFFFF_FFFF_FFFF_FFFF, "x")


def _levenshtein(a: str, b: str) -> int:
    before = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
        before = row
    return before[-1]


def _substring_index(text: str, separator: str, count: int) -> str:
    """MySQL's: the text before the n-th separator, or after it when counted from the end."""
    if not separator or not count:
        return ""
    parts = text.split(separator)
    return separator.join(parts[:count] if count > 0 else parts[count:])


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


_add = SHELF.add
_add("repeat", "text int -> text", _repeat, "a text, so many times")
_add("initcap", "text -> text", _initcap, "each word with a capital letter")
_add("translate", "text text text -> text", _translate, "each letter that is in b replaced by the one in c")
_add("chr", "int -> text", _chr, "the letter with that code point")
_add("ascii", "text -> int", lambda text: ord(text[0]) if text else 0, "the code point of the first letter")
_add("to_hex", "int -> text", _hex, "in hexadecimal digits")
_add("concat_ws", "text printed ... -> text", _concat_ws, "values joined by a, without NULLs", nulls=True, maybe=True)
_add(
    "format", "text printed ... -> text|text -> text", _format, "a template with %s, %I and %L", nulls=True, maybe=True
)
_add("left", "text int -> text", _left, "the first letters, or all but the last")
_add("right", "text int -> text", _right, "the last letters, or all but the first")
_add("overlay", "text text int [int] -> text", _overlay, "b put over a, from a place on")
_add("quote_ident", "text -> text", quote_ident, "as a name in SQL")
_add("quote_literal", "text -> text", quote_literal, "as a constant in SQL")
_add(
    "quote_nullable",
    "text -> text",
    lambda t: "NULL" if t is None else quote_literal(t),
    "as a constant in SQL, or NULL",
    nulls=True,
)
_add("octet_length", "text -> int|bytes -> int", lambda data: len(_bytes(data)), "number of bytes")
_add("bit_length", "text -> int|bytes -> int", lambda data: 8 * len(_bytes(data)), "number of bits")
_add("encode", "bytes text -> text", _encode, "bytes as hex, base64 or escape")
_add("decode", "text text -> bytes", _decode, "the bytes that hex, base64 or escape stand for")
_add("bytes_concat", "bytes bytes -> bytes", lambda a, b: a + b, "one after the other")
_add("bytes_text", "bytes -> text", lambda data: "\\x" + data.hex(), "a bytea as PostgreSQL prints it")
_add("padded", "text int -> text", lambda text, width: text.ljust(width), "a char(n) with the blanks at its end")
_add("text_bytes", "text -> bytes", as_bytea, "the bytes that PostgreSQL reads in a text")
_add("md5", "text -> text|bytes -> text", _md5, "MD5 in hexadecimal digits")
_add("sha1", "text -> text|bytes -> bytes", _hashed("sha1"), "SHA-1")
for _size in (224, 256, 384, 512):
    _add(f"sha{_size}", "text -> text|bytes -> bytes", _hashed(f"sha{_size}"), f"SHA-{_size}")
_add("levenshtein", "text text -> int", _levenshtein, "letters to change to make a of b")
_add("substring_index", "text text int -> text", _substring_index, "what is before the c-th b")
_add("ends_with", "text text -> bool", lambda text, part: text.endswith(part), "whether a ends with b")
_add("num_nulls", "any ... -> int", lambda *v: sum(x is None for x in v), "how many are NULL", nulls=True)
_add("num_nonnulls", "any ... -> int", lambda *v: sum(x is not None for x in v), "how many are not NULL", nulls=True)
