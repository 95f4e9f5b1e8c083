"""Strings and numbers of a schema as expressions."""

from collections.abc import Mapping
from typing import Any

from omnidraft.errors import GrammarError
from omnidraft.grammar import json_text, numbers
from omnidraft.grammar.automaton import Budget, compile_expression, intersection, is_empty
from omnidraft.grammar.expression import Embedded, Expression
from omnidraft.grammar.regex import parse_regex
from omnidraft.grammar.schema_values import bound_of, count_of, decimal_of, text_of

MOST_LENGTH, MOST_MULTIPLE = 4000, 1000
_DAY = r"(0[1-9]|1\d|2[0-8])"
_DATE = rf"\d{{4}}-(((0[13578]|1[02])-({_DAY}|29|30|31))|((0[469]|11)-({_DAY}|29|30))|(02-{_DAY}))"
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+\-]([01]\d|2[0-3]):[0-5]\d)"
_BYTE = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9\-]{0,30}[A-Za-z0-9])?"
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


def characters(node: Mapping[str, Any], place: str, budget: Budget) -> Expression:
    """What a schema allows between the quotation marks of a string."""
    least = count_of(node, "minLength", 0, MOST_LENGTH, place)
    most = count_of(node, "maxLength", None, MOST_LENGTH, place)
    machines = []
    if "pattern" in node:
        pattern = text_of(node["pattern"], place, "pattern")
        machines.append(parse_regex(pattern, json_text.character, anchored=False))
    if "format" in node:
        name = text_of(node["format"], place, "format")
        if name not in FORMATS:
            raise GrammarError(
                f"the schema at {place} has the format {name!r:.40}, which is not supported; "
                f"there are {', '.join(FORMATS)}"
            )
        machines.append(parse_regex(FORMATS[name], json_text.character, anchored=True))
    assert least is not None
    if not machines:
        if most is not None and most < least:
            raise GrammarError(f"the schema at {place} allows no string: minLength {least}, maxLength {most}")
        return json_text.characters(least, most)
    if least or most is not None:
        machines.append(json_text.characters(least, most))
    if len(machines) == 1:
        return machines[0]
    found = compile_expression(machines[0], budget)
    for each in machines[1:]:
        found = intersection(found, compile_expression(each, budget), budget)
    if is_empty(found):
        raise GrammarError(f"the schema at {place} allows no string")
    return Embedded(found)


def number(kind: str, node: Mapping[str, Any], place: str, budget: Budget) -> Expression:
    """The numbers of a schema of type number or integer."""
    least, above = bound_of(node, "minimum", "exclusiveMinimum", place, max)
    most, below = bound_of(node, "maximum", "exclusiveMaximum", place, min)
    multiple = None if "multipleOf" not in node else decimal_of(node["multipleOf"], place, "multipleOf")
    if multiple is not None and multiple <= 0:
        raise GrammarError(f"the schema at {place} has multipleOf {multiple}, which is not above 0")
    whole = multiple is not None and multiple == multiple.to_integral_value()
    if kind == "number" and not whole:
        places = numbers.MOST_DIGITS
        if multiple is not None:
            digits, exponent = multiple.normalize().as_tuple()[1:]
            if digits != (1,) or not isinstance(exponent, int) or -exponent > numbers.MOST_DIGITS:
                raise GrammarError(
                    f"the schema at {place} has multipleOf {multiple}; 0.1, 0.01 and so on are supported"
                )
            places = -exponent
        if least is None and most is None and multiple is None:
            return numbers.any_number()
        found = numbers.decimals(least, most, above=above, below=below, places=places)
    else:
        low = None if least is None else numbers.ceiling(least) + (above and least == numbers.ceiling(least))
        high = None if most is None else numbers.floor(most) - (below and most == numbers.floor(most))
        found = numbers.integers(low, high)
        if multiple is not None and (kind == "number" or whole) and multiple != 1:
            if not whole or multiple > MOST_MULTIPLE:
                raise GrammarError(
                    f"the schema at {place} has multipleOf {multiple}",
                    f"whole numbers up to {MOST_MULTIPLE} are supported",
                )
            both = intersection(compile_expression(found, budget), numbers.multiples(int(multiple)), budget)
            found = Embedded(both)
        elif multiple is not None and not whole:
            inverse = 1 / multiple
            if (
                inverse != inverse.to_integral_value()
            ):  # such as 0.3: its integer multiples are not all integers
                raise GrammarError(f"the schema at {place} has multipleOf {multiple} for integers")
    if is_empty(compile_expression(found, budget)):
        raise GrammarError(f"the schema at {place} allows no number")
    return found
