"""Requests as values (API 4), and responses, parsed into pages or errors (API 2, 7). No IO."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote, urlencode

from connectors.source.errors import DOCUMENTED, ApiError, service_rule
from models.api import DEFAULT_PATHS, Page, PagePaths, Unreadable, read_account_page, read_error, read_media_page
from models.feeds import Feed
from models.runs import one_line

ACCOUNTS = "accounts.list"

CATALOGUE_SCOPE = "account_catalog"
"""The rate-limit scope of the account list (API 4.1)."""

_CORRELATION_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
# The host of a Location, without a user name, and its port.
_PLACE = re.compile(r"(?:\w+:)?//(?:[^/?#]*@)?(\[[^]]*\]|[^/?#:]+)")
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
# Each wait of a Retry-After header. The name of a day in a date is followed by a comma.
_WAITS = re.compile(r"(?:\s*[A-Za-z]+,)?[^,]+")
# A hundred years, which the calendar can hold.
_LONGEST = 3_155_760_000.0


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One GET request: its percent-encoded path and query below the base URL, and its rate-limit scope."""

    operation: str
    target: str
    scope: str


def accounts_request(cursor: str | None, limit: int) -> ApiRequest:
    """Build the request for a page of the key's accounts (API 4.1)."""
    return ApiRequest(ACCOUNTS, f"/api/v1/accounts?{_query({}, cursor, limit)}", CATALOGUE_SCOPE)


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
    path, query = feed.path.format(account_id=quote(account_id, safe="")), _query(dict(feed.parameters), cursor, limit)
    return ApiRequest(feed.operation, f"{path}?{query}", account_scope(account_id))


def _query(parameters: Mapping[str, str], cursor: str | None, limit: int) -> str:
    # API 8 rule 2: the cursor is sent unchanged.
    paging = {"limit": limit} if cursor is None else {"cursor": cursor, "limit": limit}
    return urlencode({**parameters, **paging}, quote_via=quote, safe="")


@dataclass(frozen=True, slots=True)
class Response:
    """A page, the operation that returned it, and the response's X-Correlation-ID."""

    operation: str
    page: Page
    correlation_id: str | None

    def error(self, code: str, message: str) -> ApiError:
        """Return an error that the page itself shows, or its scan."""
        return ApiError(self.operation, code, message, correlation_id=self.correlation_id)


def read_response(
    request: ApiRequest,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: datetime,
    paths: PagePaths = DEFAULT_PATHS,
    hide: Callable[[bytes], bytes] = bytes,
) -> Response:
    """Parse a response into its page. Raises ApiError (API 7).

    Header names are lower-case, `now` is timezone-aware. `paths` are the places of the list and the cursor in a media
    page. What is shown of a body, and the names of a page's unknown fields, are as `hide` returns them.
    """
    operation, correlation_id = request.operation, read_correlation_id(headers)
    if status != 200:
        raise _refusal(operation, status, headers, hide(body), correlation_id, now)
    try:
        page = read_account_page(body) if operation == ACCOUNTS else read_media_page(body, paths)
    except Unreadable as malformed:
        why = str(malformed)
    else:
        page = replace(page, unknown_fields=frozenset(hide(name.encode()).decode() for name in page.unknown_fields))
        return Response(operation, page, correlation_id)
    # Outside of the `except` block, so that the error does not reference the other one.
    why = f"{_content_type(headers)}: {why}"
    raise ApiError(operation, "malformed_page", why, status=status, correlation_id=correlation_id, body=hide(body))


def _refusal(
    operation: str, status: int, headers: Mapping[str, str], body: bytes, correlation_id: str | None, now: datetime
) -> ApiError:
    """Return the error of an answer that is not a page: the service's if it has its envelope, else a gateway's."""
    envelope = read_error(body)
    if envelope and correlation_id is None and _CORRELATION_ID.fullmatch(str(envelope.correlation_id)):
        correlation_id = str(envelope.correlation_id)
    wait = read_retry_after(headers.get("retry-after", ""), now, headers.get("date", ""))
    code, rule = gateway_code(status), None
    # Gateways have errors of the same form.
    if envelope and (correlation_id is not None or envelope.code in DOCUMENTED):
        code, rule = one_line(envelope.code, 64), service_rule(envelope.code, status)
        message = f"{envelope.message} [{envelope.issues}]" if envelope.issues else envelope.message
    else:
        name = one_line(headers.get("server") or headers.get("via", ""), 40)
        message = f"a proxy or gateway{f' ({name})' if name else ''}, not the service, "
        if code == "redirect":
            place = _PLACE.match(headers.get("location", ""))
            host = one_line(place[1], 100) if place else "another path of this host"
            message += f"redirects to {host}, which is not followed"
        else:
            message += f"answered with status {status}, {_content_type(headers)}"
    return ApiError(operation, code, message, rule, retry_after=wait, status=status, correlation_id=correlation_id)


def gateway_code(status: int) -> str:
    """Return the code of an answer without the service's envelope."""
    return {1: "unexpected_status", 2: "unexpected_status", 3: "redirect"}.get(status // 100, f"http_{status}")


def _content_type(headers: Mapping[str, str]) -> str:
    return one_line(headers.get("content-type") or "no stated type", 80)


def read_correlation_id(headers: Mapping[str, str]) -> str | None:
    """Return the X-Correlation-ID (API 1) of a response; None if it is missing or does not match the pattern."""
    # A header that was set twice arrives joined by commas; it is accepted if both are the same id.
    traced, *more = {one.strip(" ") for one in headers.get("x-correlation-id", "").split(",")}
    return traced if not more and _CORRELATION_ID.fullmatch(traced) else None


def read_retry_after(value: str, now: datetime, date: str = "") -> float | None:
    """Return the seconds to wait according to a Retry-After header (API 8), or None if it is invalid or over.

    The service and a proxy may both have set the header: the longest wait counts. A gateway may send an HTTP date,
    which is compared with the response's Date header, `date`, or without one with `now` (aware).
    """
    waits, since = list[float](), _http_date(date) or now
    for part in map(str.strip, _WAITS.findall(value)):
        if _SECONDS.fullmatch(part):
            # A float accepts any number of digits, so that an extreme value never results in a wait that is too short.
            waits.append(float(part))
        elif (until := _http_date(part)) is not None:
            waits.append((until - since).total_seconds())
    return max((min(wait, _LONGEST) for wait in waits if wait >= 0), default=None)


def _http_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


@dataclass(slots=True)
class Memory:
    """Remembers the last 50,000 to 100,000 texts, as hashes in two sets, to notice when answers repeat."""

    recent: set[int] = field(default_factory=set)
    older: set[int] = field(default_factory=set)

    def remember(self, text: str) -> bool:
        """Remember a text; return whether it is new."""
        digest = hash(text)
        if digest in self.recent or digest in self.older:
            return False
        if len(self.recent) >= 50_000:
            self.older, self.recent = self.recent, set()
        self.recent.add(digest)
        return True
