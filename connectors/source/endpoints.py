"""The two operations, without IO: what is requested, as values (API 4)."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from models.feeds import Feed

ACCOUNTS: Final = "accounts.list"

CATALOGUE_SCOPE: Final = "account_catalog"
"""The rate-limit scope of the account list (API 4.1)."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One GET request: the percent-encoded path below the base URL, the parameters and the rate-limit scope."""

    operation: str
    path: str
    params: tuple[tuple[str, str], ...]
    scope: str


def accounts_request(cursor: str | None, limit: int) -> ApiRequest:
    """Build the request for a page of the key's accounts (API 4.1)."""
    return ApiRequest(ACCOUNTS, "/api/v1/accounts", _paging(cursor, limit), CATALOGUE_SCOPE)


def account_scope(account_id: str) -> str:
    """Return the rate-limit scope of an account (API 4.2). The case of the id, a UUID, makes no difference."""
    return f"selected_account:{account_id.lower()}"


def feed_request(feed: Feed, account_id: str, cursor: str | None, limit: int) -> ApiRequest:
    """Build the request for a page of one account's feed (API 4.2).

    Raises ValueError if the id is not valid as a path segment.
    """
    if account_id in {"", ".", ".."}:
        # Dots are never percent-encoded, and servers resolve them: the request would go to another path.
        raise ValueError("an account id is neither empty nor dots")
    path = feed.path.format(account_id=quote(account_id, safe=""))
    return ApiRequest(feed.operation, path, (*feed.parameters, *_paging(cursor, limit)), account_scope(account_id))


def _paging(cursor: str | None, limit: int) -> tuple[tuple[str, str], ...]:
    # API 8 rule 2: the cursor is sent unchanged.
    return (*((("cursor", cursor),) if cursor is not None else ()), ("limit", str(limit)))
