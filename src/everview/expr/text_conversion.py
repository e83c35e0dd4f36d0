"""Text formats of all types, as PostgreSQL prints and parses them.

`text_of(type)` returns a function from values to texts, `of_text(type)` one from texts to values, which raises
ValueError for an invalid text. They are used for casts, for quoted constants and for CSV files.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from everview.codes import intervals, jsons, packed
from everview.codes.digits import float_of
from everview.codes.immutable import FrozenDict, FrozenList
from everview.expr import moment_texts
from everview.types import FREE, DataType, bounds

EXACT = Context(prec=200)

# ---- to texts


def text_of(declared: DataType) -> Callable[[Any], str]:
    """A function from values of the type to texts.

    >>> from everview.types import INT, STR, array
    >>> text_of(array(STR))(["a b", None, "x"]), text_of(array(array(INT)))([[1], [2]])
    ('{"a b",NULL,x}', '{{1},{2}}')
    """
    match declared.kind:
        case "str" | "enum":
            return str
        case "bool":
            return lambda value: "true" if value else "false"
        case "char":
            return lambda value: str(value).rstrip(" ")
        case "float":
            return float_text
        case "timestamp":
            return lambda value: value.isoformat(" ")
        case "timestamptz":
            return lambda value: moment_text(value)
        case "time":
            return lambda value: intervals.clock_text(_micros(value))
        case "decimal" | "numeric":
            return lambda value: format(value, "f")
        case "bytes":
            return lambda value: "\\x" + value.hex()
        case "json":
            return jsons.canonical
        case "array":
            return _array_text(declared)
        case "struct":
            return _struct_text(declared)
        case "map":
            key, value_text = text_of(declared.items[0]), text_of(declared.items[1])
            return lambda value: (
                "{" + ", ".join(f"{key(k)}={'NULL' if v is None else value_text(v)}" for k, v in value.items()) + "}"
            )
    return str


def float_text(value: float) -> str:
    """Print a float as PostgreSQL does: the shortest text that parses to the same number.

    >>> [float_text(x) for x in (1.0, 0.1, 1e15, 123456789012345.0, 1e-5, float("inf"), -0.0)]
    ['1', '0.1', '1e+15', '123456789012345', '1e-05', 'Infinity', '-0']
    """
    if 1e-4 <= abs(value) < 1e15:  # Python's text is the same, but for the .0 of whole numbers
        return repr(value).removesuffix(".0")
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    mark = "-" if sign else ""
    if not value:
        return mark + "0"
    text, place = "".join(map(str, digits)), len(digits) + exponent - 1  # d.ddd times 10**place
    if -4 <= place < 15:
        return mark + format(Decimal((0, digits, exponent)), "f")
    fraction = "." + text[1:] if len(text) > 1 else ""
    return f"{mark}{text[0]}{fraction}e{'-' if place < 0 else '+'}{abs(place):02}"


def moment_text(value: dt.datetime) -> str:
    """A moment with its zone's offset from UTC.

    >>> moment_text(dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))))
    '2026-01-31 12:00:00+05:30'
    """
    offset = value.utcoffset() or dt.timedelta()
    seconds = int(offset.total_seconds())
    hours, rest = divmod(abs(seconds), 3600)
    minutes, left = divmod(rest, 60)
    tail = (f":{minutes:02}" if minutes or left else "") + (f":{left:02}" if left else "")
    return f"{plain_text(value.replace(tzinfo=None))}{'-' if seconds < 0 else '+'}{hours:02}{tail}"


def plain_text(value: dt.datetime) -> str:
    """A timestamp without trailing zeros in its fraction."""
    text = value.isoformat(" ")
    return text.rstrip("0") if value.microsecond else text


def _micros(value: dt.time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


_QUOTED = re.compile(r'[\s{},"\\]')


def _array_text(declared: DataType) -> Callable[[Any], str]:
    item = declared.items[0]
    text, nested = text_of(item), item.kind == "array"

    def one(value: Any) -> str:
        if value is None:
            return "NULL"
        said = ("t" if value else "f") if item.kind == "bool" else text(value)
        plain = nested or (said and not _QUOTED.search(said) and said.upper() != "NULL")
        return said if plain else '"' + said.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return lambda value: "{" + ",".join(map(one, value)) + "}"


def _struct_text(declared: DataType) -> Callable[[Any], str]:
    texts = [text_of(item) for item in declared.items]

    def one(value: Any, item: DataType, text: Callable[[Any], str]) -> str:
        if value is None:
            return ""
        said = ("t" if value else "f") if item.kind == "bool" else text(value)
        if said and not re.search(r'[\s(),"\\]', said):
            return said
        return '"' + said.replace("\\", "\\\\").replace('"', '""') + '"'

    return lambda value: (
        "(" + ",".join(one(v, i, t) for v, i, t in zip(value.values(), declared.items, texts, strict=True)) + ")"
    )


# ---- from texts


def of_text(declared: DataType) -> Callable[[str], Any]:
    """A function from texts to values of the type; ValueError for an invalid text.

    >>> from everview.types import INT, array
    >>> of_text(array(INT))("{1,NULL,3}")
    [1, None, 3]
    """
    match declared.kind:
        case "str":
            return str
        case "char":
            return lambda text: char_of(text, declared)
        case "int":
            return lambda text: _int(text, declared)
        case "float":
            return float_of
        case "bool":
            return _bool
        case "decimal" | "numeric":
            return lambda text: rounded(_decimal(text), declared.scale)
        case "date":
            return moment_texts.date_of
        case "timestamp":
            return moment_texts.timestamp_of
        case "timestamptz":
            return lambda text: aware(moment_texts.parse_moment(text))
        case "time":
            return moment_texts.time_of
        case "interval":
            return intervals.parse
        case "uuid":
            return _uuid
        case "json":
            return jsons.parsed
        case "enum":
            return lambda text: _label(text, declared)
        case "bytes":
            return _bytes
        case "array":
            return _array_reader(declared)
        case "struct":
            return _struct_reader(declared)
    raise ValueError(f"a text is no {declared!r}")


def char_of(text: str, declared: DataType) -> str:
    """A text as a char(n): truncated if too long; trailing blanks are insignificant."""
    return text[: declared.width].rstrip(" ") if declared.width else text.rstrip(" ")


_INT = re.compile(r"[+-]?[0-9]+")


def _int(text: str, declared: DataType) -> int:
    if not _INT.fullmatch(text.strip()):
        raise ValueError(text)
    found = int(text)
    low, high = bounds(declared.width or 64)
    if not low <= found <= high:
        raise OverflowError(text)
    return found


_TRUTH = {"true": True, "t": True, "yes": True, "y": True, "on": True, "1": True}
_TRUTH |= {"false": False, "f": False, "no": False, "n": False, "off": False, "0": False}
_TRUTH |= dict.fromkeys(("tr", "tru", "ye"), True) | dict.fromkeys(("fa", "fal", "fals", "of"), False)


def _bool(text: str) -> bool:
    try:
        return _TRUTH[text.strip().lower()]
    except KeyError:
        raise ValueError(text) from None


def _decimal(text: str) -> Decimal:
    try:
        found = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(text) from None
    if "_" in text or not found.is_finite():
        raise ValueError(text)
    return found


def rounded(value: Decimal, scale: int) -> Decimal:
    """Round to a number of digits after the point, halves away from zero.

    >>> rounded(Decimal("-1.005"), 2)
    Decimal('-1.01')
    """
    if value and value.adjusted() > 60:
        raise OverflowError(value)
    if scale >= FREE:
        return packed.trimmed_number(value)
    return value.quantize(Decimal(1).scaleb(-scale), "ROUND_HALF_UP", EXACT)


def aware(moment: dt.datetime) -> dt.datetime:
    """In UTC, which is the default zone."""
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)


def _uuid(text: str) -> uuid.UUID:
    body = text.strip()
    if not re.fullmatch(r"\{?[0-9a-fA-F]{4}(-?[0-9a-fA-F]{4}){7}\}?", body):
        raise ValueError(text)
    return uuid.UUID(body.replace("-", ""))


def _label(text: str, declared: DataType) -> str:
    if text not in declared.names:
        raise ValueError(text)
    return text


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()


def _array_reader(declared: DataType) -> Callable[[str], Any]:
    item = declared.items[0]
    read = of_text(item) if item.kind != "array" else None
    inner = _array_items(item) if item.kind == "array" else None

    def run(text: str) -> FrozenList:
        found = _braces(text)
        return made(found)

    def made(found: Any) -> FrozenList:
        out: list[Any] = []
        for part in found:
            if isinstance(part, list):
                if inner is None:
                    raise ValueError("it has more dimensions than its type")
                out.append(inner(part))
            elif part is None:
                out.append(None)
            elif read is None:
                raise ValueError("it has fewer dimensions than its type")
            else:
                out.append(read(part))
        return FrozenList(out)

    run.made = made  # type: ignore[attr-defined]
    return run


def _array_items(declared: DataType) -> Callable[[Any], FrozenList]:
    made: Callable[[Any], FrozenList] = _array_reader(declared).made  # type: ignore[attr-defined]
    return made


def _braces(text: str) -> list[Any]:
    """Parse '{a,"b c",{d}}' into lists of texts, None for an unquoted NULL."""
    body = text.strip()
    if not body.startswith("{"):
        raise ValueError(text)
    stack: list[list[Any]] = []
    at, done = 0, None
    while at < len(body):
        letter = body[at]
        if done is not None:
            raise ValueError(text)
        if letter == "{":
            stack.append([])
            at = _skip(body, at + 1)
            if body[at : at + 1] == "}":
                continue
        elif letter == "}":
            at += 1
            closed = stack.pop()
            if stack:
                stack[-1].append(closed)
                at = _after(body, _skip(body, at), text)
            else:
                done, at = closed, _skip(body, at)
        else:
            item, at = _word(body, at, text)
            if not stack:
                raise ValueError(text)
            stack[-1].append(item)
            at = _after(body, _skip(body, at), text)
    if done is None:
        raise ValueError(text)
    return done


def _skip(body: str, at: int) -> int:
    while at < len(body) and body[at].isspace():
        at += 1
    return at


def _after(body: str, at: int, text: str) -> int:
    """After a comma, which something must follow, or at a closing brace."""
    if body[at : at + 1] == ",":
        at = _skip(body, at + 1)
        if at >= len(body) or body[at] in ",}":
            raise ValueError(text)
    elif body[at : at + 1] != "}":
        raise ValueError(text)
    return at


def _word(body: str, at: int, text: str) -> tuple[str | None, int]:
    if body[at] == '"':
        out, at = "", at + 1
        while at < len(body) and body[at] != '"':
            at += body[at] == "\\"
            if at >= len(body):
                raise ValueError(text)
            out, at = out + body[at], at + 1
        if at >= len(body):
            raise ValueError(text)
        return out, at + 1
    out = ""
    while at < len(body) and body[at] not in ',{}"':
        at += body[at] == "\\"
        out, at = out + body[at : at + 1], at + 1
    word = out.strip()
    if not word:
        raise ValueError(text)
    return (None if word.upper() == "NULL" else word), at


def _struct_reader(declared: DataType) -> Callable[[str], Any]:
    reads = [of_text(item) for item in declared.items]

    def run(text: str) -> FrozenDict:
        parts = _brackets(text)
        if len(parts) != len(reads):
            raise ValueError(text)
        values = [None if part is None else read(part) for read, part in zip(reads, parts, strict=True)]
        return FrozenDict(zip(declared.names, values, strict=True))

    return run


def _brackets(text: str) -> list[str | None]:
    """Parse '(1,"a b",)' into texts, None for an empty field."""
    body = text.strip()
    if body[:1] != "(" or body[-1:] != ")":
        raise ValueError(text)
    parts: list[str | None] = []
    word: str | None = None
    quoted, at = False, 1
    while at < len(body) - 1 or quoted:
        letter = body[at : at + 1]
        if not letter:
            raise ValueError(text)
        if letter == '"' and quoted and body[at + 1 : at + 2] == '"':
            word, at = (word or "") + '"', at + 1
        elif letter == '"':
            word, quoted = word or "", not quoted
        elif letter == "\\":
            word, at = (word or "") + body[at + 1 : at + 2], at + 1
        elif letter == "," and not quoted:
            parts.append(word)
            word = None
        else:
            word = (word or "") + letter
        at += 1
    return [*parts, word]
