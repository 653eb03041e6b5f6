"""Canonicalizes each line of the standard input with the PyPI package `rfc8785`."""

import json
import sys

import rfc8785

SAFE = 2**53 - 1


def integer(literal):
    """A number as RFC 8785 has it. Beyond 2^53 only the double remains; the package requires this.
    """
    value = int(literal) if len(literal) < 18 else float(literal)
    return value if abs(value) <= SAFE else float(value)


for line in sys.stdin.buffer:
    sys.stdout.buffer.write(rfc8785.dumps(json.loads(line, parse_int=integer)) + b"\n")
