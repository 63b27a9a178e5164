"""The contract's literal examples, and rules for every response that follow from them, without gramhouse's own code."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCOUNTS = "accounts.list"
MEDIA = "accounts.media.list"

# By section 8 these apply to every list operation; section 7 lists them for the account list only.
_ALSO_OF_MEDIA = {"api_invalid_cursor", "api_invalid_limit", "rate_limited"}


@dataclass(frozen=True)
class Example:
    """A file in tests/contract."""

    operations: list[str]
    status: int
    headers: dict[str, str]
    body: Any


_FILES = sorted((Path(__file__).parents[1] / "contract").glob("*.json"))
_EXAMPLES = [Example(**json.loads(path.read_text(encoding="utf-8"))) for path in _FILES]
ERRORS: dict[str, Example] = {one.body["error"]["code"]: one for one in _EXAMPLES if one.status != 200}


def may_answer(operation: str, code: str) -> bool:
    """Return whether the contract has this error for this operation."""
    return operation in ERRORS[code].operations or (operation == MEDIA and code in _ALSO_OF_MEDIA)
