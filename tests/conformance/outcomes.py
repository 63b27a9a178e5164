"""The expected outcome of each response, written by hand from API 7 and 8, not derived from gramhouse's own tables."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal


class Then(Enum):
    """What the caller does next."""

    LANDS = "it is a page"
    AGAIN = "asked again, soon"
    HOLD = "asked again once the announced wait is over, by nobody sooner"
    SKIP = "given up, and only it"
    RESTART = "scanned anew"
    STOP = "given up, and the run with it"
    DEFER = "left to a later run"


@dataclass(frozen=True)
class Outcome:
    """The expected outcome of a response.

    `wait`: seconds announced. `closes`: the answer ends with its connection. `pause`: what comes first, and not in one
    piece with the rest. `items`: of the page. `lost`: no correlation id that could be kept. `timed`: the client's
    patience is what ends it.
    """

    name: str
    then: Then
    code: str | None = None
    status: int | None = 200
    kind: str = "failed"
    wait: float | None = None
    lost: bool = False
    closes: bool = False
    pause: Literal["head", "answer"] | None = None
    timed: bool = False
    items: int = 1

    def __str__(self) -> str:
        return f"{self.name}, {self.pause} first" if self.pause else self.name


def _lands(*names: str, lost: bool = False, closes: bool = False, items: int = 1) -> list[Outcome]:
    return [Outcome(name, Then.LANDS, lost=lost, closes=closes, items=items) for name in names]


def _again(code: str, status: int | None, *names: str, lost: bool = False, closes: bool = False) -> list[Outcome]:
    return [Outcome(name, Then.AGAIN, code, status, lost=lost, closes=closes) for name in names]


def _by_gateway(who: str, *statuses: int) -> list[Outcome]:
    return [_again(f"http_{status}", status, f"{who}_{status}", lost=True)[0] for status in statuses]


def _malformed(*names: str) -> list[Outcome]:
    return _again("malformed_page", 200, *names)


def _no_http(*names: str) -> list[Outcome]:
    return _again("protocol_error", None, *names, lost=True)


def _cut(*names: str, closes: bool = False) -> list[Outcome]:
    return _again("cut_body", 200, *names, closes=closes)


def _head_first(*outcomes: Outcome) -> list[Outcome]:
    return [replace(outcome, pause="head", timed=True) for outcome in outcomes]


def _answer_first(*outcomes: Outcome) -> list[Outcome]:
    return [replace(outcome, pause="answer") for outcome in outcomes]


def _given_up(name: str, then: Then, code: str, status: int, kind: str = "failed", *, lost: bool = False) -> Outcome:
    return Outcome(name, then, code, status, kind, lost=lost)


def _waits(seconds: float | None, *names: str) -> list[Outcome]:
    return [Outcome(name, Then.HOLD, "rate_limited", 429, wait=seconds) for name in names]


_WHOLE_BEHIND = ("answer_behind", "refusal_behind")

# Responses of proxies, load balancers and login portals.
BETWEEN = (
    *_by_gateway("nginx", 400, 401, 404, 405, 408, 413, 414, 502, 504),
    Outcome("nginx_429_retry_after", Then.HOLD, "http_429", 429, wait=20, lost=True),
    *_again("http_403", 403, "cloudflare_403_challenge", "gateway_403_json", lost=True),
    Outcome("cloudflare_429", Then.HOLD, "http_429", 429, wait=30, lost=True),
    *_again("http_520", 520, "cloudflare_520", lost=True),
    *_again("http_503", 503, "alb_503", "envoy_503", lost=True),
    *_again("http_503", 503, "haproxy_503_http10", lost=True, closes=True),
    *_by_gateway("alb", 463),
    Outcome("varnish_503", Then.HOLD, "http_503", 503, wait=5, lost=True),
    *_again("malformed_page", 200, "portal_200", lost=True, closes=True),
    *_again("redirect", 302, "portal_302", lost=True, closes=True),
    *_by_gateway("portal", 511),
    *_by_gateway("squid", 407),
)

# Valid and invalid HTTP.
HTTP = (
    *_lands("no_reason", "no_reason_but_a_space", "lower_case", "no_space", "lf_only", "empty_line_first", "obs_fold"),
    *_lands("obs_fold_trace", "header_latin", "http10_keep_alive", "chunked", "coding_of_transfer_unknown"),
    *_lands("continue_first", "early_hints", "processing_thrice", "hints_with_headers", "chunked_twice"),
    *_lands("http10_close", closes=True),
    *_again("malformed_page", 200, "http10_cut", closes=True),
    *_again("rate_limiter_unavailable", 503, "continue_then_refusal"),
    *_waits(30, "chunked_trailer_retry"),
    *_again("unexpected_status", 101, "switching", lost=True),
    *_no_http("http_2_spoken", "http_2_named", "http_12", "icy", "tls_alert"),
    *_no_http("status_two_digits", "status_four_digits", "status_word"),
    *_no_http("header_space", "header_nul", "header_cr", "header_nameless", "header_no_colon"),
    *_no_http("two_lengths", "same_length_twice", "length_list", "chunked_and_length"),
    *_no_http("length_negative", "length_plus", "length_hex", "length_huge"),
    # Invalid data in the same segment as the head also invalidates the head.
    *_no_http("chunk_size_bad", "chunk_size_negative", "chunk_size_huge", "chunk_too_long"),
    *_no_http("length_short", "length_short_but_whole", "failure_and_bytes_behind", "no_content_with_body"),
    *_no_http("limited_and_bytes_behind", "limited_in_bad_chunks", "garbage_behind"),
    # aiohttp does not report invalid chunks: the connection seems silent.
    *_head_first(*_again("timeout", 200, "chunk_size_bad", "chunk_size_negative", "chunk_size_huge", "chunk_too_long")),
    *_head_first(Outcome("limited_in_bad_chunks", Then.HOLD, "http_429", 429, wait=7)),
    *_cut("chunks_without_end", "length_long", closes=True),
    *_lands("header of 8,000 bytes", "header of 9,000 bytes", "header of 60,000 bytes", items=2),
    *_lands("100 headers", "900 headers", "reason of 20,000 bytes", "100 Continue, 1,000 times", items=2),
    *_no_http("header of 64 KiB", "name of 64 KiB", "1,000 headers"),
    *_no_http("status line without an end"),
    # Data sent on an idle connection belongs to no request.
    *_lands(*_WHOLE_BEHIND, "half_behind", "newlines_behind"),
    *_lands("haproxy_408_unasked", closes=True),
    *_answer_first(*_lands("haproxy_408_unasked", closes=True)),
    *_answer_first(*_lands("half_behind", "newlines_behind", "garbage_behind", "length_short_but_whole")),
    *_answer_first(Outcome("limited_and_bytes_behind", Then.HOLD, "http_429", 429, wait=7)),
    *_answer_first(*_again("http_503", 503, "failure_and_bytes_behind")),
    *_answer_first(*_lands(*_WHOLE_BEHIND)),
)

STATUSES = (
    *(_again("unexpected_status", status, name)[0]
      for name, status in (("no_content", 204), ("accepted", 202), ("partial", 206), ("status_299", 299))),
    *(_again("redirect", status, f"redirect_{status}")[0] for status in (300, 301, 302, 303, 307, 308)),
    *_again("redirect", 302, "redirect_nowhere"),
    *_again("redirect", 301, "redirect_odd"),
    *_again("redirect", 304, "not_modified"),
    Outcome("redirect_enveloped", Then.HOLD, "rate_limited", 307, wait=30),
    *_again("http_599", 599, "status_599"),
    *(_again(f"http_{status}", status, f"status_{status:03}")[0] for status in (0, 600, 999)),
    *_lands("elsewhere_named"),
)  # fmt: skip

WAITS = (
    *_waits(7, "retry_lower", "retry_padded", "retry_date", "retry_date_850", "retry_date_asctime"),
    *_waits(7, "retry_date_garbage"),
    *_waits(7.5, "retry_float"),
    *_waits(0, "retry_zero"),
    # Neither a number of seconds nor a future date: the client's own delay is used.
    *_waits(None, "retry_negative", "retry_signed", "retry_words", "retry_garbage", "retry_empty", "retry_nan"),
    *_waits(None, "retry_inf", "retry_exponent", "retry_date_past", "retry_date_iso"),
    Outcome("retry_400_digits", Then.DEFER, "rate_limited", 429, wait=1e13),
    *_waits(7, "retry_twice_same", "retry_number_and_date"),
    *_waits(30, "retry_twice", "retry_list"),
    Outcome("retry_on_503", Then.HOLD, "rate_limiter_unavailable", 503, wait=7),
    Outcome("retry_on_404", Then.SKIP, "api_automation_media_not_found", 404, "not_found", wait=7),
    *_lands("retry_on_200"),
)

BODIES = (
    *_malformed("empty", "top_null", "top_list", "top_string", "top_number", "top_true", "top_object", "top_spaces"),
    *_lands("bom", "latin1_ascii", "gzip", "coding_identity", "tail_newline", "nan_in_words", "huge_number"),
    # Bytes that are not UTF-8 are replaced; the page lands.
    *_lands("latin1", "overlong_utf8", "surrogate_utf8"),
    *_malformed("bom_twice", "utf16", "utf32", "nul_inside", "comma", "nan", "infinity"),
    # httpx reads the first member, and does not miss the end of the last one.
    *_malformed("gzip_unsaid", "gzip_empty", "gzip_of_nothing", "gzip_members", "gzip_head_only"),
    *_cut("gzip_crc", "gzip_size", "gzip_not"),
    *_lands("gzip_cut", "gzip_tail", "gzip_x", "coding_unknown"),
    # Only gzip was accepted.
    *_malformed("brotli", "deflate", "deflate_raw", "gzip_twice"),
    *_again("http_502", 502, "gzip_of_html", lost=True),
    Outcome("gzip_refusal_broken", Then.HOLD, "http_429", 429, wait=7),
    *_malformed("xssi", "jsonp", "json_lines", "tail_garbage", "tail_nul", "comment", "single_quotes"),
    *_malformed("php_warning", "page_of_problem", "soap"),
    *_again("malformed_page", 200, "JSON 200,000 deep", lost=True),
)

PAGES = (
    *_malformed("items_twice", "cursor_twice"),
    *_malformed("items_twice_escaped", "cursor_twice_escaped"),
    *_malformed("cursor_missing", "cursor_number", "cursor_empty", "cursor_object", "cursor_false", "cursor_list"),
    *_malformed("cursor_long", "cursor_half", "cursor_camel"),
    *_malformed("items_missing", "items_null", "items_object", "items_string", "items_of_data", "items_51"),
    *_lands("field_twice", "id_number", "status_unknown", "field_unknown"),
    *_lands("items_of_nothing", items=3),
    *_again("http_500", 500, "code_number", "error_string"),
    *_again("api_moon_phase", 503, "code_unknown"),
    *_again("api_unauthorized", 500, "code_elsewhere"),
    *_again("api_internal_error", 500, "error_escapes", "trace_enveloped", "trace_twice_refused"),
    _given_up("error_more", Then.RESTART, "api_invalid_cursor", 422),
    *_lands("trace_none", "trace_lower", "trace_long", "trace_twice", lost=True),
    *_lands("trace_twice_same"),
)  # fmt: skip

OUTCOMES = (*BETWEEN, *HTTP, *STATUSES, *WAITS, *BODIES, *PAGES)
