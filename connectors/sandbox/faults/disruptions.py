"""Replies that replace a page: scripted errors, responses of proxies, broken connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.sandbox.contract import ERRORS, Code, Issue, envelope
from connectors.sandbox.http.exchange import Reply, json_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from connectors.sandbox.faults.rules import Action

_PROXY_PAGE = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n"
    b"<center><h1>502 Bad Gateway</h1></center>\r\n</body>\r\n</html>\r\n"
)
_ISSUES = (Issue("unrecognized_keys", (0,)),)


def _error(action: Action, correlation_id: str, _page: bytes) -> Reply:
    row = ERRORS.get(action.code)
    status = action.status or (row.status if row else 400)
    headers = {b"www-authenticate": b"Bearer"} if status == 401 else {}
    retry_after = 1 if action.retry_after is None and status == 429 else action.retry_after
    if retry_after is not None and retry_after is not False:
        headers[b"retry-after"] = str(retry_after).encode()
    body = envelope(
        action.code,
        row.message if row else "The sandbox made this error up.",
        correlation_id if action.correlated else None,
        _ISSUES if action.code == Code.VALIDATION_ERROR else (),
    )
    plain = json_reply(status, body, code=action.code, extra=headers)
    return Reply(status, body, plain.headers, code=action.code, correlated=action.correlated)


def _html_502(_action: Action, _correlation_id: str, _page: bytes) -> Reply:
    # A proxy in front of the service does not send correlation ids.
    return Reply(502, _PROXY_PAGE, [(b"content-type", b"text/html")], correlated=False)


def _plain_text(_action: Action, _correlation_id: str, _page: bytes) -> Reply:
    return Reply(200, b"Service is up.\n", [(b"content-type", b"text/plain; charset=utf-8")])


def _cut(_action: Action, _correlation_id: str, page: bytes) -> Reply:
    whole = json_reply(200, page)
    return Reply(200, page[: len(page) // 2], whole.headers, promised=len(page), ending="cut")


def _reset(_action: Action, _correlation_id: str, _page: bytes) -> Reply:
    return Reply(0, b"", [], ending="reset")


def _redirect(action: Action, _correlation_id: str, _page: bytes) -> Reply:
    return Reply(action.status or 307, b"", [(b"location", action.url.encode())])


def _oversize(action: Action, _correlation_id: str, page: bytes) -> Reply:
    return Reply(200, page, json_reply(200, page).headers, padding=max(0, action.size - len(page)))


def _refuse_cursor(_action: Action, correlation_id: str, _page: bytes) -> Reply:
    row = ERRORS[Code.INVALID_CURSOR]
    return json_reply(row.status, envelope(row.code, row.message, correlation_id), code=row.code)


# Arguments: the action, the correlation id and the correct page, which most of them do not send.
DISRUPTIONS: dict[str, Callable[[Action, str, bytes], Reply]] = {
    "error": _error,
    "html_502": _html_502,
    "plain_text": _plain_text,
    "cut": _cut,
    "reset": _reset,
    "redirect": _redirect,
    "oversize": _oversize,
    "refuse_cursor": _refuse_cursor,
}
