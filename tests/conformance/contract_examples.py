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

    name: str
    operations: tuple[str, ...]
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str | None:
        """The error code; None for a page."""
        return str(self.body["error"]["code"]) if self.status != 200 else None


def _read(path: Path) -> Example:
    message = json.loads(path.read_text(encoding="utf-8"))
    return Example(path.stem, tuple(message["operations"]), message["status"], message["headers"], message["body"])


EXAMPLES = tuple(_read(path) for path in sorted((Path(__file__).parents[1] / "contract").glob("*.json")))
ERRORS = {example.code: example for example in EXAMPLES if example.code is not None}


def may_answer(operation: str, code: str) -> bool:
    """Return whether the contract has this error for this operation."""
    return operation in ERRORS[code].operations or (operation == MEDIA and code in _ALSO_OF_MEDIA)
