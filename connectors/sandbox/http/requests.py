"""What is asked, and whether it may be: paths and queries (API 4), keys (API 5), cursors, limits (API 8), refusals."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from starlette.datastructures import QueryParams
from starlette.responses import JSONResponse, Response

from connectors.sandbox import contract
from connectors.sandbox.contract import ACCOUNTS_PATH
from connectors.sandbox.data.catalogue import Account, Grant
from connectors.sandbox.data.identity import Draw
from connectors.sandbox.settings import RateLimit

_MEDIA_PATH = re.compile(rf"{ACCOUNTS_PATH}/([^/]+)/media", re.DOTALL)
_LIMIT = re.compile(r"[0-9]{1,9}")

TRACE = "X-Correlation-ID"

# What a cursor belongs to: an account, by its position in the catalogue, and a surface; (-1, ""): the account list.
Resource = tuple[int, str]


class PageRequest(NamedTuple):
    """A valid request for a page.

    ``account`` is None for the account list, and ``surface`` empty. ``anchor`` is the position or sequence after which
    the page starts, read from ``cursor``. ``grant`` are the positions of the accounts that the key can access; None:
    all.
    """

    account: Account | None
    surface: str
    cursor: str | None
    anchor: int
    limit: int
    grant: Grant
    day: int

    @property
    def operation(self) -> str:
        """Return the operation id (API 4)."""
        return contract.ACCOUNTS if self.account is None else contract.MEDIA

    @property
    def resource(self) -> Resource:
        """Return what its cursor belongs to."""
        return -1 if self.account is None else self.account.position, self.surface


class Refused(Exception):  # noqa: N818 - an error response, not a failure of the server
    """The request is answered with an error of section 7.

    ``issues`` are those of ``error.details`` (API 2): a code, and a path of integers. ``retry_after`` is in seconds.
    """

    def __init__(
        self, code: str, *, issues: Sequence[Mapping[str, object]] = (), retry_after: int | None = None
    ) -> None:
        super().__init__(code)
        self.code, self.issues, self.retry_after = code, issues, retry_after

    def reply(self, correlation_id: str) -> Response:
        """Return the error reply with its envelope (API 2), and with WWW-Authenticate for a 401 (API 5.7)."""
        status, message = contract.ERRORS[self.code]
        details = {"details": {"issues": self.issues}} if self.issues else {}
        shown = {"code": self.code, "message": message, "correlation_id": correlation_id, **details}
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        return JSONResponse({"error": shown}, status, headers)


def read_path(method: str, path: str) -> str | None:
    """Return the account id in a path; None for the account list. Raises Refused for any other path or method."""
    found = _MEDIA_PATH.fullmatch(path)
    if method != "GET" or (found is None and path != ACCOUNTS_PATH):
        raise Refused("api_invalid_request_url")
    return found and found[1]


def read_query(raw: bytes, *, media: bool) -> tuple[str, str | None, int]:
    """Return the surface (empty for the account list), the cursor and the limit of a query (API 4.1, 4.2).

    Raises Refused for unknown or repeated names: with ``api_automation_invalid_configuration`` for the media list, also
    for a missing or unknown surface; with ``api_validation_error`` for the account list, and the names' positions in
    the query, from 0, as paths of the issues. Then with ``api_invalid_limit`` or ``api_invalid_cursor`` (API 4, 7, 8).
    """
    pairs = QueryParams(raw).multi_items()
    names, given = [name for name, _ in pairs], dict(pairs)
    known = {"cursor", "limit", "surface"} if media else {"cursor", "limit"}
    wrong = [index for index, name in enumerate(names) if name not in known or name in names[:index]]
    if media and (wrong or given.get("surface") not in contract.SURFACES):
        raise Refused("api_automation_invalid_configuration")
    if wrong:
        issues = [{"code": "unrecognized_keys", "path": [index]} for index in wrong[: contract.MAX_ISSUES]]
        raise Refused("api_validation_error", issues=issues)
    limit, cursor = given.get("limit", str(contract.DEFAULT_LIMIT)), given.get("cursor")
    if _LIMIT.fullmatch(limit) is None or not 1 <= int(limit) <= contract.MAX_LIMIT:
        raise Refused("api_invalid_limit")
    if cursor is not None and not 1 <= len(cursor) <= contract.MAX_CURSOR:
        raise Refused("api_invalid_cursor")
    return given.get("surface", ""), cursor, int(limit)


DEMO_KEY = "sandbox-demo-key"
NO_SCOPE_KEY = "sandbox-no-scope-key"
ONE_ACCOUNT_KEY = "sandbox-one-account-key"
NO_ACCOUNT_KEY = "sandbox-no-account-key"


@dataclass(frozen=True, slots=True)
class Credential:
    """A key, whether it may list media, and the positions of its accounts, in order; None: all accounts."""

    key: str
    lists_media: bool = True
    positions: Grant = None


_CREDENTIALS = (
    Credential(DEMO_KEY),
    Credential(NO_SCOPE_KEY, lists_media=False),
    Credential(ONE_ACCOUNT_KEY, positions=(0,)),
    Credential(NO_ACCOUNT_KEY, positions=()),
)


def read_credential(authorization: bytes) -> Credential:
    """Return the credential for ``Bearer <API_KEY>``. Raises Refused if it is not accepted (API 5.7)."""
    scheme, _, secret = authorization.decode("latin-1").partition(" ")
    for credential in _CREDENTIALS:
        if scheme.lower() == "bearer" and secret.strip() == credential.key:
            return credential
    raise Refused("api_unauthorized")


class Cursors:
    """Issues and reads cursors: authenticated, and bound to the resource they were issued for."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def issue(self, resource: Resource, anchor: int) -> str:
        """Return the cursor that continues a resource after an anchor. Clients must percent-encode its ``=``."""
        return f"{self._draw.tag(f'{resource} {anchor}', 11).hex()}={anchor}"

    def read(self, text: str, resource: Resource) -> int | None:
        """Return the anchor of a cursor, or None if it is not valid for this resource."""
        try:
            anchor = int(text.partition("=")[2])
        except ValueError:
            return None
        # The comparison also refuses other spellings of the number.
        return anchor if self.issue(resource, anchor) == text else None


class RateLimiter:
    """Counts requests in windows that begin with a tenant scope's first request.

    ``limits`` maps the kind of scope to its limit; None: no limit. Scopes of the kind ``account_catalog`` belong to a
    key, those of the kind ``selected_account`` to a key and an account.
    """

    def __init__(self, limits: Mapping[str, RateLimit | None], clock: Callable[[], float]) -> None:
        self.limits = dict(limits)
        self._clock = clock
        self._windows: dict[tuple[str, str, int], tuple[float, int]] = {}

    def admit(self, kind: str, key: str, position: int) -> int | None:
        """Count a request; return None if it is allowed, otherwise the seconds to wait, rounded up."""
        limit, scope = self.limits[kind], (kind, key, position)
        if limit is None:
            return None
        now = self._clock()
        ends, count = self._windows.get(scope, (now, 0))
        if now >= ends:
            ends, count = now + limit.seconds, 0
        if count >= limit.requests:
            return max(1, ceil(ends - now))
        self._windows[scope] = (ends, count + 1)
        return None

    def configure(self, limits: Mapping[str, RateLimit | None]) -> None:
        """Change the given limits and reset all windows."""
        self.limits |= limits
        self._windows.clear()
