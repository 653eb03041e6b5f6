"""Shared by the extractors of traces.

Spans repeat each other in many shapes. Their check requires that no text is lost. Each string, with
strings of JSON opened, is in the scroll at least as often as in unlisted places of the source.
"""

import collections
import json
import re

from .values import canonical, leaves, parse

OPENS = ("{", "[")
# Words of members and attributes that give a value its shape, name a role, or link two parts. They
# are not content: a scroll writes each in its own place, as often as it needs. The check of the
# leaves ensures that none is missing.
SHAPE = re.compile(
    r"(^|[._])(type|role|id|call_?id|status|object|index|finish_reason|lc|event\.name|parent_id"
    r"|mime_type|(ls_)?model(_?(name|id))?)$"
    r"|[a-z]Id$",
    re.IGNORECASE,
)


class Shape(str):
    """A word of `SHAPE` whose name is beside it and not above it."""


def held(text):
    """The JSON in a string, or None."""
    if not text.lstrip().startswith(OPENS):
        return None
    try:
        return parse(text)
    except ValueError:
        return None


def opened(value, pointer=""):
    """Strings with their pointers, including those inside strings of JSON."""
    for place, leaf in leaves(value, pointer):
        if not isinstance(leaf, str) or not leaf:
            continue
        if isinstance(leaf, Shape) or SHAPE.search(place.rpartition("/")[2]):
            continue
        inner = held(leaf)
        if inner is None:
            yield place, leaf
        else:
            yield from opened(inner, place)


def scroll_content(turns):
    found = collections.Counter()
    for _, leaf in opened(turns):
        found["text", canonical(leaf)] += 1
    return found


def is_parsed(text, strings):
    """Whether a text is compared in parsed form.

    Strings of JSON are compared text by text, as content. Words of shapes are not compared. One
    span
    may hold as JSON a text that another holds plainly.
    """
    spelled = (json.dumps(text), json.dumps(text, ensure_ascii=False))
    return held(text) is not None or text in WORDS or any(spelling in strings for spelling in spelled)


WORDS = {"tool_call_response", "function_call_output", "output_text", "function", "tool_use", "constructor"}
