"""Number templates of PostgreSQL's to_char: `FM999,990.00`, `S9.9`, `9999PR`.

    9       a digit, a space where there is none        .  D    the point
    0       a digit, a zero where there is none         ,  G    a comma between digits, a space where there are none
    S  SG  MI  PL   the sign at that place              PR      a negative number in <angles>
    FM      no padding                                  TH th   an English ending
    RN      in Roman numerals                           $ L     a leading dollar sign
    EEEE    at the end: with an exponent, 1.50e+00

A number that does not fit is printed as #. V and quoted texts fail the row.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from everview.expr.string_functions import RowFailure
from everview.kernels.expressions.scalars import ERROR_CAST, ERROR_DOMAIN

_EXACT = decimal.Context(prec=120, rounding=decimal.ROUND_HALF_UP)
_BINARY = decimal.Context(prec=800, rounding=decimal.ROUND_HALF_EVEN)
"""A double is rounded by its exact value, as C prints it: -2.25 is -2.2."""


class Template(NamedTuple):
    """A parsed template: its elements in order, and the modifiers."""

    signs: tuple[str, ...]
    bare: bool
    ending: str
    angles: bool
    roman: bool
    exponent: bool = False


_SIGNS = ("PL", "SG", "MI", "PR", "RN", "TH", "FM", "S", "L", "D", "G", "$", "9", "0", ".", ",", " ")


@lru_cache(256)
def template(text: str) -> Template:
    """Parse a template; fails for unknown elements.

    >>> template("FM99.9").signs
    ('9', '9', '.', '9')
    """
    signs: list[str] = []
    exponent = text.upper().endswith("EEEE")
    text = text[:-4] if exponent else text
    at = 0
    while at < len(text):
        sign = next((s for s in _SIGNS if text[at:].upper().startswith(s)), "")
        if not sign:
            raise RowFailure(ERROR_DOMAIN)
        at += len(sign)
        written = text[at - len(sign) : at]
        signs.append(written if sign == "TH" else {"D": ".", "G": ",", "L": "$"}.get(sign, sign))
    marks = [i for i, s in enumerate(signs) if s in ("S", "SG", "MI", "PL", "PR")]
    if signs.count(".") > 1 or len(marks) > 1 or "$" in signs[1:] or "PL" in signs[1:]:
        raise RowFailure(ERROR_DOMAIN)
    ending = next((s for s in signs if s in ("TH", "th")), "")
    plain = tuple(s for s in signs if s not in ("FM", "TH", "th", "PR", "RN"))
    if exponent and not {*signs} <= {"9", "0", ".", "FM"}:
        raise RowFailure(ERROR_DOMAIN)
    return Template(plain, "FM" in signs, ending, "PR" in signs, "RN" in signs, exponent)


def written(number: Any, pattern: str) -> str:
    """Format a number by a template.

    >>> written(1234.5, "FM9,999.00"), written(-7, "999"), written(Decimal("0.5"), "0.99")
    ('1,234.50', '  -7', ' 0.50')
    """
    form = template(pattern)
    if form.signs[:1] in (("$",), ("PL",)):
        rest = _number(number, form._replace(signs=form.signs[1:]))
        plus = "+" if "-" not in rest else "" if form.bare else " "
        return ("$" if form.signs[0] == "$" else plus) + rest
    return _number(number, form)


def read(text: str, pattern: str) -> Decimal:
    """Parse a number by a template: as many digits as it has positions, ignoring what is between them.

    >>> read("12,454.8-", "99G999D9S"), read("<1,234>", "9,999PR"), read("$7.50", "L9.99")
    (Decimal('-12454.8'), Decimal('-1234'), Decimal('7.50'))
    """
    form = template(pattern)
    point = form.signs.index(".") if "." in form.signs else len(form.signs)
    before, after = (sum(s in "90" for s in part) for part in (form.signs[:point], form.signs[point:]))
    whole, _, fraction = "".join(c for c in text if c in "0123456789.").partition(".")
    if not whole and not fraction:
        raise RowFailure(ERROR_CAST)
    number = Decimal(f"{whole[:before] or '0'}.{fraction[:after] or '0'}")
    number = number if after else Decimal(int(number))
    return -number if "-" in text or (form.angles and "<" in text) else number


def _number(number: Any, form: Template) -> str:
    if form.exponent:
        return _scientific(number, form)
    if form.roman:
        return _roman(number, form.bare)
    if isinstance(number, float) and (math.isnan(number) or math.isinf(number)):
        return _special(number, form)
    value = Decimal(number)
    point = form.signs.index(".") if "." in form.signs else len(form.signs)
    after = sum(s in "90" for s in form.signs[point:])
    before = sum(s in "90" for s in form.signs[:point])
    context = _BINARY if isinstance(number, float) else _EXACT
    rounded = context.quantize(value, Decimal(1).scaleb(-after))
    digits = format(rounded.copy_abs(), "f")  # abs() would round to 28 digits
    whole, _, fraction = digits.partition(".")
    whole = "" if whole == "0" and (before == 0 or (after and fraction)) else whole
    if len(whole) > before:
        whole, fraction = "#" * before, "#" * after
    return _filled(form, whole, fraction, value < 0 and (rounded != 0 or "#" in whole), point)


def _special(number: float, form: Template) -> str:
    """NaN and the infinities, in as many places as numbers have."""
    if not {*form.signs} <= {"9", "0", ".", ","}:
        raise RowFailure(ERROR_DOMAIN)
    text = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    before = form.signs.index(".") if "." in form.signs else len(form.signs)
    places = before + 1  # and the sign
    if len(text.lstrip("-")) > before:
        after = sum(s in "90" for s in form.signs[before:])
        mark = "-" if number < 0 else "" if form.bare else " "
        return mark + "#" * before + ("." + "#" * after if "." in form.signs else "")
    return text if form.bare else text.rjust(places)


def _scientific(number: Any, form: Template) -> str:
    """A number with an exponent of two digits or more, and a space for a plus sign."""
    after = len(form.signs) - form.signs.index(".") - 1 if "." in form.signs else 0
    if isinstance(number, Decimal):
        with decimal.localcontext(_EXACT):
            digits, _, power = f"{number:+.{after}e}".partition("e")
        text = f"{digits}e{int(power):+03d}"
    else:
        text = f"{float(number):+.{after}e}"
    return text.replace("+", " ", 1) if text.startswith("+") else text


def _filled(form: Template, whole: str, fraction: str, negative: bool, point: int) -> str:
    """Put the digits and the sign into their positions."""
    places = sum(s in "90" for s in form.signs[:point])
    first_zero = next((i for i, s in enumerate([s for s in form.signs[:point] if s in "90"]) if s == "0"), places)
    shown = max(len(whole), places - first_zero)
    digits = whole.rjust(shown, "0").rjust(places) + fraction
    result: list[str] = []
    used = 0
    for sign in form.signs:
        if sign in ("9", "0"):
            result.append(digits[used])
            used += 1
        elif sign == ",":
            result.append("," if used and digits[used - 1] != " " else " ")
        elif sign == ".":
            result.append(".")
        elif sign == " ":
            result.append(" ")
        else:
            result.append(_sign(sign, negative, form))
    text = "".join(result)
    if form.bare:
        text = _bare(text, form)
    text += _ending(whole or "0", form, negative)
    return _signed(text, form, negative)


def _sign(sign: str, negative: bool, form: Template) -> str:
    if sign == "MI":
        return "-" if negative else ("" if form.bare else " ")
    return "-" if negative else "+"


def _bare(text: str, form: Template) -> str:
    """FM: without spaces, and without trailing zeros where the template has 9."""
    text = text.replace(" ", "")
    if "." in form.signs:
        tail = form.signs[form.signs.index(".") + 1 :]
        digits = [s for s in tail if s in "90"]
        least = max((i + 1 for i, s in enumerate(digits) if s == "0"), default=0)
        at = text.index(".") + 1
        end = at
        while end < len(text) and text[end].isdecimal():
            end += 1
        fraction = text[at:end]
        while len(fraction) > least and fraction.endswith("0"):
            fraction = fraction[:-1]
        text = text[:at] + fraction + text[end:]
    return "0." if text == "." else text


def _ending(whole: str, form: Template, negative: bool) -> str:
    if not form.ending or negative or "." in form.signs or "#" in whole:
        return ""
    number = int(whole)
    found = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return found.upper() if form.ending == "TH" else found


def _signed(text: str, form: Template, negative: bool) -> str:
    """If the sign has no position of its own, it precedes the first digit."""
    if form.angles:
        inner = text.lstrip(" ")
        if form.bare:
            return f"<{inner}>" if negative else inner
        return " " * (len(text) - len(inner)) + f"<{inner}>" if negative else f" {text} "
    if "S" in form.signs and form.signs[0] == "S":
        sign, rest = text[0], text[1:]
        inner = rest.lstrip(" ")
        return rest[: len(rest) - len(inner)] + sign + inner
    if any(s in ("S", "SG", "MI") for s in form.signs):
        return text
    inner = text.lstrip(" ")
    space = text[: len(text) - len(inner)]
    if not negative:
        return text if form.bare else f" {text}"
    return f"{space}-{inner}"


def _roman(number: Any, bare: bool) -> str:
    value = int(_EXACT.to_integral_value(Decimal(str(number))))
    if not 0 < value < 4000:
        return "#" * 15
    result = ""
    for size, letters in ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"),
                          (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):  # fmt: skip
        result += letters * (value // size)
        value %= size
    return result if bare else result.rjust(15)
