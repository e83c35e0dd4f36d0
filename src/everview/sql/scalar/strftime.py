"""Templates of moments in other dialects: strftime's `%d`, MySQL's `%i`, Snowflake's `DD`, .NET's `dd`.

sqlglot rewrites the codes it knows into those of Python's strftime and leaves everything else as it is. PostgreSQL's
templates have no `%`, and take letters for codes: `strftime(t, 'Day %d')` must not print a weekday. So each dialect has
a table of codes that mean something there. Words are quoted, and other codes are rejected by name.

A template becomes calls of `to_char` with the parts that PostgreSQL's templates have, and expressions of the others
(weeks from Sunday, blanks before a digit), one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import foreign_functions
from everview.sql.text import consumed_parts
from everview.types import STR

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

_FIELDS = {
    "Y": "YYYY", "y": "YY", "m": "MM", "B": "FMMonth", "b": "Mon", "d": "DD", "j": "DDD", "A": "FMDay", "a": "Dy",
    "H": "HH24", "I": "HH12", "p": "AM", "M": "MI", "S": "SS", "f": "US", "u": "ID", "V": "IW", "G": "IYYY",
    "-d": "FMDD", "-m": "FMMM", "-H": "FMHH24", "-I": "FMHH12", "-M": "FMMI", "-S": "FMSS", "-j": "FMDDD",
    "f_three": "MS", "ms": "MS", "th": "FMDDth",
}  # fmt: skip
"""Codes that PostgreSQL's templates have, too."""

_COMPUTED = {
    "w": "extract(dow FROM $1)::int::text",
    "U": "lpad(((extract(doy FROM $1)::int + 6 - extract(dow FROM $1)::int) / 7)::text, 2, '0')",
    "W": "lpad(((extract(doy FROM $1)::int + 7 - extract(isodow FROM $1)::int) / 7)::text, 2, '0')",
    "e": "lpad(extract(day FROM $1)::int::text, 2)",
    "k": "lpad(extract(hour FROM $1)::int::text, 2)",
    "l": "lpad(to_char($1, 'FMHH12'), 2)",
    "-y": "(extract(year FROM $1)::int % 100)::text",
    "P": "lower(to_char($1, 'AM'))",
    "s": "floor(extract(epoch FROM $1))::bigint::text",
    "C": "lpad((extract(year FROM $1)::int / 100)::text, 2, '0')",
    "Q": "extract(quarter FROM $1)::int::text",
    "f_nine": "to_char($1, 'US') || '000'",
}
"""The others, by SQL over the moment."""

_SHORT = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "h": "%b"}
"""Codes that stand for several."""

_DAYS = "Y y m B b d j A a p"
_TIME = "H I M S f"
_WEEKS = "u V G w U W"
_MYSQL = f"{_DAYS} {_TIME} w U W G v D -d -m -H -I"
_CLICKHOUSE = "Y y m b d j a p H I S i s h e k l u V G w Q F T R M W"

_KNOWN: dict[str, str] = {
    "duckdb": f"{_DAYS} {_TIME} {_WEEKS} -d -m -H -I -M -S -j -y g n c x X T h",
    "sqlite": "Y m d j H M S I p P e k l f s w W u U V G F T R",
    "bigquery": f"{_DAYS} {_TIME} {_WEEKS} -d e k l P s C Q F T R h",
    **dict.fromkeys(("mysql", "doris", "starrocks", "singlestore", "trino", "presto", "athena"), _MYSQL),
    "clickhouse": _CLICKHOUSE,
    "snowflake": "Y y B b m d a H I M S f f_three f_nine p",
    **dict.fromkeys(("tsql", "fabric"), "Y y B b m -m d -d A H -H I -I M -M S -S f"),
    "oracle": "Y y m d j H I M S V G f",
}
"""The codes of each dialect, as sqlglot leaves them. Others are rejected, also those that mean something elsewhere."""

_MEANING = {
    "duckdb": {"g": "ms", "n": "f_nine", "c": "%Y-%m-%d %H:%M:%S", "x": "%Y-%m-%d", "X": "%H:%M:%S"},
    "sqlite": {"f": "%S.%ms"},
    "bigquery": {"-d": "e"},  # sqlglot writes %-d for its %e, which has a blank before a digit
    **{name: {"v": "V", "D": "th"} for name in ("mysql", "doris", "starrocks", "singlestore")},
    **{name: {"v": "V"} for name in ("trino", "presto", "athena")},
    "clickhouse": {"i": "M", "s": "S", "h": "I", "M": "B", "W": "A"},
}
"""Codes of a dialect that others use for something else."""

_LETTERS = ("snowflake", "tsql", "fabric", "oracle")
"""Dialects whose templates are letters, so that a word is a code unless it is quoted."""

_PART = re.compile(r"%(f_[a-z]+|ms|-?[A-Za-z]|%)|[^%]+|%", re.DOTALL)

_TIMESTAMP = exp.DataType.build("timestamp", dialect="postgres")


def has_templates(dialect: str) -> bool:
    """Whether the templates of a dialect are read here; Java's and PostgreSQL's are not."""
    return dialect in _KNOWN


def printed(scalars: Scalars, node: exp.TimeToStr) -> Expr:
    """A moment in the form of a template: strftime, date_format, FORMAT_DATE, FORMAT."""
    moment = _moment(node)
    pieces = [
        _called(scalars, "to_char($1, $2)", [moment, exp.Literal.string(what)], node)
        if is_template
        else _called(scalars, what, [moment], node)
        for is_template, what in _pieces(scalars, node)
    ]
    found = pieces[0] if pieces else Literal(STR, "")
    for piece in pieces[1:]:
        found = scalars.call("concat", found, piece)
    return found


def parsed(scalars: Scalars, node: exp.Expr) -> Expr:
    """A text read by a template: strptime, str_to_date, PARSE_DATE, TO_TIMESTAMP."""
    for part in ("zone", "safe", "target_type"):
        given = node.args.get(part)
        if given and not (part == "target_type" and given.is_type("timestamp", "timestampntz", "datetime")):
            raise scalars.source.refuse(node, f"this form of {scalars.source.written(node)} is not supported")
        if given:
            consumed_parts.understood(given)
    pieces = list(_pieces(scalars, node))
    template = "".join(what for _, what in pieces)
    if not all(is_template for is_template, _ in pieces) or "Y" not in re.sub('"[^"]*"', "", template):
        hint = "give the year, a month or day of the year, and a time"
        raise scalars.source.error(node.args["format"], "E_PATTERN", "no moment can be read by this template", hint)
    if node.args.get("default_year"):
        consumed_parts.understood(node.args["default_year"])  # the template has the year
    is_day = isinstance(node, (exp.StrToDate, exp.TsOrDsToDate))
    text = "to_date($1, $2)" if is_day else "to_timestamp($1, $2) AT TIME ZONE 'UTC'"
    return _called(scalars, text, [node.this, exp.Literal.string(template)], node)


def _called(scalars: Scalars, text: str, given: list[exp.Expr], node: exp.Expr) -> Expr:
    return foreign_functions.composed((text,), scalars.source.written(node), given, node, scalars)


def _moment(node: exp.TimeToStr) -> exp.Expr:
    """What is printed: a timestamp of the session's clocks, or of those of a zone."""
    given: exp.Expr = node.this
    while isinstance(given, (exp.TsOrDsToTimestamp, exp.TsOrDsToDate)) and given.args.get("format") is None:
        consumed_parts.read(given)
        given = given.this
    zone = node.args.get("zone")
    return exp.Cast(this=given, to=_TIMESTAMP) if zone is None else exp.AtTimeZone(this=given, zone=zone)


def _pieces(scalars: Scalars, node: exp.Expr) -> Iterator[tuple[bool, str]]:
    """Templates of to_char (True), and SQL over the moment (False)."""
    template = node.args.get("format")
    if not (isinstance(template, exp.Literal) and template.is_string):
        raise scalars.source.refuse(template or node, "a template of a moment is a constant here", "'%Y-%m-%d'")
    written = ""
    for code, text in _codes(template.name, scalars.source.dialect):
        if code is None:
            written += re.sub(r'(?:[^\W\d_]|["\\])+', _quoted, text)
        elif code in _FIELDS:
            written += '""' * written[-1:].isalnum() + _FIELDS[code]  # DD and D would be DDD
        elif code in _COMPUTED:
            if written:
                yield True, written
            yield False, _COMPUTED[code]
            written = ""
        else:
            what = f"{text} in the template of a moment is not supported"
            codes = (c for c in _KNOWN[scalars.source.dialect].split() if not c.startswith("f_"))
            hint = "" if scalars.source.dialect in _LETTERS else f"available: {', '.join('%' + c for c in codes)}"
            raise scalars.source.error(template, "E_PATTERN", what, hint)
    if written:
        yield True, written


def _quoted(found: re.Match[str]) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", found.group()) + '"'


def _codes(template: str, dialect: str) -> Iterator[tuple[str | None, str]]:
    """The codes of a template in one meaning for all dialects, and (None, text) between them.

    >>> list(_codes("%I o'clock", "mysql"))
    [('I', '%I'), (None, " o'clock")]
    >>> list(_codes("%X, day %d", "duckdb"))
    [('H', '%H'), (None, ':'), ('M', '%M'), (None, ':'), ('S', '%S'), (None, ', day '), ('d', '%d')]
    """
    known, meaning = _KNOWN[dialect].split(), _MEANING.get(dialect, {})
    for found in _PART.finditer(template):
        code, text = found.group(1), found.group()
        if code is None and dialect in _LETTERS:
            yield from _words(text)
        elif code is None or code == "%":
            yield None, "%" if code else text
        elif "%" in (longer := meaning.get(code, _SHORT.get(code, "")) if code in {*known, *meaning} else ""):
            yield from ((part.group(1), part.group()) for part in _PART.finditer(longer))
        else:
            yield meaning.get(code, code if code in known else "?"), text


def _words(text: str) -> Iterator[tuple[str | None, str]]:
    """A text between codes where letters are codes: what is quoted is a text, as is the T of ISO 8601."""
    for found in re.finditer(r"\"([^\"]*)\"|'([^']*)'|([^\W\d_]+)|[\W\d_]", text):
        quoted = found.group(1) if found.group(1) is not None else found.group(2)
        word = found.group(3)
        yield (
            ("?", word) if word is not None and word != "T" else (None, quoted if quoted is not None else found.group())
        )
