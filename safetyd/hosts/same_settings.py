"""Compares settings by their content, without comments and layout."""

import json

from safetyd.hosts import json_text


def same_settings(one: str, other: str, *, ordered: bool = False) -> bool:
    """Return whether two files have the same settings; with `ordered`, in the same order."""
    if one == other:
        return True
    try:
        first, second = json_text.parse(one), json_text.parse(other)
    except json_text.NotJson:
        return False
    if ordered:
        return json.dumps(first) == json.dumps(second)
    return _sorted(first) == _sorted(second)


def _sorted(value: object) -> object:
    match value:
        case dict(members):
            return {key: _sorted(member) for key, member in members.items()}
        case list(items):
            return sorted(map(_sorted, items), key=lambda item: json.dumps(item, sort_keys=True))
    return value
