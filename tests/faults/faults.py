"""The faults as data. Their expected effects are written by hand, from sections 7 and 8 of docs/api.md."""

from dataclasses import dataclass
from enum import Enum
from functools import partial
from ssl import SSLCertVerificationError
from typing import Literal

import httpx

from tests.faults import faulty_replies as faulty
from tests.faults.fake_api import MakeReply
from tests.faults.faulty_replies import error_reply, html, streamed
from tests.faults.replies import gigabyte_body, gzip_bomb_body, silent_body, slow_body
from tests.faults.world import CATALOGUE, Where

Kind = Literal["failed", "denied", "not_found"]


class Effect(Enum):
    """The effect of a fault on the scan."""

    RETRY = "the page is requested up to six times"
    WAIT = "the page is requested again after the wait"
    DEFER = "deferred to a later run, because the wait is too long"
    SKIP = "the scan fails, the others continue"
    RESTART = "the scan starts again, as long as it gets further"
    STOP = "the run stops"
    LAND = "none: the page lands"
    LOOP = "the scan fails and is never resumed at this cursor"


@dataclass(frozen=True)
class Fault:
    """One fault. `code`, `status`, `traced`: what the ledger stores. `wait`: the least number of seconds to wait.

    `marks`: marks of the cursors with which this page is requested, if it lands or loops. `attempts`: requests if it
    lasts for the whole run. `bytes_read`: the most bytes of the reply that may be read. `hours_later`: hours until the
    next run. `in_catalogue`: the fault to use in the catalogue instead.
    """

    name: str
    serve: MakeReply
    effect: Effect
    code: str | None = None
    status: int | None = None
    kind: Kind = "failed"
    traced: bool = True
    wait: float = 0.0
    attempts: int = 1
    marks: tuple[str, ...] = ("",)
    first_marks: tuple[str, ...] | None = None
    bytes_read: int = 1_000_000
    hours_later: float = 3.0
    in_catalogue: "Fault | None" = None

    def on(self, where: Where) -> "Fault":
        """Return the fault for a partition; some differ for the catalogue, whose pages have stricter rules."""
        return self.in_catalogue if self.in_catalogue is not None and where == CATALOGUE else self


def _code(status: int, code: str, effect: Effect, kind: Kind = "failed") -> Fault:
    return Fault(
        code,
        error_reply(status, code),
        effect,
        code,
        status,
        kind,
        attempts=6 if effect is Effect.RETRY else 1,
    )


def _retried(name: str, serve: MakeReply, code: str, status: int | None = 200, *, traced: bool = True) -> Fault:
    return Fault(name, serve, Effect.RETRY, code, status, traced=traced, attempts=6)


def _broken(name: str, error: Exception, code: str) -> Fault:
    return _retried(name, lambda _: faulty.broken(error), code, None, traced=False)


def _landing(name: str, serve: MakeReply, *marks: str) -> Fault:
    return Fault(name, serve, Effect.LAND, marks=marks or ("",))


def _cursorless(name: str, serve: MakeReply, code: str) -> Fault:
    return Fault(name, serve, Effect.LOOP, code, None, in_catalogue=_retried(name, serve, "malformed_page"))


SECTION_7 = (
    _code(400, "api_invalid_content_length", Effect.STOP),
    _code(400, "api_invalid_json", Effect.STOP),
    _code(400, "api_invalid_request_url", Effect.STOP),
    _code(400, "api_invalid_utf8", Effect.STOP),
    _code(401, "api_unauthorized", Effect.STOP),
    _code(403, "api_account_not_granted", Effect.SKIP, "denied"),
    _code(403, "api_forbidden", Effect.SKIP, "denied"),
    _code(403, "api_scope_denied", Effect.STOP, "denied"),
    _code(404, "api_automation_media_not_found", Effect.SKIP, "not_found"),
    _code(413, "api_body_too_large", Effect.STOP),
    _code(413, "api_json_too_deep", Effect.STOP),
    _code(415, "api_unsupported_media_type", Effect.STOP),
    _code(422, "api_invalid_cursor", Effect.RESTART),
    _code(422, "api_invalid_limit", Effect.SKIP),
    _code(422, "api_validation_error", Effect.SKIP),
    _code(422, "api_automation_invalid_configuration", Effect.SKIP),
    Fault("rate_limited", error_reply(429, "rate_limited", retry_after="30"), Effect.WAIT, wait=30),
    _code(500, "api_internal_error", Effect.RETRY),
    _code(500, "api_invalid_projection", Effect.RETRY),
    _code(500, "api_projection_too_large", Effect.RETRY),
    _code(503, "api_account_resolution_unavailable", Effect.RETRY),
    _code(503, "rate_limiter_unavailable", Effect.RETRY),
)

REFUSALS = (
    _code(409, "api_unknown", Effect.SKIP),
    _code(507, "api_unknown_too", Effect.RETRY),
    _retried("a known code with another status", error_reply(502, "api_unauthorized"), "api_unauthorized", 502),
    _retried("HTML from a proxy", html(502), "http_502", 502, traced=False),
    *(_retried(f"{status} from a proxy", html(status), f"http_{status}", status, traced=False)
      for status in (400, 401, 403, 404, 413, 415)),
    _retried("a redirect", faulty.redirect, "redirect", 307),
    _retried("204", faulty.nothing, "unexpected_status", 204),
    _retried("an error without correlation id", faulty.untraced_error, "api_internal_error", 500, traced=False),
)  # fmt: skip

# A date has whole seconds. A run may wait 100 seconds for a scope; without Retry-After it waits 1, 2, 4 ... 32 seconds.
LIMITS = (
    Fault("429 without Retry-After", error_reply(429, "rate_limited"), Effect.WAIT, wait=1),
    Fault(
        "429 without Retry-After, all run", error_reply(429, "rate_limited"), Effect.DEFER, "rate_limited", 429,
        wait=60, attempts=7,
    ),
    Fault("429 with a date", faulty.limited_until(40), Effect.WAIT, wait=39),
    Fault("429 with a date by another clock", faulty.limited_until(40, skew=86_400), Effect.WAIT, wait=39),
    Fault("429 with a date too far", faulty.limited_until(4000), Effect.DEFER, "rate_limited", 429, wait=3999),
    Fault("429 with nonsense", error_reply(429, "rate_limited", retry_after="soon"), Effect.WAIT, wait=1),
    Fault("429 from a proxy", html(429, retry_after="20"), Effect.WAIT, wait=20),
    Fault(
        "429 past the budget", error_reply(429, "rate_limited", retry_after="9000"), Effect.DEFER, "rate_limited", 429,
        wait=9000,
    ),
    Fault(
        "429 for thirty years", error_reply(429, "rate_limited", retry_after="1000000000"), Effect.DEFER,
        "rate_limited", 429, wait=1e9, hours_later=300_000,
    ),
)  # fmt: skip

WIRE = (
    _broken("a reset", ConnectionResetError(104, "reset by peer"), "connection_reset"),
    _broken("no connection", httpx.ConnectError("refused"), "connection_failed"),
    _broken("an invalid certificate", SSLCertVerificationError(1, "self-signed"), "certificate_refused"),
    _retried("silence", streamed(silent_body), "timeout"),
    _retried("a slow drip", streamed(slow_body), "timeout"),
    _retried("a cut body", faulty.cut_body, "cut_body"),
    _retried("cut gzip", faulty.cut_gzip, "cut_body"),
    Fault("a gzip bomb", streamed(gzip_bomb_body, content_encoding="gzip"), Effect.RETRY, "body_too_large_response",
          200, attempts=6, bytes_read=20_000),
    Fault("1 GB of body", streamed(gigabyte_body), Effect.RETRY, "body_too_large_response", 200, attempts=6,
          bytes_read=1_200_000),
)  # fmt: skip

NO_PAGE = (
    _retried("cut JSON", faulty.cut_json, "malformed_page"),
    _retried("an empty body", faulty.empty_body, "malformed_page"),
    _retried("a login page", html(200), "malformed_page", traced=False),
    _retried("no items", faulty.items_are({}), "malformed_page"),
    _cursorless("no next_cursor", faulty.no_cursor, "cursor_missing"),
    _cursorless("a cursor that is a number", faulty.cursor_is(17), "cursor_invalid"),
    _cursorless("an empty cursor", faulty.cursor_is(""), "cursor_empty"),
    _cursorless("a cursor of 1025 characters", faulty.cursor_is("c" * 1025), "cursor_invalid"),
    Fault("a repeated cursor", faulty.repeated, Effect.LOOP, "cursor_loop", None, first_marks=("", "same")),
    Fault("a cycle of cursors", faulty.cycle, Effect.LOOP, "cursor_loop", None, marks=("", "a", "b")),
)

PAGES = (
    _landing("another content type", faulty.typed("text/plain; charset=utf-8")),
    _landing("no content type", faulty.typed(None)),
    _landing("no correlation id", faulty.untraced),
    _landing("a byte order mark", faulty.marked),
    _landing("an item twice in a page", faulty.twice_in_page),
    _landing("an item twice across pages", faulty.twice_across),
    _landing("an item that moves on while paging", faulty.moved_on),
    _landing("an item that moves back while paging", faulty.moved_back),
    _landing("an empty page", faulty.empty, "", "full"),
    _landing("three empty pages", partial(faulty.empty, pages=3), "", "e", "ee", "full"),
    Fault("51 items", faulty.fifty_one, Effect.LAND,
          in_catalogue=_retried("51 items", faulty.fifty_one, "malformed_page")),
    _landing("unknown fields", faulty.unknown_fields),
    _landing("a record that is not an object", faulty.no_record),
    _landing("half an emoji", faulty.half_an_emoji),
    _landing("invalid UTF-8", faulty.invalid_utf8),
    _landing("deep JSON", faulty.deep_json),
    _landing("NaN", faulty.nan),
    _landing("line breaks in strings and a last comma", faulty.raw_characters),
)  # fmt: skip

FAULTS = (*SECTION_7, *REFUSALS, *LIMITS, *NO_PAGE, *PAGES, *WIRE)
