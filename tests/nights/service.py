"""The sandbox with answers that a test writes, and those of a gateway between it and us."""

import json
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from connectors.sandbox.http.replies import PageRequest
from connectors.sandbox.settings import SandboxSettings
from tests.api.faults import JSON
from tests.api.server import Api, OddReply

Page = dict[str, Any]
# The reply to a request, its page as JSON text, a changed page, or None for the page as it is.
Answer = Response | bytes | Page | None
HTML = b"<html><head><title>Gateway</title></head><body>Access denied by policy.</body></html>"


def named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def gateway(status: int, **headers: str) -> Response:
    """Return the answer of a gateway: without the service's envelope and X-Correlation-ID."""
    return OddReply(HTML, {"Content-Type": "text/html"} | named(headers), status=status, traced=False)


def failure(status: int, code: str, **headers: str) -> Response:
    """Return an error of the service; the names of headers have underscores for dashes."""
    return OddReply(
        json.dumps({"error": {"code": code, "message": "No."}}).encode(), JSON | named(headers), status=status
    )


class Service(Api):
    """An API whose `respond` a test sets; `asked` are the valid requests."""

    def __init__(self, accounts: int = 2, posts: int = 12, stories: int = 0, first_day: int = 0) -> None:
        super().__init__(
            SandboxSettings(accounts=accounts, posts=posts, stories=stories, first_day=first_day, change_every=0)
        )
        self.respond: Callable[[PageRequest, Page], Answer] = lambda _request, _page: None
        self.asked: list[PageRequest] = []

    async def answer(self, request: PageRequest) -> Response:
        self.asked.append(request)
        body = self.render(request)
        found = self.respond(request, json.loads(body))
        if found is None:
            return await super().answer(request)
        if isinstance(found, Response):
            return found
        return Response(json.dumps(found) if isinstance(found, dict) else found, media_type="application/json")

    def names(self) -> list[str]:
        return [account.ig_username for account in self.catalogue.accounts(0)]

    def post_ids(self, position: int) -> list[str]:
        """Return the ids of the posts of the account at this position."""
        account = list(self.catalogue.accounts(0))[position]
        return [item["id"] for _, item in self.catalogue.items(account, "posts", 0)]


def is_media(request: PageRequest, position: int | None = None, surface: str = "posts") -> bool:
    """Return whether it asks for posts, or stories, of the account at this position, or of any."""
    return request.account is not None and request.surface == surface and position in (None, request.resource[0])


def items_of(page: Page, change: Callable[[Page], Page]) -> Page:
    return {**page, "items": [change(item) for item in page["items"]]}
