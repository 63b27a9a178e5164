"""The errors of requests and what the caller does about each: one table, which every retry layer reads.

A failure is looked up by its code. What the service did not say, an answer without its error envelope (API 2), is the
word of a gateway: it counts as a lost connection, and says nothing about the key, a grant or an account.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from models.runs import ACCOUNTS_REJECTED, ITEMS_REJECTED, OutcomeKind, one_line


class Disposition(Enum):
    """What the caller does after a failure."""

    # Again after an increasing, random delay, a limited number of times.
    RETRY = "retry"
    # Again after the rate-limit scope's cooldown: as often as the time for waits allows.
    WAIT = "wait"
    # End this partition with its outcome; the others continue.
    SKIP = "skip"
    # Scan this partition again from its first page, as long as it gets further each time.
    RESTART = "restart"
    # End the run: such requests cannot succeed until a person has fixed the cause.
    STOP = "stop"


RETRY, WAIT, SKIP, RESTART, STOP = Disposition

# Statuses of too many requests; 509 and 529 are those of gateways.
LIMITS = frozenset({429, 503, 509, 529})


@dataclass(frozen=True, slots=True)
class Rule:
    """How a failure is handled. `status` is the one of API 7; None for what the service did not say.

    `outcome` is recorded in the ledger if the request is given up.
    """

    disposition: Disposition
    hint: str
    status: int | None = None
    outcome: OutcomeKind = OutcomeKind.FAILED

    @property
    def is_transient(self) -> bool:
        """Whether such a failure may be temporary, so that a later run may succeed."""
        return self.disposition in {RETRY, WAIT}


class ApiError(Exception):
    """One failed request: what happened, and the rule that says how it is handled, that of its code unless given.

    `code` is the service's (API 7) or ours, `retry_after` is in seconds. `message` is one line and never contains the
    key. `body` are the bytes of a malformed page, without the key.
    """

    def __init__(
        self,
        operation: str,
        code: str,
        message: str,
        rule: Rule | None = None,
        *,
        status: int | None = None,
        correlation_id: str | None = None,
        retry_after: float | None = None,
        body: bytes | None = None,
    ) -> None:
        # With the arguments that have no default, so that it can be pickled: workers make requests for a run.
        super().__init__(operation, code, message)
        self.operation, self.code, self.message, self.rule = operation, code, one_line(message), rule or rule_of(code)
        self.status, self.correlation_id, self.retry_after, self.body = status, correlation_id, retry_after, body

    def __str__(self) -> str:
        status = "" if self.status is None else f" {self.status}"
        trace = "" if self.correlation_id is None else f" (correlation id {self.correlation_id})"
        return f"{self.operation}:{status} {self.code}: {self.message}{trace}"

    @property
    def facts(self) -> dict[str, object]:
        """Return the fields that a log record has in addition to the message."""
        return {"code": self.code, "http_status": self.status, "correlation_id": self.correlation_id}

    @property
    def is_limit(self) -> bool:
        """Return whether the request may have been refused because there were too many."""
        return self.status in LIMITS


class Deferred(Exception):  # noqa: N818 - not an error: the checkpoint is kept, and the scan resumes later
    """A wait that is too long for this run: a run after `resume_after` (UTC) resumes the partition."""

    def __init__(self, resume_after: datetime, error: ApiError | None) -> None:
        super().__init__(resume_after, error)
        self.resume_after = resume_after
        self.error = error


# What a person can do.
_REPORT = "report this as a bug in gramhouse, with the correlation id"
_SUPPORT = "contact the service's support with the correlation id"
_LATER = f"retry later; if it persists, {_SUPPORT}"
_KEY = "check the API key (wrong, revoked, or of another kind); keys are created in the service's API-key settings"
_GRANT = "grant the key access to this account in the service's API-key settings"
_GONE = "check whether the account is still connected to the service; other accounts are not affected"
_CURSOR = (
    "its cursors expire before the next page is requested: shorten the waits (GRAMHOUSE_CONCURRENCY,"
    " GRAMHOUSE_REQUESTS_PER_SECOND) or change GRAMHOUSE_PAGE_SIZE"
)
_BETWEEN = (
    "retry later; if it persists, check GRAMHOUSE_BASE_URL, and the proxies and gateways between this machine and the"
    " service"
)
_SCHEME = (
    "check the scheme (https or http) and the port of GRAMHOUSE_BASE_URL, and whether the service requires a client"
    f" certificate, which gramhouse does not have; otherwise, {_BETWEEN}"
)
_CERTIFICATE = (
    "check GRAMHOUSE_BASE_URL and this machine's clock; for a private certificate authority, set SSL_CERT_FILE to a PEM"
    " file with its certificate"
)
_PROXY = "check the proxy's user name, password and rules, or add the host of GRAMHOUSE_BASE_URL to NO_PROXY"
_LOGIN = (
    "if this network has a login page (a captive portal), log in; otherwise set GRAMHOUSE_BASE_URL to the correct"
    " address"
)
_PAGE = f"{_BETWEEN}; if the service has another list of items, set items under [mapping] in gramhouse.toml"
_REASONS = "see the reasons in `gramhouse quarantine`"
_ITEMS = f"{_REASONS}; if the items' id has another name, set media_id under [mapping] in gramhouse.toml"
_ACCOUNTS = f"{_REASONS}; a newer gramhouse may read such accounts, or {_SUPPORT}"
_ENDS = 'if the API ends its lists in this way, set {name} = "ends" under [mapping] in gramhouse.toml'
_MISSING = f"{_ENDS.format(name='missing_cursor')}; if the cursor is elsewhere in the page, set next_cursor there"
_ELSEWHERE = f"{_SUPPORT}; if the cursor is elsewhere in the page, set next_cursor under [mapping] in gramhouse.toml"
_CACHES = "exclude the API from the caches of the proxies and gateways between this machine and the service"

UNKNOWN_STATUS = "unknown_status"

# What the caller does, the status (API 7), the codes, and the fix. The first row of a status is that of unknown codes.
_TABLE: Sequence[tuple[Disposition, int | None, str, str]] = (
    # What the service says.
    (STOP, 400, "api_invalid_content_length api_invalid_json api_invalid_request_url api_invalid_utf8", _REPORT),
    (STOP, 401, "api_unauthorized", _KEY),
    (SKIP, 403, "api_account_not_granted api_forbidden", _GRANT),
    (STOP, 403, "api_scope_denied", "create a key with the scope automations:read"),
    (SKIP, 404, "api_automation_media_not_found", _GONE),
    (STOP, 413, "api_body_too_large api_json_too_deep", _REPORT),
    (STOP, 415, "api_unsupported_media_type", _REPORT),
    (SKIP, 422, "api_automation_invalid_configuration", _LATER),
    (SKIP, 422, "api_invalid_limit api_validation_error", _REPORT),
    (RESTART, 422, "api_invalid_cursor", _CURSOR),
    (WAIT, 429, "rate_limited", "no action needed; gramhouse waits as long as the API requires"),
    (RETRY, 500, "api_internal_error api_invalid_projection api_projection_too_large", _LATER),
    (RETRY, 503, "api_account_resolution_unavailable rate_limiter_unavailable", _LATER),
    # No answer while connecting or reading; refused, unreachable or an unknown host; an answer that is cut, or damaged
    # gzip; and what a gateway says.
    (RETRY, None, "timeout connection_failed cut_body unexpected_status", _BETWEEN),
    # It ended before the answer began; it is not HTTP; no TLS: one of several servers may have an expired certificate,
    # and the key is not sent before the handshake has succeeded.
    (RETRY, None, "connection_reset protocol_error tls_failed http_400", _SCHEME),
    (RETRY, None, "certificate_refused", _CERTIFICATE),
    (RETRY, None, "proxy_refused", _PROXY),
    # It is never followed, because the key would be sent to another address.
    (RETRY, None, "redirect", _LOGIN),
    (WAIT, None, "http_429", "no action needed; gramhouse waits as long as the gateway requires"),
    # A page that cannot be used: not as in API 2, or larger than the limit after decompression.
    (RETRY, None, "malformed_page", _PAGE),
    (RETRY, None, "body_too_large_response", "request smaller pages: decrease GRAMHOUSE_PAGE_SIZE"),
    # What a scan finds. A page without a usable cursor may not be the last one; its items have landed.
    (SKIP, None, UNKNOWN_STATUS, "check the account's status in the service; a newer gramhouse may support it"),
    (SKIP, None, ITEMS_REJECTED, _ITEMS),
    (SKIP, None, ACCOUNTS_REJECTED, _ACCOUNTS),
    (SKIP, None, "cursor_missing", _MISSING),
    (SKIP, None, "cursor_empty", _ENDS.format(name="empty_cursor")),
    (SKIP, None, "cursor_invalid", _ELSEWHERE),
    (SKIP, None, "cached_answer", _CACHES),
    (SKIP, None, "cursor_loop cursor_no_progress", _SUPPORT),
)

# What is recorded for a partition whose request is given up; otherwise that it failed.
_OUTCOMES = {403: OutcomeKind.DENIED, 404: OutcomeKind.NOT_FOUND}

RULES: Mapping[str, Rule] = {
    code: Rule(disposition, hint, status, _OUTCOMES.get(status or 0, OutcomeKind.FAILED))
    for disposition, status, codes, hint in _TABLE
    for code in codes.split()
}
"""All codes of API 7, whose rules have a status, and all codes of ours."""

_OF_STATUS = {rule.status: rule for rule in reversed([*RULES.values()])}

DOCUMENTED = frozenset(code for code, rule in RULES.items() if rule.status is not None)


def service_rule(code: str, status: int) -> Rule:
    """Return the rule of an error envelope (API 2); its code may be unknown, or that of another status."""
    known = RULES.get(code)
    if known is not None and status == known.status:
        return known
    # No other 4xx is retried, but those that say that it came too late or too early.
    other = 422 if 400 <= status < 500 and status not in {408, 425} else 500
    return _OF_STATUS.get(status) or _OF_STATUS[other]


def rule_of(code: str) -> Rule:
    """Return the rule of an error code of API 7 or of ours; that of an unknown code has no hint."""
    return RULES.get(code) or (RULES["unexpected_status"] if code.startswith("http_") else Rule(SKIP, ""))
