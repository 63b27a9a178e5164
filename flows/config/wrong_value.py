"""Why the value of a setting or option is rejected, as a sentence with the fix."""

from collections.abc import Mapping
from typing import Any, get_args

from pydantic.fields import FieldInfo


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


def why(error: Mapping[str, Any], field: FieldInfo | None) -> str:
    """Return why a value is rejected, from pydantic's error and the field; None for a value inside a setting."""
    if field is not None and "le" in limits(field) and error["type"] != "value_error":
        kind = "a whole number" if int in {field.annotation, *get_args(field.annotation)} else "a number"
        return f"it must be {kind} {number_range(field)}"
    if error["type"] == "bool_parsing":
        return "it must be true or false"
    message = str(error["msg"]).removeprefix("Value error, ").replace("Input should", "it must")
    return f"{message[:1].lower()}{message[1:]}"


def refusal(reason: str, given: str = "", field: FieldInfo | None = None) -> str:
    """Return a reason, the value and the fix as sentences. A fix in the reason, after a semicolon, has precedence."""
    what, _, own = reason.partition("; ")
    fix = "change it, or remove it"
    if field is not None and (default := field.default) is not None:
        fix = f"change it; the default is {str(default).lower() if isinstance(default, bool) else default}"
    return f"{what}{given}. Fix: {own or fix}."
