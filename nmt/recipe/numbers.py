"""Numbers that YAML 1.1 reads unexpectedly: 010 is 8, 1:30 is 90.

Such numbers are refused in recipes and on the command line, where 010 would be 10. So are integers
of more than 64 bits.
"""

from __future__ import annotations

import re
from itertools import chain

import yaml

TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
WIDEST = 2**64
ZERO = re.compile(r"[-+]?0[0-9_]+")
ODD = "a number without ':' or a zero in front, or text in quotes"


def misread(node: yaml.Node | None) -> str | None:
    """The message on a number in a node that is refused: what was expected and what came; otherwise
    None.

    Raises ValueError for an integer with too many digits.
    """
    if isinstance(node, yaml.CollectionNode):
        is_mapping = isinstance(node, yaml.MappingNode)  # its value is a list of pairs
        children = chain.from_iterable(node.value) if is_mapping else node.value
        return next(filter(None, map(misread, children)), None)
    if node is None or node.tag not in TAGS:
        return None
    value = yaml.safe_load(node.value)
    if ":" in node.value or ZERO.fullmatch(node.value):
        return f"{ODD}, got {node.value}, which YAML reads as {value}"
    if isinstance(value, int) and abs(value) >= WIDEST:
        return f"a number of at most 64 bits, got {node.value}"
    return None


def misread_text(text: str) -> str | None:
    """As `misread`, for text from the command line or in quotes, if the key does not hold text."""
    if ZERO.fullmatch(text):
        return f"a number without a zero in front, got {text!r}"
    try:
        return misread(yaml.compose(text, yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None  # reported elsewhere
