"""The responses that the contract allows for a request, derived from the request alone (API 4, 5, 7, 8)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.conformance.contract_examples import ACCOUNTS, MEDIA

PAGE = ""
_PATH = re.compile(r"/api/v1/accounts(?:/(?P<account>[^/]*)/media)?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LIMIT = re.compile(r"[1-9]|[1-4][0-9]|50")
_NAMES = {ACCOUNTS: {"cursor", "limit"}, MEDIA: {"cursor", "limit", "surface"}}
_OF_THE_QUERY = {ACCOUNTS: "api_validation_error", MEDIA: "api_automation_invalid_configuration"}

Allowed = frozenset[str]
Scan = tuple[str, str]


@dataclass(frozen=True)
class Grant:
    """An API key: whether it is valid, has the scope automations:read, and which accounts it can access.

    ``left`` are the accounts granted to it that left the service.
    """

    secret: str | None
    known: bool = True
    scoped: bool = True
    accounts: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Asked:
    """A request as sent."""

    method: str
    url: str
    authorization: str | None

    @property
    def account(self) -> str | None:
        """The account in the path; None for the account list and for unknown paths."""
        found = _PATH.fullmatch(urlsplit(self.url).path)
        return found["account"] if found else None

    @property
    def operation(self) -> str | None:
        """The requested operation; None if the method or the path is unknown."""
        found = _PATH.fullmatch(urlsplit(self.url).path)
        if found is None or self.method != "GET":
            return None
        return ACCOUNTS if found["account"] is None else MEDIA

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The query; raises UnicodeDecodeError."""
        return parse_qsl(urlsplit(self.url).query, keep_blank_values=True, errors="strict")

    @property
    def scan(self) -> Scan:
        """The request parameters to which a cursor is bound."""
        return (self.account or "").lower(), dict(self.pairs).get("surface", "")


@dataclass
class Contract:
    """Computes the allowed responses; it learns the issued cursors from the pages."""

    grant: Grant
    _issued: dict[str, Scan] = field(default_factory=dict)

    def issue(self, asked: Asked, cursor: str | None) -> None:
        """Remember the cursor of a page."""
        if cursor is not None:
            self._issued[cursor] = asked.scan

    def allowed(self, asked: Asked) -> Allowed:
        """Return the codes one of which must be the response; only PAGE for a valid request.

        Which of several wrongs is told first, the contract does not show.
        """
        if asked.operation is None:
            return frozenset({"api_invalid_request_url", *self._of_key(asked)})
        try:
            wrongs = {*self._of_key(asked), *self._of_account(asked), *self._of_query(asked, asked.operation)}
        except UnicodeDecodeError:
            return frozenset({"api_invalid_request_url", *self._of_key(asked), *self._of_account(asked)})
        return frozenset(wrongs or {PAGE})

    def _of_key(self, asked: Asked) -> Iterable[str]:
        if not self.grant.known or asked.authorization != f"Bearer {self.grant.secret}":
            yield "api_unauthorized"

    def _of_account(self, asked: Asked) -> Iterable[str]:
        if asked.account is None:
            return
        if not _UUID.fullmatch(unquote(asked.account, errors="replace")):
            yield from ("api_invalid_request_url", "api_automation_invalid_configuration", "api_account_not_granted")
        elif asked.account.lower() in self.grant.left:
            yield "api_automation_media_not_found"
        elif asked.account.lower() not in self.grant.accounts:
            yield "api_account_not_granted"
        if not self.grant.scoped:
            yield "api_scope_denied"

    def _of_query(self, asked: Asked, operation: str) -> Iterable[str]:
        given = dict(asked.pairs)
        if len(given) != len(asked.pairs) or not given.keys() <= _NAMES[operation]:
            yield _OF_THE_QUERY[operation]
        if operation == MEDIA and given.get("surface") not in {"posts", "stories"}:
            yield _OF_THE_QUERY[operation]
        if "limit" in given and not _LIMIT.fullmatch(given["limit"]):
            yield "api_invalid_limit"
        if "cursor" in given and self._issued.get(given["cursor"]) != asked.scan:
            yield "api_invalid_cursor"
