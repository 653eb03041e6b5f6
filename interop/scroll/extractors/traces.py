"""What the extractors of traces share.

Spans repeat each other in many shapes. Of them it is demanded that no text is lost: each string,
strings of JSON opened, is in the scroll at least as often as the source has it at places that the
account does not list.
"""

import collections
import json
import re

from .values import canonical, leaves, parse

OPENS = ("{", "[")
# Members and attributes whose words give a value its shape, name who spoke, or link one part to
# another: no content, and a scroll says each in a place and as often as it needs. That none is
# missing is what the check of the leaves looks at.
SHAPE = re.compile(
    r"(^|[._])(type|role|id|call_?id|status|object|index|finish_reason|lc|event\.name|parent_id"
    r"|mime_type|(ls_)?model(_?(name|id))?)$"
    r"|[a-z]Id$",
    re.IGNORECASE,
)


class Shape(str):
    """A word of `SHAPE` whose name stands beside it and not above it."""


def held(text):
    """The JSON that a string holds, or None."""
    if not text.lstrip().startswith(OPENS):
        return None
    try:
        return parse(text)
    except ValueError:
        return None


def opened(value, pointer=""):
    """Strings with their pointers, those inside of strings of JSON too."""
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
    """Strings of JSON are compared text by text, as content; words of shapes are not compared. One
    span may say as JSON what another says plainly."""
    spelled = (json.dumps(text), json.dumps(text, ensure_ascii=False))
    return held(text) is not None or text in WORDS or any(spelling in strings for spelling in spelled)


WORDS = {"tool_call_response", "function_call_output", "output_text", "function", "tool_use", "constructor"}
