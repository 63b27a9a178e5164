"""The errors of requests and how callers handle them: tables that every retry layer reads.

A failure is looked up by its code (`RULES` for errors of the service, API 7; `CLIENT_ERRORS` for client-side
failures), or by its status if the code is unknown or does not match the status.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final, Literal

from models.runs import ACCOUNTS_REJECTED, ITEMS_REJECTED
from models.text import one_line

Outcome = Literal["denied", "not_found", "failed"]


class Disposition(Enum):
    """What the caller does after a failure."""

    RETRY = "retry"
    """Retry after an increasing, random delay, a limited number of times."""
    WAIT = "wait"
    """Retry after the rate-limit scope's cooldown. Attempts are not limited, but the time spent waiting is."""
    SKIP = "skip"
    """End this partition with its outcome; the others continue."""
    RESTART = "restart"
    """Scan this partition again from its first page, once."""
    STOP = "stop"
    """End the run: such requests cannot succeed until a person has fixed the cause."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How a failure is handled. `status` is the documented one; None for client-side errors."""

    disposition: Disposition
    hint: str
    status: int | None = None
    outcome: Outcome = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed request: what happened and how to handle it.

    `code` is the service's (API 7) or ours (`CLIENT_ERRORS`, `http_<status>`). `outcome` is recorded in the ledger if
    the request is given up. `message` and `hint` are one line each and never contain the key. `body` is the text of a
    malformed page, without the key.
    """

    operation: str
    code: str
    status: int | None = None
    correlation_id: str | None = None
    disposition: Disposition
    outcome: Outcome
    message: str
    hint: str
    body: str | None = field(default=None, repr=False)

    @property
    def facts(self) -> dict[str, object]:
        """Return the fields that a log record has in addition to the message."""
        return {"code": self.code, "http_status": self.status, "correlation_id": self.correlation_id}

    def __str__(self) -> str:
        status = "" if self.status is None else f" {self.status}"
        trace = "" if self.correlation_id is None else f" (correlation id {self.correlation_id})"
        return f"{self.operation}:{status} {self.code}: {self.message}{trace}"


class ApiError(Exception):
    """Raised for a failed request. `retry_after` is in seconds.

    To keep an error after it was handled, keep its `failure`: the exception keeps its traceback and the response alive.
    """

    def __init__(self, failure: Failure, retry_after: float | None = None) -> None:
        super().__init__(failure, retry_after)
        self.failure = failure
        self.retry_after = retry_after

    @property
    def is_limit(self) -> bool:
        """Return whether the request was refused because there were too many: 429, or 503 with Retry-After."""
        return self.failure.status == 429 or (self.failure.status == 503 and self.retry_after is not None)

    def __str__(self) -> str:
        return str(self.failure)


class Deferred(Exception):  # noqa: N818 - not an error: the checkpoint is kept, and the scan resumes later
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
_GRANT = "grant the key access to this account in the service's API-key settings"
_HINT_ACCOUNT_GONE = "check whether the account is still connected to the service; other accounts are not affected"
_CURSOR = "no action needed; the next run scans it again from the first page"
_ADDRESS = "set GRAMHOUSE_BASE_URL to the correct address"
_NETWORK = "check the network and GRAMHOUSE_BASE_URL; if both are correct, retry later"
_HINT_PROXY = (
    "a proxy or gateway refused the request, not the service: check it, or set GRAMHOUSE_BASE_URL to bypass it"
)
_HINT_NETWORK = "retry later; if it persists, check proxies and gateways between this machine and the service"


RULES: Mapping[str, Rule] = {
    "api_invalid_content_length": Rule(Disposition.STOP, _REPORT, 400),
    "api_invalid_json": Rule(Disposition.STOP, _REPORT, 400),
    "api_invalid_request_url": Rule(Disposition.STOP, _REPORT, 400),
    "api_invalid_utf8": Rule(Disposition.STOP, _REPORT, 400),
    "api_unauthorized": Rule(Disposition.STOP, _KEY, 401),
    "api_account_not_granted": Rule(Disposition.SKIP, _GRANT, 403, outcome="denied"),
    "api_forbidden": Rule(Disposition.SKIP, _GRANT, 403, outcome="denied"),
    "api_scope_denied": Rule(Disposition.STOP, _SCOPE, 403, outcome="denied"),
    "api_automation_media_not_found": Rule(Disposition.SKIP, _HINT_ACCOUNT_GONE, 404, outcome="not_found"),
    "api_body_too_large": Rule(Disposition.STOP, _REPORT, 413),
    "api_json_too_deep": Rule(Disposition.STOP, _REPORT, 413),
    "api_unsupported_media_type": Rule(Disposition.STOP, _REPORT, 415),
    "api_invalid_cursor": Rule(Disposition.RESTART, _CURSOR, 422),
    "api_invalid_limit": Rule(Disposition.SKIP, _REPORT, 422),
    "api_validation_error": Rule(Disposition.SKIP, _REPORT, 422),
    "api_automation_invalid_configuration": Rule(Disposition.SKIP, _HINT_RETRY_LATER, 422),
    "rate_limited": Rule(Disposition.WAIT, "no action needed; gramhouse waits as long as the API requires", 429),
    "api_internal_error": Rule(Disposition.RETRY, _HINT_RETRY_LATER, 500),
    "api_invalid_projection": Rule(Disposition.RETRY, _HINT_RETRY_LATER, 500),
    "api_projection_too_large": Rule(Disposition.RETRY, _HINT_RETRY_LATER, 500),
    "api_account_resolution_unavailable": Rule(Disposition.RETRY, _HINT_RETRY_LATER, 503),
    "rate_limiter_unavailable": Rule(Disposition.RETRY, _HINT_RETRY_LATER, 503),
}
"""All error codes of API 7."""

UNKNOWN_STATUS: Final = "unknown_status"

CLIENT_ERRORS: Mapping[str, Rule] = {
    # While connecting, while reading, or for the whole attempt.
    "timeout": Rule(Disposition.RETRY, _NETWORK),
    # Refused, unreachable, unknown host, or an interrupted TLS handshake.
    "connection_failed": Rule(Disposition.RETRY, _NETWORK),
    # The connection ended before the response began.
    "connection_reset": Rule(Disposition.RETRY, _NETWORK),
    # The response is truncated, or its gzip data is damaged.
    "cut_body": Rule(Disposition.RETRY, _HINT_NETWORK),
    # The response is not HTTP: an invalid header or status line.
    "protocol_error": Rule(Disposition.RETRY, _HINT_NETWORK),
    # Status 200, but not a page as in API 2: not JSON (a portal's login page, for example), or another structure.
    "malformed_page": Rule(
        Disposition.RETRY,
        f"{_HINT_NETWORK}; if the service has another list of items, set items under [mapping] in gramhouse.toml",
    ),
    # Retries do not help, and the key must not be sent to a host without a valid certificate.
    "certificate_refused": Rule(
        Disposition.STOP,
        "check GRAMHOUSE_BASE_URL and this machine's clock; for a private certificate authority, set SSL_CERT_FILE"
        " to a PEM file with its certificate",
    ),
    # The proxy rejects its credentials or the service's host.
    "proxy_refused": Rule(
        Disposition.STOP,
        "check the proxy's user name, password and rules, or add the host of GRAMHOUSE_BASE_URL to NO_PROXY",
    ),
    # The body exceeds the size limit after decompression.
    "body_too_large_response": Rule(Disposition.SKIP, "request smaller pages: decrease GRAMHOUSE_PAGE_SIZE"),
    # 3xx: never followed, because the key would be sent to another address.
    "redirect": Rule(Disposition.SKIP, _ADDRESS),
    # 1xx or 2xx except 200.
    "unexpected_status": Rule(Disposition.SKIP, _HINT_RETRY_LATER),
    # The catalogue lists an account with a status that is not in API 3.
    UNKNOWN_STATUS: Rule(
        Disposition.SKIP, "check the account's status in the service; a newer gramhouse may support it"
    ),
    # The scan reached its end, but most records went to quarantine.
    ITEMS_REJECTED: Rule(
        Disposition.SKIP,
        "see the reasons in `gramhouse quarantine`; if the items' id has another name, set media_id under [mapping]"
        " in gramhouse.toml",
    ),
    ACCOUNTS_REJECTED: Rule(
        Disposition.SKIP,
        "see the reasons in `gramhouse quarantine`; a newer gramhouse may read such accounts, or contact the"
        " service's support with the correlation id",
    ),
    # A media page without a usable cursor that may not be the last one. Its items have landed.
    "cursor_missing": Rule(
        Disposition.SKIP,
        'if the API ends its lists in this way, set missing_cursor = "ends" under [mapping] in gramhouse.toml;'
        " if the cursor is elsewhere in the page, set next_cursor there",
    ),
    "cursor_empty": Rule(
        Disposition.SKIP,
        'if the API ends its lists in this way, set empty_cursor = "ends" under [mapping] in gramhouse.toml',
    ),
    "cursor_invalid": Rule(
        Disposition.SKIP,
        "contact the service's support with the correlation id; if the cursor is elsewhere in the page, set"
        " next_cursor under [mapping] in gramhouse.toml",
    ),
    # The account's task on a worker ended every worker on which it ran, or its result cannot be read.
    "worker_lost": Rule(
        Disposition.SKIP, "look for the cause in the workers' logs, such as too little memory, and run it again"
    ),
    # A cursor occurred twice in one scan, which would never end.
    "cursor_loop": Rule(Disposition.SKIP, "contact the service's support with the correlation id"),
    # New cursors, but no new items on many pages: the scan would never end.
    "cursor_no_progress": Rule(Disposition.SKIP, "contact the service's support with the correlation id"),
}
"""All codes of client-side errors. An error without an envelope has `http_<status>` and the rule of its status."""

# These statuses stop the run only with the service's error envelope: a proxy may refuse one request and not the next.
_ENVELOPED = frozenset({400, 413, 415})
_OUR_BUG = Rule(Disposition.STOP, _REPORT)

# Also by class: 3 is that of 3xx.
_BY_STATUS: Mapping[int, Rule] = {
    **dict.fromkeys(_ENVELOPED, Rule(Disposition.SKIP, _HINT_PROXY)),
    401: Rule(Disposition.STOP, _KEY),
    403: Rule(Disposition.SKIP, _GRANT, outcome="denied"),
    404: Rule(Disposition.SKIP, f"{_HINT_ACCOUNT_GONE}; if every request fails, {_ADDRESS}", outcome="not_found"),
    408: Rule(Disposition.RETRY, _HINT_RETRY_LATER),
    425: Rule(Disposition.RETRY, _HINT_RETRY_LATER),
    429: RULES["rate_limited"],
    3: CLIENT_ERRORS["redirect"],
    4: Rule(Disposition.SKIP, _HINT_RETRY_LATER),
    5: Rule(Disposition.RETRY, _HINT_RETRY_LATER),
}


def rule_for(code: str | None, status: int) -> Rule:
    """Return the rule of an error response: by its code if the code matches the status, else by the status.

    `code` is the error envelope's (API 2), or None if the response had no envelope.
    """
    known = RULES.get(code or "")
    if known is not None and status == known.status:
        return known
    if code is not None and status in _ENVELOPED:
        return _OUR_BUG
    return _BY_STATUS.get(status) or _BY_STATUS.get(status // 100) or CLIENT_ERRORS["unexpected_status"]


def _rule_of(code: str) -> Rule | None:
    rule = RULES.get(code) or CLIENT_ERRORS.get(code)
    status = code.removeprefix("http_")
    if rule is None and status != code and status.isdecimal():
        rule = rule_for(None, int(status))
    return rule


def hint_for(code: str) -> str:
    """Return the hint for the error code of an outcome: what a person can do. Empty for an unknown code."""
    rule = _rule_of(code)
    return rule.hint if rule else ""


def is_transient(code: str) -> bool:
    """Return whether a failure with this error code may be temporary, so that a later run may succeed."""
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
    """Build the ApiError of a client-side failure; `code` is a key of `CLIENT_ERRORS`."""
    rule = CLIENT_ERRORS[code]
    failure = Failure(
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
    return ApiError(failure)
