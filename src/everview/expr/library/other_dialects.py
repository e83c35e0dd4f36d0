"""Functions of Spark, DuckDB and DataFusion that PostgreSQL lacks: hex, mask, bround, levenshtein and the like."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import math
import re
from decimal import Decimal
from typing import Any

from everview.expr.library.signatures import Shelf
from everview.expr.string_functions import RowFailure
from everview.kernels.expressions.scalars import ERROR_DOMAIN, ERROR_OVERFLOW

SHELF = Shelf()


def _hex(value: int | str | bytes) -> str:
    if isinstance(value, int):
        return f"{value & 0xFFFF_FFFF_FFFF_FFFF:X}"
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def _unhex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}") if not set(text) & set(" \t\n") else None
    except ValueError:
        return None


def _mask(text: str, upper: str = "X", lower: str = "x", digit: str = "n", other: str | None = None) -> str:
    """Replace upper-case letters, lower-case letters and digits; other characters too, if a replacement is given."""

    def masked(sign: str) -> str:
        if sign.isupper():
            return upper
        if sign.islower():
            return lower
        return digit if sign.isdecimal() else sign if other is None else other

    return "".join(map(masked, text))


def _bround(value: Any, digits: int = 0) -> Any:
    """Rounded half to even."""
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    try:
        found = number.quantize(Decimal(1).scaleb(-digits), decimal.ROUND_HALF_EVEN)
    except decimal.InvalidOperation:
        raise RowFailure(ERROR_OVERFLOW) from None
    return type(value)(found)


def _levenshtein(a: str, b: str) -> int:
    before = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        row = [i]
        for j, right in enumerate(b, 1):
            row.append(min(row[-1] + 1, before[j] + 1, before[j - 1] + (left != right)))
        before = row
    return before[-1]


_SOUNDS = {letter: str(code) for code, letters in enumerate(("bfpv", "cgjkqsxz", "dt", "l", "mn", "r"), 1)
           for letter in letters}  # fmt: skip


def _soundex(text: str) -> str:
    """The first letter, and the sounds of the next consonants: vowels separate equal sounds, h and w do not."""
    letters = [c for c in text if c.isascii() and c.isalpha()]
    if not letters or letters[0] != text[0]:
        return text
    result, last = letters[0].upper(), _SOUNDS.get(letters[0].lower(), "")
    for letter in map(str.lower, letters[1:]):
        sound = _SOUNDS.get(letter, "")
        if sound and sound != last:
            result += sound
        if letter not in "hw":
            last = sound
    return result[:4].ljust(4, "0")


def _conv(text: str, source: int, target: int) -> str | None:
    """Convert a number from one base to another."""
    if not (2 <= source <= 36 and 2 <= target <= 36):
        return None
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    number = 0
    for sign in text.strip().upper():
        place = digits.find(sign)
        if not 0 <= place < source:
            break
        number = number * source + place
    if number >= 2**64:
        raise RowFailure(ERROR_OVERFLOW)
    result = "" if number else "0"
    while number:
        number, rest = divmod(number, target)
        result = digits[rest] + result
    return result


def _format_number(value: Any, digits: int) -> str:
    if digits < 0:
        raise RowFailure(ERROR_DOMAIN)
    return f"{_bround(Decimal(repr(value)) if isinstance(value, float) else Decimal(value), digits):,}"


_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def _next_day(day: dt.date, name: str) -> dt.date | None:
    wanted = name.strip().upper()
    full = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
    at = next((i for i, d in enumerate(full) if wanted in (d, d[:3], d[:2])), None)
    return None if at is None else day + dt.timedelta(days=(at - day.weekday() - 1) % 7 + 1)


def _months_between(a: dt.datetime, b: dt.datetime) -> float:
    """Whole months if both have the same day, or are the last of their month; otherwise each day counts 1/31 of a
    month."""
    months = (a.year - b.year) * 12 + a.month - b.month

    def is_last(moment: dt.datetime) -> bool:
        return (moment + dt.timedelta(days=1)).month != moment.month

    if a.day == b.day or (is_last(a) and is_last(b)):
        return float(months)

    def seconds(moment: dt.datetime) -> float:
        return moment.hour * 3600 + moment.minute * 60 + moment.second

    apart = (a.day - b.day) * 86400 + seconds(a) - seconds(b)
    return round(months + apart / (31 * 86400), 8)


def _float_digits(value: float) -> tuple[str, str, int]:
    """The sign, the shortest digits that read as the same number, and the exponent of the first one."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    return "-" * sign, "".join(map(str, digits)), len(digits) - 1 + exponent


def _java_text(value: float) -> str:
    """A double as Java prints it: 3.0, 1.0E10, 1.0E-5.

    >>> [_java_text(x) for x in (3.0, 1e10, -0.00015, 1234567.5, float("inf"))]
    ['3.0', '1.0E10', '-1.5E-4', '1234567.5', 'Infinity']
    """
    if value != value or abs(value) == math.inf:
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = _float_digits(value)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _pointed_text(value: float) -> str:
    """A double with a point or an exponent, as DuckDB and SQLite print it: 3.0, 1e+20."""
    if value != value or abs(value) == math.inf:
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    return repr(value)


def _half_up(value: float, digits: int = 0) -> float:
    """A double rounded, halves away from zero; its digits are those that are printed.

    >>> [_half_up(x) for x in (2.5, -0.5, 0.49999999999999994)], _half_up(2.675, 2), _half_up(1250.0, -2)
    ([3.0, -1.0, 0.0], 2.68, 1300.0)
    """
    if value != value or abs(value) == math.inf or digits > 30:
        return value
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), decimal.ROUND_HALF_UP, _WIDE))


_WIDE = decimal.Context(prec=400)


def _initcap_by_blanks(text: str) -> str:
    """Each word between blanks with a capital, as Spark does: hello-world is one word."""
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


_FIELD = re.compile(r"%(?:%|[-+ 0,#(]*\d*(?:\.\d+)?([a-zA-Z]))")


def _printf(template: str | None, *values: Any) -> str | None:
    """A template with %d, %s, %.2f and the like; NULL is the word null, as in Java.

    >>> _printf("%d %s %05.1f %%", 7, None, 2.25)
    '7 null 002.2 %'
    """
    if template is None:
        return None
    given = iter(values)

    def filled(field: re.Match[str]) -> str:
        if field[1] is None:
            return "%"
        value = next(given)
        if field[1] not in "dsfxXeEogGc":
            raise RowFailure(ERROR_DOMAIN)
        return "null" if value is None else str(field[0] % value)

    try:
        return _FIELD.sub(filled, template)
    except (StopIteration, TypeError, ValueError, OverflowError):
        raise RowFailure(ERROR_DOMAIN) from None


def _in_base64(data: str | bytes) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise RowFailure(ERROR_DOMAIN) from None


_add = SHELF.add
_add("hex", "int -> text|text -> text|bytes -> text", _hex, "in hexadecimal digits")
_add("unhex", "text -> bytes", _unhex, "the bytes of hexadecimal digits", maybe=True)
_add("mask", "text [text] [text] [text] [text] -> text", _mask, "letters and digits hidden")
_add("bround", "number [int] -> same", _bround, "rounded, halves to the even neighbour")
_add("levenshtein", "text text -> int", _levenshtein, "how many letters to change, add or take away")
_add("soundex", "text -> text", _soundex, "how a word sounds")
_add("conv", "text int int -> text", _conv, "a number of base b in base c", maybe=True)
_add("bin", "int -> text", lambda n: f"{n & 0xFFFF_FFFF_FFFF_FFFF:b}", "in binary digits")
_add("crc32", "text -> int|bytes -> int", lambda x: binascii.crc32(x.encode() if isinstance(x, str) else x), "checksum")
_add("format_number", "number int -> text", _format_number, "with commas, and b digits after the point")
_add("next_day", "date text -> date", _next_day, "the first day after a that is called b", maybe=True)
_add("months_between", "timestamp timestamp -> float", _months_between, "months from b to a")
_add("java_text", "float -> text", _java_text, "a double as Java prints it")
_add("pointed_text", "float -> text", _pointed_text, "a double with a point or an exponent")
_add("half_up", "float [int] -> float", _half_up, "rounded, halves away from zero")
_add("initcap_by_blanks", "text -> text", _initcap_by_blanks, "words between blanks with capitals")
_add(
    "format_string",
    "text printed ... -> text|text -> text",
    _printf,
    "values in place of %d, %s",
    nulls=True,
    maybe=True,
)
_add("base64", "text -> text|bytes -> text", _in_base64, "in base 64")
_add("unbase64", "text -> bytes", _from_base64, "the bytes of a text in base 64")
