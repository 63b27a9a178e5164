"""The requests that an API received."""

from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs, unquote

from connectors.sandbox.contract import ACCOUNTS_PATH


@dataclass(slots=True)
class Asked:
    """A request: `account_id` and `surface` are None for the account list, `status` is until it is answered."""

    account_id: str | None
    surface: str | None
    cursor: str | None
    limit: str
    status: int | None = None
    correlation_id: str | None = None

    @classmethod
    def read(cls, path: str, query: bytes) -> Self:
        """Read a request of the API, which need not be valid."""
        parts = unquote(path).removeprefix(ACCOUNTS_PATH).split("/")
        values = {name: texts[0] for name, texts in parse_qs(query.decode("latin-1")).items()}
        account_id = parts[1] if len(parts) == 3 else None
        return cls(account_id, values.get("surface"), values.get("cursor"), values.get("limit", ""))

    @property
    def operation(self) -> str:
        return "accounts" if self.account_id is None else "media"

    @property
    def partition(self) -> tuple[str, str]:
        """The account and surface; both are empty for the account list."""
        return self.account_id or "", self.surface or ""

    @property
    def number(self) -> int | None:
        """The number of an account that has the id `listed.uuid(number)`."""
        return int(self.account_id[-12:]) if self.account_id else None

    def is_posts(self, number: int) -> bool:
        """Return whether a page of the posts of the account `listed.uuid(number)` was asked for."""
        return self.surface == "posts" and self.number == number
