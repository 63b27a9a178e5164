"""The contract's literal examples, and what they say of every answer: no code of ours is asked."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCOUNTS = "accounts.list"
MEDIA = "accounts.media.list"

# Rules 4 and 5 of section 8 speak of every list operation; section 7 shows these two for the account list only.
_ALSO_OF_MEDIA = {"api_invalid_cursor", "api_invalid_limit"}


@dataclass(frozen=True)
class Example:
    """One file of tests/contract."""

    name: str
    operations: tuple[str, ...]
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str | None:
        """The error's code; None for a page."""
        return str(self.body["error"]["code"]) if self.status != 200 else None


def _read(path: Path) -> Example:
    told = json.loads(path.read_text(encoding="utf-8"))
    return Example(path.stem, tuple(told["operations"]), told["status"], told["headers"], told["body"])


EXAMPLES = tuple(_read(path) for path in sorted((Path(__file__).parents[1] / "contract").glob("*.json")))
ERRORS = {example.code: example for example in EXAMPLES if example.code is not None}


def may_answer(operation: str, code: str) -> bool:
    """Whether the contract shows this error for this operation."""
    return operation in ERRORS[code].operations or (operation == MEDIA and code in _ALSO_OF_MEDIA)
