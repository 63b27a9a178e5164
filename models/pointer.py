"""Paths into a JSON document: JSON Pointers (RFC 6901), as in `payload ->> '/owner/username'`."""

import re

Keys = tuple[str, ...]

_PLAIN = re.compile(r"\$(?:\.[^.\[\]\"*]+)+")


def to_pointer(keys: Keys) -> str:
    """Return the JSON Pointer that leads to the value under these keys.

    NUL, which SQL cannot contain, becomes the replacement character.
    """
    return "".join("/" + key.replace("~", "~0").replace("/", "~1").replace("\0", "\ufffd") for key in keys)


def to_keys(path: str) -> Keys:
    """Return the keys of a path in either notation: `/owner/username` or `$.owner.username`.

    Raises ValueError for anything else.
    """
    if path.startswith("/"):
        return tuple(key.replace("~1", "/").replace("~0", "~") for key in path[1:].split("/"))
    if _PLAIN.fullmatch(path):
        return tuple(path[2:].split("."))
    raise ValueError(f"{path!r} is not a path; use $.owner.username or the JSON Pointer /owner/username")
