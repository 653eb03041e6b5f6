"""What the extractors of traces share.

Spans repeat each other in many shapes. Of them it is demanded that no text is lost: each string,
strings of JSON opened, is in the scroll at least as often as the source has it at places that the
account does not list.
"""

import collections
import json

from .values import canonical, leaves, parse

OPENS = ("{", "[")
# Members whose words give a value its shape: a scroll has words of its own for them.
SHAPE = ("type", "role", "id", "call_id", "status", "object", "index", "finish_reason", "lc", "event.name")


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
        if not isinstance(leaf, str) or not leaf or place.rpartition("/")[2] in SHAPE:
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


def is_parsed(text, _strings):
    """Strings of JSON are compared text by text, as content; words of shapes are not compared."""
    return held(text) is not None or text in WORDS


WORDS = {"tool_call_response", "function_call_output", "output_text", "function", "tool_use", "constructor"}
