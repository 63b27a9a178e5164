"""The sandbox: API v1 as an ASGI application (API 4), together with its control endpoints."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from hashlib import blake2b
from itertools import count, islice
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from connectors.sandbox.contract import ACCOUNT_SCOPE, CATALOG_SCOPE, UUID
from connectors.sandbox.data.catalogue import FIRST_ACCOUNT, FIRST_ITEM, Account, Catalogue
from connectors.sandbox.data.identity import Draw
from connectors.sandbox.http.faults import PREFIX, Fault, control_app, take_fault
from connectors.sandbox.http.requests import (
    TRACE,
    Credential,
    Cursors,
    PageRequest,
    RateLimiter,
    Refused,
    read_credential,
    read_path,
    read_query,
)
from connectors.sandbox.settings import SandboxSettings


class Sandbox:
    """API v1 over a seeded catalogue.

    ``catalogue`` are the accounts and items to serve, by default those of the settings. ``clock`` returns seconds for
    the rate limiter, ``sleep`` waits for the delays of faults.

    The attribute ``day`` may be set at any time, even during a scan. A subclass can override ``answer``.
    """

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        *,
        catalogue: Catalogue | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        settings = settings or SandboxSettings()
        self.day = settings.day
        self.catalogue = catalogue or Catalogue(settings)
        self.cursors = Cursors(Draw(settings.seed))
        self.faults: list[Fault] = []
        self.limiter = RateLimiter({CATALOG_SCOPE: None, ACCOUNT_SCOPE: None}, clock)
        self.sleep = sleep
        head = blake2b(f"{settings.seed} {clock()}".encode(), digest_size=9).hexdigest().upper()
        self.correlation_ids: Iterator[str] = (f"{head}{number:08X}" for number in count(1))
        self.control = control_app(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI connection scope."""
        if scope["path"].startswith(PREFIX):
            # Otherwise a body sent with `curl -d`, which has the type of a form, would be refused.
            kept = [one for one in scope["headers"] if one[0] != b"content-type"]
            await self.control({**scope, "headers": [*kept, (b"content-type", b"application/json")]}, receive, send)
            return
        correlation_id = next(self.correlation_ids)
        try:
            reply = await self.answer(self._check(scope))
        except Refused as refused:
            reply = refused.reply(correlation_id)
        reply.headers.setdefault(TRACE, correlation_id)
        await reply(scope, receive, send)

    async def answer(self, request: PageRequest) -> Response:
        """Answer a valid request with its page, or with a fault. Raises Refused."""
        fault = take_fault(self.faults, request)
        if fault is not None:
            await self.sleep(fault.delay)
            if refusal := fault.refusal():
                raise refusal
        return Response(self.render(request), media_type="application/json")

    def _check(self, scope: Scope) -> PageRequest:
        account_id = read_path(scope["method"], scope["path"])
        credential = read_credential(dict(scope["headers"]).get(b"authorization", b""))
        account = None if account_id is None else self.granted(credential, account_id)
        kind, position = (CATALOG_SCOPE, -1) if account is None else (ACCOUNT_SCOPE, account.position)
        if (wait := self.limiter.admit(kind, credential.key, position)) is not None:
            raise Refused("rate_limited", retry_after=wait)
        surface, cursor, limit = read_query(scope["query_string"], media=account is not None)
        anchor: int | None = FIRST_ACCOUNT if account is None else FIRST_ITEM
        if cursor is not None:
            anchor = self.cursors.read(cursor, (position, surface))
        if anchor is None:
            raise Refused("api_invalid_cursor")
        grant = credential.positions if account is None else None
        return PageRequest(account, surface, cursor, anchor, limit, grant, self.day)

    def granted(self, credential: Credential, account_id: str) -> Account:
        """Return an account that a key has access to. Raises Refused."""
        if not credential.lists_media:
            raise Refused("api_scope_denied")
        if UUID.fullmatch(account_id) is None:
            raise Refused("api_automation_invalid_configuration")
        position = self.catalogue.position(account_id)
        is_granted = credential.positions is None or position in credential.positions
        if not is_granted or not self.catalogue.has_listed(position, self.day):
            raise Refused("api_account_not_granted")
        account = self.catalogue.find(position, self.day)
        if account is None:
            # The account has left the service. Only a key with access to it may find out (API 5.9).
            raise Refused("api_automation_media_not_found")
        return account

    def render(self, request: PageRequest) -> bytes:
        """Return the body of a page."""
        account, day, limit = request.account, request.day, request.limit
        records = (
            ((one.position, one.record()) for one in self.catalogue.accounts(day, request.grant, request.anchor))
            if account is None
            else self.catalogue.items(account, request.surface, day, request.anchor)
        )
        found = list(islice(records, limit + 1))
        # The anchor is an item, not an offset, so that added and removed items do not shift the pages of a scan.
        following = self.cursors.issue(request.resource, found[limit - 1][0]) if len(found) > limit else None
        page = {"items": [record for _, record in found[:limit]], "next_cursor": following}
        return json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode()
