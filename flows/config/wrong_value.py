"""Why the value of a setting is rejected, in plainer words than pydantic's."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic.fields import FieldInfo

_NUMBERS: Final = ("int_", "float_", "finite_number", "greater_than", "less_than")

_WORDS: Final[Mapping[str, str]] = {
    "missing": "it is missing",
    "string_type": "it must be text",
    "string_unicode": "it is not UTF-8",
    "path_type": "it must be a path",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "list_type": "it must be a list",
    "tuple_type": "it must be a list",
    "dict_type": "it must be a table",
    "model_type": "it must be a table",
}


def why(error: Mapping[str, Any], field: FieldInfo | None) -> str:
    """Return why a value is rejected, from pydantic's error and the field; None for a value inside a setting."""
    if field is not None and error["type"].startswith(_NUMBERS):
        kind = "a whole number" if int in {field.annotation, *get_args(field.annotation)} else "a number"
        return f"it must be {kind} {number_range(field)}"
    message = str(error["msg"]).removeprefix("Value error, ")
    return _WORDS.get(error["type"], f"{message[:1].lower()}{message[1:]}")


def refusal(reason: str, given: str = "", fix: str = "change it") -> str:
    """Return a reason, the value and the fix as sentences. A fix in the reason, after a semicolon, has precedence."""
    what, _, own = reason.partition("; ")
    return f"{what}{given}. Fix: {own or fix}."


def default_fix(field: FieldInfo | None) -> str:
    """Return the fix for a value whose reason contains none; the field is None for a value inside a setting."""
    default = None if field is None else field.default
    if default is None:
        return "change it, or remove it"
    return f"change it; the default is {str(default).lower() if isinstance(default, bool) else default}"


def limits(field: FieldInfo) -> dict[str, Any]:
    """Return the limits of a number, by the name of their parameter of pydantic's Field: ge, gt, le."""
    found: dict[str, Any] = {}
    for constraint in field.metadata:
        found |= {name: limit for name in ("ge", "gt", "le") if (limit := getattr(constraint, name, None)) is not None}
    return found


def number_range(field: FieldInfo) -> str:
    """Return the limits of a number in words."""
    bounds = limits(field)
    least = f"above {bounds['gt']}, at most" if "gt" in bounds else f"from {bounds['ge']} to"
    return f"{least} {bounds['le']}"
