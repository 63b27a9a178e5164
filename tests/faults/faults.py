"""The faults, as data. What they must lead to is told by hand, from sections 7 and 8 of the API and from design.md."""

from dataclasses import dataclass
from enum import Enum
from functools import partial
from ssl import SSLCertVerificationError
from typing import Literal

import httpx

from tests.faults import spoiling as spoilt
from tests.faults.answers import bombed, dripping, gigabyte, silent
from tests.faults.player import Serve
from tests.faults.spoiling import html, refused_late, streamed
from tests.faults.world import CATALOGUE, Where

Kind = Literal["failed", "denied", "not_found"]


class Ends(Enum):
    """What becomes of a scan that meets a fault."""

    RETRY = "asked again, six times at most"
    WAIT = "asked again when the wait is over"
    DEFER = "left to a later run: the wait is too long for this one"
    SKIP = "given up, and only it"
    RESTART = "begun anew, once"
    STOP = "given up, and the run with it"
    LAND = "none the worse"
    LOOP = "given up, never to be resumed where it stood"


@dataclass(frozen=True)
class Fault:
    """One fault. `code`, `status`, `traced`: what the ledger keeps of it. `wait`: seconds that must pass at least.

    `marks`: the cursors to this page that are asked with, where it lands or loops. `once`: it can pass by itself,
    so there are cells in which it does and others in which it lasts all run. `asks`: how often a lasting one is
    asked. `taken`: so many bytes of the answer may be read at most. `late`: hours until the next run.
    `of_accounts`: what it is instead in the catalogue. `timed`: it takes real seconds, so it passes.
    """

    name: str
    serve: Serve
    ends: Ends
    code: str | None = None
    status: int | None = None
    kind: Kind = "failed"
    traced: bool = True
    wait: float = 0.0
    asks: int = 1
    marks: tuple[str, ...] = ("",)
    first_marks: tuple[str, ...] | None = None
    taken: int = 1_000_000
    late: float = 3.0
    of_accounts: "Fault | None" = None
    timed: bool = False

    def on(self, where: Where) -> "Fault":
        """The fault as it is where it strikes: a page of accounts is bound by more than one of media."""
        return self.of_accounts if self.of_accounts is not None and where == CATALOGUE else self


def _code(status: int, code: str, ends: Ends, kind: Kind = "failed") -> Fault:
    return Fault(code, refused_late(status, code), ends, code, status, kind, asks=6 if ends is Ends.RETRY else 1)


def _retried(name: str, serve: Serve, code: str, status: int | None = 200, *, traced: bool = True) -> Fault:
    return Fault(name, serve, Ends.RETRY, code, status, traced=traced, asks=6)


def _broken(name: str, error: Exception, code: str) -> Fault:
    return _retried(name, lambda _: spoilt.broken(error), code, None, traced=False)


def _landing(name: str, serve: Serve, *marks: str) -> Fault:
    return Fault(name, serve, Ends.LAND, marks=marks or ("",))


SECTION_7 = (
    _code(400, "api_invalid_content_length", Ends.STOP),
    _code(400, "api_invalid_json", Ends.STOP),
    _code(400, "api_invalid_request_url", Ends.STOP),
    _code(400, "api_invalid_utf8", Ends.STOP),
    _code(401, "api_unauthorized", Ends.STOP),
    _code(403, "api_account_not_granted", Ends.SKIP, "denied"),
    _code(403, "api_forbidden", Ends.SKIP, "denied"),
    _code(403, "api_scope_denied", Ends.STOP, "denied"),
    _code(404, "api_automation_media_not_found", Ends.SKIP, "not_found"),
    _code(413, "api_body_too_large", Ends.STOP),
    _code(413, "api_json_too_deep", Ends.STOP),
    _code(415, "api_unsupported_media_type", Ends.STOP),
    _code(422, "api_invalid_cursor", Ends.RESTART),
    _code(422, "api_invalid_limit", Ends.SKIP),
    _code(422, "api_validation_error", Ends.SKIP),
    _code(422, "api_automation_invalid_configuration", Ends.SKIP),
    Fault("rate_limited", refused_late(429, "rate_limited", retry_after="30"), Ends.WAIT, wait=30),
    _code(500, "api_internal_error", Ends.RETRY),
    _code(500, "api_invalid_projection", Ends.RETRY),
    _code(500, "api_projection_too_large", Ends.RETRY),
    _code(503, "api_account_resolution_unavailable", Ends.RETRY),
    _code(503, "rate_limiter_unavailable", Ends.RETRY),
)

REFUSALS = (
    _code(409, "api_made_up", Ends.SKIP),
    _code(507, "api_made_up_too", Ends.RETRY),
    _retried("a known code with another status", refused_late(502, "api_unauthorized"), "api_unauthorized", 502),
    _retried("HTML from a proxy", html(502), "http_502", 502, traced=False),
    Fault("HTML that finds nothing", html(404), Ends.SKIP, "http_404", 404, "not_found", traced=False),
    Fault("400 from a proxy", html(400), Ends.SKIP, "http_400", 400, traced=False),
    Fault("413 from a proxy", html(413), Ends.SKIP, "http_413", 413, traced=False),
    Fault("415 from a proxy", html(415), Ends.SKIP, "http_415", 415, traced=False),
    Fault("a redirect", spoilt.redirect, Ends.SKIP, "redirect", 307),
    Fault("204", spoilt.nothing, Ends.SKIP, "unexpected_status", 204),
    _retried("an error without correlation id", spoilt.untraced_error, "api_internal_error", 500, traced=False),
)

# A date is cut to the second. A run may wait 100 seconds for a scope; its own waits are 1, 2, 4 ... 32, at most 60.
LIMITS = (
    Fault("429 without Retry-After", refused_late(429, "rate_limited"), Ends.WAIT, wait=1),
    Fault(
        "429 without Retry-After, all run", refused_late(429, "rate_limited"), Ends.DEFER, "rate_limited", 429,
        wait=60, asks=7,
    ),
    Fault("429 with a date", spoilt.limited_until(40), Ends.WAIT, wait=39),
    Fault("429 with a date by another clock", spoilt.limited_until(40, skew=86_400), Ends.WAIT, wait=39),
    Fault("429 with a date too far", spoilt.limited_until(4000), Ends.DEFER, "rate_limited", 429, wait=3999),
    Fault("429 with nonsense", refused_late(429, "rate_limited", retry_after="soon"), Ends.WAIT, wait=1),
    Fault("429 from a proxy", html(429, retry_after="20"), Ends.WAIT, wait=20),
    Fault(
        "429 past the budget", refused_late(429, "rate_limited", retry_after="9000"), Ends.DEFER, "rate_limited", 429,
        wait=9000,
    ),
    Fault(
        "429 for thirty years", refused_late(429, "rate_limited", retry_after="1000000000"), Ends.DEFER,
        "rate_limited", 429, wait=1e9, late=300_000,
    ),
)  # fmt: skip

WIRE = (
    _broken("a reset", ConnectionResetError(104, "reset by peer"), "connection_reset"),
    _broken("no connection", httpx.ConnectError("refused"), "connection_failed"),
    Fault("a certificate for nobody", lambda _: spoilt.broken(SSLCertVerificationError(1, "self-signed")), Ends.STOP,
          "certificate_refused", None, traced=False),
    _retried("silence", streamed(silent), "timeout"),
    _retried("a slow drip", streamed(dripping), "timeout"),
    _retried("a cut body", spoilt.cut_body, "cut_body"),
    _retried("cut gzip", spoilt.cut_gzip, "cut_body"),
    Fault("a gzip bomb", streamed(bombed, content_encoding="gzip"), Ends.SKIP, "body_too_large_response", 200,
          taken=20_000),
    Fault("1 GB of body", streamed(gigabyte), Ends.SKIP, "body_too_large_response", 200, taken=1_200_000),
)  # fmt: skip

NO_PAGE = (
    _retried("invalid UTF-8", spoilt.invalid_utf8, "malformed_page"),
    _retried("deep JSON", spoilt.deep_json, "malformed_page"),
    _retried("cut JSON", spoilt.cut_json, "malformed_page"),
    _retried("NaN", spoilt.nan, "malformed_page"),
    _retried("nothing at all", spoilt.empty_body, "malformed_page"),
    _retried("a login page", html(200), "malformed_page", traced=False),
    _retried("no items", spoilt.items_are({}), "malformed_page"),
    _retried("no next_cursor", spoilt.no_cursor, "malformed_page"),
    _retried("a cursor that is a number", spoilt.cursor_is(17), "malformed_page"),
    _retried("an empty cursor", spoilt.cursor_is(""), "malformed_page"),
    _retried("a cursor of 1025 characters", spoilt.cursor_is("c" * 1025), "malformed_page"),
    Fault("a repeated cursor", spoilt.repeated, Ends.LOOP, "cursor_loop", None, first_marks=("", "same")),
    Fault("a cycle of cursors", spoilt.cycle, Ends.LOOP, "cursor_loop", None, marks=("", "a", "b")),
)

PAGES = (
    _landing("another content type", spoilt.typed("text/plain; charset=utf-8")),
    _landing("no content type", spoilt.typed(None)),
    _landing("no correlation id", spoilt.untraced),
    _landing("a byte order mark", spoilt.marked),
    _landing("an item twice in a page", spoilt.twice_in_page),
    _landing("an item twice across pages", spoilt.twice_across),
    _landing("an item that moves on while paging", spoilt.moved_on),
    _landing("an item that moves back while paging", spoilt.moved_back),
    _landing("an empty page", spoilt.empty, "", "full"),
    _landing("three empty pages", partial(spoilt.empty, pages=3), "", "e", "ee", "full"),
    Fault("51 items", spoilt.fifty_one, Ends.LAND,
          of_accounts=_retried("51 items", spoilt.fifty_one, "malformed_page")),
    _landing("fields nobody knows", spoilt.unknown_fields),
    _landing("a record that is none", spoilt.no_record),
    _landing("half an emoji", spoilt.half_an_emoji),
)  # fmt: skip

# What a real socket shows, too, every `make test` shows there.
FAULTS = (*SECTION_7, *REFUSALS, *LIMITS, *NO_PAGE, *PAGES, *WIRE)
NOT_ON_A_SOCKET = tuple(fault for fault in FAULTS if fault not in WIRE)
