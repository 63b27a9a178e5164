"""Responses, parsed into pages or errors (API 2, 7). No IO."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from connectors.source.endpoints import ACCOUNTS, ApiRequest
from connectors.source.errors import DOCUMENTED, ApiError, gateway_code, service_rule
from models.api import (
    DEFAULT_PATHS,
    Page,
    PagePaths,
    Unreadable,
    read_account_page,
    read_error,
    read_media_page,
)
from models.runs import one_line

_CORRELATION_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
# A hundred years, which the calendar can hold.
_LONGEST = 3_155_760_000.0


@dataclass(frozen=True, slots=True)
class Response:
    """A page, the operation that returned it, and the response's X-Correlation-ID.

    `is_cached`: a cache answered, not the service, so that nothing on the page is known to be so now.
    """

    operation: str
    page: Page
    correlation_id: str | None
    is_cached: bool = False

    def error(self, code: str, message: str) -> ApiError:
        """Return an error that a scan finds in its page."""
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
    page. The names of a page's unknown fields, and the body of a malformed one, are as `hide` returns them.
    """
    if status != 200:
        raise _refusal(request.operation, status, headers, body, now)
    correlation_id = read_correlation_id(headers)
    try:
        is_catalogue = request.operation == ACCOUNTS
        page = read_account_page(body, hide) if is_catalogue else read_media_page(body, paths, hide)
    except Unreadable as malformed:
        why = str(malformed)
    else:
        # A cache that asked the service again less than a second ago sends an Age of 0.
        return Response(request.operation, page, correlation_id, headers.get("age", "").strip() not in {"", "0"})
    # Outside of the `except` block, so that the error does not reference the other one.
    kind = one_line(headers.get("content-type", "a body of no stated type"), 80)
    raise ApiError(
        request.operation,
        "malformed_page",
        f"{kind}: {why}",
        status=status,
        correlation_id=correlation_id,
        body=hide(body),
    )


def _refusal(operation: str, status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> ApiError:
    """Return the error of an answer that is not a page: the service's if it has its envelope, else a gateway's."""
    envelope, correlation_id = read_error(body), read_correlation_id(headers)
    if envelope and correlation_id is None and _CORRELATION_ID.fullmatch(str(envelope.correlation_id)):
        correlation_id = str(envelope.correlation_id)
    code, message, rule = gateway_code(status), _describe_gateway(status, headers), None
    # Gateways have errors of the same form.
    if envelope and (correlation_id is not None or envelope.code in DOCUMENTED):
        code, rule = one_line(envelope.code, 64), service_rule(envelope.code, status)
        message = f"{envelope.message} [{envelope.issues}]" if envelope.issues else envelope.message
    return ApiError(
        operation,
        code,
        message,
        status=status,
        correlation_id=correlation_id,
        rule=rule,
        retry_after=read_retry_after(headers.get("retry-after", ""), now, headers.get("date", "")),
    )


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
    # A float accepts any number of digits, so that an extreme value never results in a wait that is too short.
    waits = [float(part) for part in map(str.strip, value.split(",")) if _SECONDS.fullmatch(part)]
    if not waits and (until := _http_date(value)) is not None:
        waits = [(until - (_http_date(date) or now)).total_seconds()]
    return max((min(wait, _LONGEST) for wait in waits if wait >= 0), default=None)


def _describe_gateway(status: int, headers: Mapping[str, str]) -> str:
    """Return what a gateway answered; its name is the header Server or Via, if it has one."""
    name = one_line(headers.get("server", "") or headers.get("via", ""), 40)
    who = f"a proxy or gateway ({name}), not the service," if name else "a proxy or gateway, not the service,"
    if status // 100 == 3:
        return f"{who} redirects to {_host(headers.get('location', ''))}, which is not followed"
    kind = one_line(headers.get("content-type", "") or "no stated type", 80)
    return f"{who} answered with status {status}, {kind}"


def _host(location: str) -> str:
    try:
        return one_line(urlsplit(location).hostname or "another path of this host", 100)
    except ValueError:
        return "an invalid address"


def _http_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
