"""Numbers as Catalan writes them: `1.234,5`, `12,3 %`, `1,2·10⁻⁴`.

The page's side is ui/numbers.ts; tests/number_cases.json states the rules and holds both to the same cases.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_UP, Decimal
from string import Formatter
from typing import Any

MINUS, NO_BREAK_SPACE, NO_VALUE, MIDDLE_DOT = "\u2212", "\u00a0", "\u2013", "\u00b7"
SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
FORMATS = ("percent", "percent-value", "integer", "year", "number", "scientific", "signed")
SIGNIFICANT_DIGITS = 3


def _round(value: Decimal, decimals: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP)


def _plain(value: Decimal, decimals: int, *, trim: bool, group: bool = True) -> str:
    """The rounded value with comma and points; a value rounded to zero has no sign."""
    rounded = _round(value, decimals)
    whole, _, fraction = f"{abs(rounded):f}".partition(".")
    if trim:
        fraction = fraction.rstrip("0")
    if group:
        whole = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", ".", whole)
    sign = MINUS if rounded < 0 else ""
    return sign + whole + ("," + fraction if fraction else "")


def _scientific(value: Decimal, digits: int | None) -> str:
    if value == 0:
        return "0"
    decimals = 1 if digits is None else digits
    exponent = value.adjusted()
    mantissa = _round(value.scaleb(-exponent), decimals)
    if abs(mantissa) >= 10:
        exponent += 1
        mantissa = _round(value.scaleb(-exponent), decimals)
    text = _plain(mantissa, decimals, trim=digits is None)
    return text if exponent == 0 else f"{text}{MIDDLE_DOT}10{str(exponent).translate(SUPERSCRIPTS)}"


def _number(value: Decimal, digits: int | None) -> str:
    if digits is not None:
        lost = value != 0 and _round(value, digits) == 0
        return _scientific(value, None) if lost else _plain(value, digits, trim=False)
    if value == 0:
        return "0"
    exponent = value.adjusted()
    significant = _round(value, SIGNIFICANT_DIGITS - 1 - exponent)
    exponent = significant.adjusted()
    if exponent < -3 or exponent >= 9:
        return _scientific(value, None)
    return _plain(value, max(0, SIGNIFICANT_DIGITS - 1 - exponent), trim=True)


def _percent(share: Decimal, digits: int | None, *, of_share: bool) -> str:
    decimals = 1 if digits is None else digits
    per_cent = share.scaleb(2) if of_share else share
    unit = f"{NO_BREAK_SPACE}%"
    if of_share and 0 < share < 1:
        least = Decimal(1).scaleb(-decimals)
        rounded = _round(per_cent, decimals)
        if rounded == 0:
            return f"<{_plain(least, decimals, trim=False)}{unit}"
        if rounded == 100:
            return f">{_plain(100 - least, decimals, trim=False)}{unit}"
    return _plain(per_cent, decimals, trim=digits is None) + unit


def format_number(value: float | None, format: str = "number", digits: int | None = None) -> str:
    """A number as the page shows it. Raises ValueError for an unknown format; a dash for None and non-finite values."""
    if format not in FORMATS:
        raise ValueError(f"unknown number format {format!r}: expected one of {', '.join(FORMATS)}")
    if value is None or not math.isfinite(value):
        return NO_VALUE
    exact = Decimal(value) if isinstance(value, int | float) else Decimal(float(value))
    if format == "percent":
        return _percent(exact, digits, of_share=True)
    if format == "percent-value":
        return _percent(exact, digits, of_share=False)
    if format == "integer":
        return _plain(exact, 0, trim=False)
    if format == "year":
        return _plain(exact, 0, trim=False, group=False)
    if format == "scientific":
        return _scientific(exact, digits)
    text = _number(exact, digits)
    return "+" + text if format == "signed" and text[0] != MINUS and text.strip("0,") else text


class _CatalanFormatter(Formatter):
    """Fills `{name:format}` or `{name:format.digits}`; names may hold hyphens."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        if field_name not in kwargs:
            raise KeyError(f"the text asks for {{{field_name}}}, and there are only {', '.join(kwargs)}")
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if not format_spec:
            return str(value)
        format, _, digits = format_spec.partition(".")
        return format_number(value, format, int(digits) if digits else None)


def fill(template: str, values: dict[str, Any]) -> str:
    """A text of the labels with its numbers in Catalan. Raises KeyError or ValueError when text and values disagree."""
    return _CatalanFormatter().vformat(template, (), values)
