"""The errors of requests and how callers handle them: tables that every retry layer reads.

A failure is looked up by its code (`RULES` for errors of the service, API 7; `CLIENT_ERRORS` for client-side
failures), or by its status if the code is unknown or does not match the status.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal

from models.api import one_line

Outcome = Literal["denied", "not_found", "failed"]


class Disposition(Enum):
    """What the caller does with a failure."""

    RETRY = "retry"
    """Ask again after a growing, jittered delay, a bounded number of times."""
    WAIT = "wait"
    """Ask again once the tenant scope's wait is over; tries are not counted, the wait is."""
    SKIP = "skip"
    """Give this partition up with its outcome; the others go on."""
    RESTART = "restart"
    """Scan this partition again from its first page, once."""
    STOP = "stop"
    """End the run: no request like this one can succeed until a person has fixed something."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a failure means: its documented statuses (none for ours), and what follows from it."""

    statuses: frozenset[int]
    disposition: Disposition
    outcome: Outcome
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The facts of an ApiError, to be kept: the exception would keep its traceback and the answer alive."""

    operation: str
    code: str
    status: int | None
    correlation_id: str | None
    disposition: Disposition
    outcome: Outcome
    message: str
    hint: str
    body: str | None = field(default=None, repr=False)

    @property
    def facts(self) -> dict[str, object]:
        """Return what a log says of it besides its message."""
        return {"code": self.code, "http_status": self.status, "correlation_id": self.correlation_id}

    def __str__(self) -> str:
        status = "" if self.status is None else f" {self.status}"
        trace = "" if self.correlation_id is None else f" (correlation id {self.correlation_id})"
        return f"{self.operation}:{status} {self.code}: {self.message}{trace}"


@dataclass(eq=False, kw_only=True)
class ApiError(Exception):
    """One failed request: facts that the ledger and the log keep, and what to do about them.

    Raised and handled; what outlives that is its `failure`.

    `code` is the service's (API 7) or ours (`CLIENT_ERRORS`, `http_<status>`), `retry_after` is in seconds,
    `outcome` is what the ledger says once it is given up. `message` and `hint` are one line each and
    never hold the key. `body` is the text of a page that could not be read, without the key.
    """

    operation: Final[str]
    code: Final[str]
    status: Final[int | None] = None
    correlation_id: Final[str | None] = None
    retry_after: Final[float | None] = None
    disposition: Final[Disposition]
    outcome: Final[Outcome]
    message: Final[str]
    hint: Final[str]
    body: Final[str | None] = field(default=None, repr=False)

    @property
    def failure(self) -> Failure:
        """Return the facts without the exception."""
        return Failure(**{field.name: getattr(self, field.name) for field in fields(Failure)})

    def __str__(self) -> str:
        return str(self.failure)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it travel between processes, which keyword-only exceptions do not by themselves."""
        return partial(type(self), **{field.name: getattr(self, field.name) for field in fields(self)}), ()


class Deferred(Exception):  # noqa: N818 - no error: the checkpoint keeps the work until `resume_after`
    """A wait that is too long for this run: a run after `resume_after` (UTC) resumes the partition."""

    def __init__(self, scope: str, resume_after: datetime, error: Failure | None) -> None:
        super().__init__(scope, resume_after, error)
        self.scope = scope
        self.resume_after = resume_after
        self.error = error

    def __str__(self) -> str:
        cause = "" if self.error is None else f" ({self.error})"
        return f"{self.scope} must wait until {self.resume_after.isoformat(timespec='seconds')}{cause}"


_REPORT = "report this as a bug in gramhouse, with the correlation id"
_HINT_RETRY_LATER = "retry later; if it persists, contact the service's support with the correlation id"
_KEY = "check the API key (wrong, revoked, or of another kind); keys are created in the service's API-key settings"
_SCOPE = "create a key with the scope automations:read"
_GRANT = "grant the key access to this account in the service's API-key settings, or exclude the account"
_HINT_ACCOUNT_GONE = "check whether the account is still connected to the service; other accounts are not affected"
_CURSOR = "no action needed; the next run scans it again from the first page"
_ADDRESS = "set GRAMHOUSE_BASE_URL to the correct address"
_NETWORK = "check the network and GRAMHOUSE_BASE_URL; if both are correct, retry later"
_HINT_PROXY = (
    "a proxy or gateway refused the request, not the service: check it, or set GRAMHOUSE_BASE_URL to bypass it"
)
_HINT_NETWORK = "retry later; if it persists, check proxies and gateways between this machine and the service"


def _rule(disposition: Disposition, hint: str, *statuses: int, outcome: Outcome = "failed") -> Rule:
    return Rule(frozenset(statuses), disposition, outcome, hint)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "api_invalid_content_length": _rule(Disposition.STOP, _REPORT, 400),
        "api_invalid_json": _rule(Disposition.STOP, _REPORT, 400),
        "api_invalid_request_url": _rule(Disposition.STOP, _REPORT, 400),
        "api_invalid_utf8": _rule(Disposition.STOP, _REPORT, 400),
        "api_unauthorized": _rule(Disposition.STOP, _KEY, 401),
        "api_account_not_granted": _rule(Disposition.SKIP, _GRANT, 403, outcome="denied"),
        "api_forbidden": _rule(Disposition.SKIP, _GRANT, 403, outcome="denied"),
        "api_scope_denied": _rule(Disposition.STOP, _SCOPE, 403, outcome="denied"),
        "api_automation_media_not_found": _rule(Disposition.SKIP, _HINT_ACCOUNT_GONE, 404, outcome="not_found"),
        "api_body_too_large": _rule(Disposition.STOP, _REPORT, 413),
        "api_json_too_deep": _rule(Disposition.STOP, _REPORT, 413),
        "api_unsupported_media_type": _rule(Disposition.STOP, _REPORT, 415),
        "api_invalid_cursor": _rule(Disposition.RESTART, _CURSOR, 422),
        "api_invalid_limit": _rule(Disposition.SKIP, _REPORT, 422),
        "api_validation_error": _rule(Disposition.SKIP, _REPORT, 422),
        "api_automation_invalid_configuration": _rule(Disposition.SKIP, _HINT_RETRY_LATER, 422),
        "rate_limited": _rule(Disposition.WAIT, "no action needed; gramhouse waits as long as the API requires", 429),
        "api_internal_error": _rule(Disposition.RETRY, _HINT_RETRY_LATER, 500),
        "api_invalid_projection": _rule(Disposition.RETRY, _HINT_RETRY_LATER, 500),
        "api_projection_too_large": _rule(Disposition.RETRY, _HINT_RETRY_LATER, 500),
        "api_account_resolution_unavailable": _rule(Disposition.RETRY, _HINT_RETRY_LATER, 503),
        "rate_limiter_unavailable": _rule(Disposition.RETRY, _HINT_RETRY_LATER, 503),
    }
)
"""Every row of API 7."""

UNKNOWN_STATUS: Final = "unknown_status"

CLIENT_ERRORS: Mapping[str, Rule] = MappingProxyType(
    {
        # No answer in time: connecting, reading, or the attempt as a whole.
        "timeout": _rule(Disposition.RETRY, _NETWORK),
        # No connection: refused, unreachable, unknown host, a TLS handshake that broke off.
        "connection_failed": _rule(Disposition.RETRY, _NETWORK),
        # The connection ended before an answer began.
        "connection_reset": _rule(Disposition.RETRY, _NETWORK),
        # The answer began and did not end, or its gzip is damaged.
        "cut_body": _rule(Disposition.RETRY, _HINT_NETWORK),
        # What came is no HTTP: an invalid header or status line.
        "protocol_error": _rule(Disposition.RETRY, _HINT_NETWORK),
        # 200, and not the page of API 2: no JSON (a portal's login page, say), or another shape.
        "malformed_page": _rule(Disposition.RETRY, _HINT_NETWORK),
        # A certificate that does not vouch for the host heals by no retry, and the key must not go there.
        "certificate_refused": _rule(
            Disposition.STOP, "check GRAMHOUSE_BASE_URL, this machine's clock and its trusted certificates"
        ),
        # More than we are willing to hold, after decompression.
        "body_too_large_response": _rule(Disposition.SKIP, "request smaller pages: decrease GRAMHOUSE_PAGE_SIZE"),
        # 3xx: never followed, so that the key goes nowhere else.
        "redirect": _rule(Disposition.SKIP, _ADDRESS),
        # 1xx or 2xx, and not 200.
        "unexpected_status": _rule(Disposition.SKIP, _HINT_RETRY_LATER),
        # The catalogue lists an account with a status that API 3 does not have.
        UNKNOWN_STATUS: _rule(
            Disposition.SKIP, "check the account's status in the service; a newer gramhouse may support it"
        ),
        # A cursor came twice within one scan, which would never end.
        "cursor_loop": _rule(Disposition.SKIP, "contact the service's support with the correlation id"),
        # Fresh cursors, and page after page without an item that the scan had not seen: it would never end.
        "cursor_no_progress": _rule(Disposition.SKIP, "contact the service's support with the correlation id"),
    }
)
"""Every code of ours; a refusal without an envelope is `http_<status>`, ruled by its status."""

# These stop the run only with the service's own error envelope: a proxy may refuse one request and pass the next.
_ENVELOPED: Mapping[int, Rule] = MappingProxyType(
    {status: _rule(Disposition.STOP, _REPORT) for status in (400, 413, 415)}
)

_BY_STATUS: Mapping[int, Rule] = MappingProxyType(
    {
        400: _rule(Disposition.SKIP, _HINT_PROXY),
        401: _rule(Disposition.STOP, _KEY),
        403: _rule(Disposition.SKIP, _GRANT, outcome="denied"),
        404: _rule(Disposition.SKIP, f"{_HINT_ACCOUNT_GONE}; if every request fails, {_ADDRESS}", outcome="not_found"),
        408: _rule(Disposition.RETRY, _HINT_RETRY_LATER),
        413: _rule(Disposition.SKIP, _HINT_PROXY),
        415: _rule(Disposition.SKIP, _HINT_PROXY),
        425: _rule(Disposition.RETRY, _HINT_RETRY_LATER),
        429: RULES["rate_limited"],
    }
)

_BY_CLASS: Mapping[int, Rule] = MappingProxyType(
    {
        3: CLIENT_ERRORS["redirect"],
        4: _rule(Disposition.SKIP, _HINT_RETRY_LATER),
        5: _rule(Disposition.RETRY, _HINT_RETRY_LATER),
    }
)


def rule_for(code: str | None, status: int) -> Rule:
    """Return the rule of a refusal: by its code where that code belongs to this status, else by the status.

    `code` is the error envelope's (API 2); None when the answer had no such envelope.
    """
    known = RULES.get(code or "")
    if known is not None and status in known.statuses:
        return known
    if code is not None and status in _ENVELOPED:
        return _ENVELOPED[status]
    return _BY_STATUS.get(status) or _BY_CLASS.get(status // 100) or CLIENT_ERRORS["unexpected_status"]


def _rule_of(code: str) -> Rule | None:
    rule = RULES.get(code) or CLIENT_ERRORS.get(code)
    status = code.removeprefix("http_")
    if rule is None and status != code and status.isdecimal():
        rule = rule_for(None, int(status))
    return rule


def hint_for(code: str) -> str:
    """Return what a person can do about an error code as an outcome keeps it; empty for an unknown code."""
    rule = _rule_of(code)
    return rule.hint if rule else ""


def is_transient(code: str) -> bool:
    """Say whether a failure with this error code may pass by itself, so that a later run may succeed."""
    rule = _rule_of(code)
    return rule is not None and rule.disposition not in (Disposition.SKIP, Disposition.STOP)


def client_error(
    operation: str,
    code: str,
    message: str,
    *,
    status: int | None = None,
    correlation_id: str | None = None,
    body: str | None = None,
) -> ApiError:
    """Build the error of a failure on our side of the API; `code` is a key of `CLIENT_ERRORS`."""
    rule = CLIENT_ERRORS[code]
    return ApiError(
        operation=operation,
        code=code,
        status=status,
        correlation_id=correlation_id,
        disposition=rule.disposition,
        outcome=rule.outcome,
        message=one_line(message),
        hint=rule.hint,
        body=body,
    )
