"""Random JSON texts from a seed, one a line: every class of number, string, name and spelling.

    python3 random_json.py SEED COUNT > documents.jsonl

The same seed gives the same texts everywhere. It uses only `random()` and `getrandbits()`, which
Python
keeps stable. Texts are I-JSON: no name twice, no lone surrogate, no number beyond the range of
doubles.
All other features of JSON occur, also in the spelling (blanks, escapes, digits).
"""

import json
import random
import struct
import sys

MAX_DEPTH = 7
DEEP = 60

# Characters at which canonical form, escapes or the order of UTF-16 change.
MARKS = [
    *map(chr, range(0x20)),
    *'"\\/ !#~\x7f\x80\x85\xa0\xad\u200b\u200f\u2028\u2029\ufeff\ufffd\ufffe\uffff',
    *"aAbBzZ019_-.:,[]{}",
    *"éßΩЖאअ中한\u0301\u20ac\ud7ff\ue000\uf8ff\ufb33\uff5e",
    *"\U00010000\U0001f600\U0001f469\U000e0001\U000fffff\U00100000\U0010ffff",
]
RANGES = [(0x20, 0x7F), (0xA0, 0x24F), (0x370, 0x5FF), (0x4E00, 0x9FFF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF)]
WORDS = ["file", "file name", "file!", "id", "name", "args", "content", "role", "__proto__", "toJSON", "constructor", "length", "0", "10", "9", ""]
NUMBERS = [
    "0", "-0", "0.0", "-0.0", "0e0", "1", "-1", "1.0", "10e-1", "1E20", "1e21", "1e+21", "1E+21",
    "999999999999999999999", "1000000000000000000000", "9007199254740991", "9007199254740992", "9007199254740993",
    "-9007199254740993", "18446744073709551615", "18446744073709551616", "1700000000000000001", "4.35", "0.1", "0.3",
    "1e-6", "1e-7", "0.000001", "0.0000001", "5e-324", "4.9406564584124654e-324", "2.2250738585072014e-308",
    "2.225073858507201e-308", "1.7976931348623157e308", "1.7976931348623158e308", "1e23", "1e22", "9.5e-7",
    "123456789012345678901234567890", "0." + "0" * 40 + "1", "1" + "0" * 60, "1e-400", "333333333.33333329", "2e-3",
]


class Dice:
    """Draws from a seed."""

    def __init__(self, seed):
        source = random.Random(seed)
        self.random, self.bits = source.random, source.getrandbits

    def below(self, bound):
        return int(self.random() * bound)

    def pick(self, choices):
        return choices[int(self.random() * len(choices))]


def number(dice):
    """One literal."""
    kind = dice.below(10)
    if kind < 3:
        return str(dice.below(10 ** (1 + dice.below(6))) - 50)
    if kind == 3:
        return dice.pick(NUMBERS)
    if kind == 4:
        return str(dice.bits(1 + dice.below(120)) * (1 - 2 * dice.bits(1)))
    if kind == 5:
        return respelled(dice, double(dice))
    if kind == 6:
        # A decimal next to the middle of two doubles.
        value = abs(double(dice)) or 1.0
        return f"{value:.{15 + dice.below(5)}e}"
    if kind == 7:
        return repr(dice.below(10**6) / 10 ** dice.below(6))
    if kind == 8:
        return f"{dice.random() * 10 ** (dice.below(40) - 20):.{dice.below(18)}f}"
    return repr(float(dice.bits(1 + dice.below(70))))


def double(dice):
    """Any finite double, with every exponent equally likely."""
    while True:
        (value,) = struct.unpack("<d", dice.bits(64).to_bytes(8, "little"))
        if abs(value) <= 1.7976931348623157e308:
            return value


def respelled(dice, value):
    """A second spelling of a double in JSON."""
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text
    if dice.bits(1):
        mantissa = mantissa if "." in mantissa else mantissa + ".0"
        mantissa += "0" * dice.below(3)
    sign = "" if exponent[0] == "-" else dice.pick(["", "+"])
    return f"{mantissa}{dice.pick('eE')}{sign}{exponent.lstrip('+')}"


def characters(dice):
    """The content of one string."""
    if dice.below(3) == 0:
        return dice.pick(WORDS)
    length = dice.below(4 if dice.bits(1) else 24)
    text = []
    for _ in range(length):
        kind = dice.below(4)
        if kind == 0:
            text.append(dice.pick(MARKS))
        elif kind == 1:
            low, high = dice.pick(RANGES)
            text.append(chr(low + dice.below(high - low)))
        else:
            text.append(chr(0x61 + dice.below(26)))
    return "".join(text)


def spelled(dice, text):
    """A string in some spelling: raw, all escaped, or here and there."""
    kind = dice.below(4)
    if kind < 2:
        return json.dumps(text, ensure_ascii=kind == 0)
    out = ['"']
    for character in text:
        if kind == 2 and dice.bits(1) and character not in '"\\' and character >= " ":
            out.append(character)
        elif character == "/" and dice.bits(1):
            out.append("\\/")
        elif kind == 2 and character in '"\\\b\f\n\r\t':
            out.append(json.dumps(character)[1:-1])
        else:
            units = character.encode("utf-16-be")
            for at in range(0, len(units), 2):
                digits = units[at : at + 2].hex()
                out.append("\\u" + (digits.upper() if dice.bits(1) else digits))
    out.append('"')
    return "".join(out)


def blanks(dice):
    return "" if dice.below(8) else dice.pick([" ", "  ", "\t", "\r", " \t "])


def value(dice, depth):
    """The text of one value."""
    kind = dice.below(10 if depth < MAX_DEPTH else 7)
    if kind < 3:
        return spelled(dice, characters(dice))
    if kind < 6:
        return number(dice)
    if kind == 6:
        return dice.pick(["true", "false", "null", "{}", "[]", "[ ]", "{ }"])
    if kind == 7:
        items = [value(dice, depth + 1) for _ in range(dice.below(5))]
        return "[" + f"{blanks(dice)},{blanks(dice)}".join(items) + "]"
    return members(dice, depth)


def members(dice, depth):
    names = list(dict.fromkeys(characters(dice) for _ in range(dice.below(7))))
    if dice.below(4) == 0:
        names.sort()
    pairs = [
        f"{blanks(dice)}{spelled(dice, name)}{blanks(dice)}:{blanks(dice)}{value(dice, depth + 1)}{blanks(dice)}"
        for name in names
    ]
    return "{" + ",".join(pairs) + "}"


def document(dice):
    """One text."""
    kind = dice.below(1000)
    if kind == 0:
        # Deep, but within the 128 levels that all readers accept.
        levels = dice.below(DEEP)
        opens = [dice.pick(["[", '{"a":', '[0,{"\\u0062":']) for _ in range(levels)]
        closes = {"[": "]", '{"a":': "}", '[0,{"\\u0062":': "}]"}
        return "".join(opens) + number(dice) + "".join(closes[o] for o in reversed(opens))
    if kind == 1:
        return spelled(dice, characters(dice) * (1 + dice.below(400)))
    return value(dice, 0) if kind < 120 else members(dice, 0)


def documents(seed, count):
    dice = Dice(seed)
    for _ in range(count):
        yield document(dice)


if __name__ == "__main__":
    for text in documents(int(sys.argv[1]), int(sys.argv[2])):
        sys.stdout.buffer.write(text.encode() + b"\n")
