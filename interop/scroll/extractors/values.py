"""JSON values for comparison: numbers keep their literal, texts are compared in the form of a
scroll.
"""

import decimal
import json
import math

DEEPEST = 112


class Number:
    """A number with its literal; equal if the doubles are."""

    def __init__(self, literal):
        self.literal = literal
        self.double = float(literal)

    def is_exact(self):
        if not math.isfinite(self.double):
            return False
        return decimal.Decimal(self.literal) == decimal.Decimal(repr(self.double))

    def __eq__(self, other):
        return isinstance(other, Number) and self.double == other.double

    def __hash__(self):
        return hash(self.double)

    def __str__(self):
        return self.literal


def parse(text):
    """One JSON text; raises ValueError."""
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number)


def lines(source):
    """The lines of JSON Lines that are objects, counted from 1."""
    for number, line in enumerate(source.split(b"\n"), 1):
        try:
            record = parse(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield number, record


def canonical(value, depth=0):
    """One spelling for each value, after the changes of a scroll: see "altered" in the account."""
    if isinstance(value, dict):
        inner = sorted(f"{json.dumps(k)}:{canonical(v, depth + 1)}" for k, v in value.items())
        return "{" + ",".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(v, depth + 1) for v in value) + "]"
    if isinstance(value, Number):
        return repr(value.double) if value.is_exact() else json.dumps(value.literal)
    return json.dumps(value)


def leaves(value, pointer=""):
    """Strings and numbers with their JSON Pointers, without the names of members."""
    if isinstance(value, dict):
        for name, member in value.items():
            escaped = name.replace("~", "~0").replace("/", "~1")
            yield from leaves(member, f"{pointer}/{escaped}")
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from leaves(element, f"{pointer}/{index}")
    elif isinstance(value, (str, Number)):
        yield pointer, value


def texts(value, pointer):
    """All strings below a place as content of the kind "text"."""
    for place, leaf in leaves(value, pointer):
        if isinstance(leaf, str):
            yield place, "text", leaf
