"""Strings and numbers of a schema as expressions."""

import math
from collections.abc import Sequence
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction

from omnidraft.errors import GrammarError
from omnidraft.grammar import json_text, numbers
from omnidraft.grammar.automaton import compile_expression, difference, intersection
from omnidraft.grammar.budget import Budget
from omnidraft.grammar.expression import Embedded, Expression, choice
from omnidraft.grammar.regex import parse_regex
from omnidraft.grammar.schema.constraints import Constraints
from omnidraft.grammar.schema.values import is_number

MOST_MULTIPLE, MOST_PLACES = 1000, 15
_OF_NUMBERS = ("int32", "int64", "float", "double")  # of OpenAPI; all integers of a grammar are int64
_DAY = r"(0[1-9]|1\d|2[0-8])"
_YEAR = r"(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d\d\d)"
_DATE = rf"{_YEAR}-(((0[13578]|1[02])-({_DAY}|29|30|31))|((0[469]|11)-({_DAY}|29|30))|(02-{_DAY}))"
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+\-]([01]\d|2[0-3]):[0-5]\d)"
_BYTE = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_LABEL = r"[A-Za-z0-9](-?[A-Za-z0-9]){0,30}"
FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": rf"{_DATE}T{_TIME}",
    "email": rf"[A-Za-z0-9_+\-]+(\.[A-Za-z0-9_+\-]+)*@{_LABEL}(\.{_LABEL})+",
    "hostname": rf"{_LABEL}(\.{_LABEL}){{0,5}}",
    "ipv4": rf"{_BYTE}\.{_BYTE}\.{_BYTE}\.{_BYTE}",
    "ipv6": r"([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "uri": r"https?://[A-Za-z0-9\-]+(\.[A-Za-z0-9\-]+)*(:\d{1,5})?(/[A-Za-z0-9_.~!$&'()*+,;=:@\-]*)*"
    r"(\?[A-Za-z0-9_.~!$&'()*+,;=:@/?\-]*)?(#[A-Za-z0-9_.~!$&'()*+,;=:@/?\-]*)?",
    "duration": r"P(\d{1,4}Y)?(\d{1,4}M)?\d{1,4}D(T(\d{1,4}H)?(\d{1,4}M)?\d{1,4}S)?",
}
_POINTER = r"(/([A-Za-z0-9_.\-]|~0|~1)*)*"
FORMATS |= {
    "idn-email": FORMATS["email"],
    "idn-hostname": r"[A-Za-z0-9]{1,30}(\.[A-Za-z0-9]{1,30}){0,5}",
    "iri": FORMATS["uri"],
    "iri-reference": FORMATS["uri"],
    "uri-reference": FORMATS["uri"],
    "uri-template": FORMATS["uri"],
    "json-pointer": _POINTER,
    "relative-json-pointer": rf"(0|[1-9]\d?)(#|{_POINTER})",
    "regex": r"[A-Za-z0-9 _]*",
}


def format_patterns(of: Constraints, place: str) -> list[str]:
    """Patterns of texts that have the formats of constraints; a format that nobody defines asks nothing.

    Raises:
        GrammarError: a format is nearly one that is defined.
    """
    names = [name for name in of.get("format", ()) if name not in _OF_NUMBERS]
    for name in names:
        if name not in FORMATS and (meant := get_close_matches(name, FORMATS, 1, 0.8)):
            raise GrammarError(f"the schema at {place} has the format {name!r:.40}", f"write {meant[0]}")
    return [FORMATS[name] for name in names if name in FORMATS]


def characters(of: Constraints, place: str, budget: Budget) -> Expression:
    """What constraints allow between the quotation marks of a string."""
    least, most = of.get("minLength", 0), of.get("maxLength")
    parts = [parse_regex(each, json_text.character, anchored=False) for each in of.get("pattern", ())]
    parts += [parse_regex(each, json_text.character, anchored=True) for each in format_patterns(of, place)]
    if least or most is not None or not parts:
        if most is not None and most < least:
            return choice(())
        parts.append(json_text.characters(least, most))
    without = [
        parse_regex(each, json_text.character, anchored=False, outer=True)
        for each in of.get("no_pattern", ())
    ]
    without += [json_text.content(each) for each in of.get("except", ()) if isinstance(each, str)]
    if len(parts) == 1 and not without:
        return parts[0]
    found = compile_expression(parts[0], budget)
    for each in parts[1:]:
        found = intersection(found, compile_expression(each, budget), budget)
    for each in without:
        found = difference(found, compile_expression(each, budget), budget)
    return Embedded(found)


def number(kind: str, of: Constraints, place: str, budget: Budget) -> Expression:
    """The numbers of a type, number or integer, that constraints allow."""
    (least, above), (most, below) = of.get("least", (None, False)), of.get("most", (None, False))
    least, most = None if least is None else Decimal(least), None if most is None else Decimal(most)
    for name in of.get("format", ()):
        if name == "int32":
            least, above = (Decimal(-(2**31)), False) if least is None or least < -(2**31) else (least, above)
            most, below = (Decimal(2**31 - 1), False) if most is None or most >= 2**31 else (most, below)
    multiple = _multiple_of([Fraction(each) for each in of.get("multipleOf", ())])
    if kind == "integer" or (multiple is not None and multiple.denominator == 1):
        low = None if least is None else numbers.ceiling(least) + (above and least == numbers.ceiling(least))
        high = None if most is None else numbers.floor(most) - (below and most == numbers.floor(most))
        multiple, places = Fraction(1) if multiple is None else Fraction(multiple.numerator), 0
        found = numbers.integers(low, high)
    else:
        places = numbers.MOST_DIGITS if multiple is None else _places(multiple)
        exceptions = [each for each in of.get("except", ()) if is_number(each)]
        if least is None and most is None and multiple is None and not exceptions:
            return numbers.any_number()
        found = numbers.decimals(least, most, above=above, below=below, places=places)
    scale = 10**places
    if multiple is not None and multiple * scale != 1:
        whole = multiple * scale
        if whole.denominator != 1 or whole > MOST_MULTIPLE or places > MOST_PLACES:
            raise GrammarError(
                f"the schema at {place} has multipleOf {', '.join(of['multipleOf'])}, which is not supported",
                f"multiples of up to {MOST_MULTIPLE} units of the last digit are",
            )
        machine = numbers.multiples(int(whole), places)
        found = Embedded(intersection(compile_expression(found, budget), machine, budget))
    for each in of.get("except", ()):
        if is_number(each):
            taken = compile_expression(numbers.writings(Decimal(repr(each))), budget)
            found = Embedded(difference(compile_expression(found, budget), taken, budget))
    return found


def _multiple_of(all_: Sequence[Fraction]) -> Fraction | None:
    """The number of which the multiples are those of all numbers; None where there is none."""
    if not all_:
        return None
    scale = math.lcm(*(each.denominator for each in all_))
    return Fraction(math.lcm(*(int(each * scale) for each in all_)), scale)


def _places(of: Fraction) -> int:
    """The digits of the fraction of a decimal number."""
    places = 0
    while of.denominator != 1 and places <= MOST_PLACES:
        of, places = of * 10, places + 1
    return places
