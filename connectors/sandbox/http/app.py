"""The sandbox: API v1 as an ASGI application (API 4), together with its control plane."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Any

from connectors.sandbox.contract import ACCOUNT_SCOPE, ACCOUNTS, CATALOG_SCOPE, MEDIA, MEDIA_KEY_SCOPE, Code
from connectors.sandbox.data.catalogue import Catalogue
from connectors.sandbox.faults.delivery import deliver
from connectors.sandbox.faults.script import FaultScript
from connectors.sandbox.faults.staging import staged
from connectors.sandbox.http.checks import (
    account_of,
    account_query,
    account_uuid,
    body_length,
    check_body,
    media_query,
    read_body,
)
from connectors.sandbox.http.control import CONTROL_PREFIX, OPENAPI_PATH, control_plane
from connectors.sandbox.http.cursors import Cursors
from connectors.sandbox.http.exchange import Asked, CorrelationIds, Refused, Reply, Resource, json_reply
from connectors.sandbox.http.keys import Keyring
from connectors.sandbox.http.limits import RateLimiter, TenantScope
from connectors.sandbox.http.pages import Pages, Wanted
from connectors.sandbox.http.request_log import Entry, RequestLog
from connectors.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from connectors.sandbox.data.population import Account
    from connectors.sandbox.faults.delivery import Receive, Scope, Send
    from connectors.sandbox.http.key_requests import KeyRequest
    from connectors.sandbox.http.keys import Credential


def _new_secret() -> str:
    # The format of the API's keys is not documented (API 5.10), so the sandbox has its own.
    return f"sandbox-{secrets.token_hex(16)}"


class Sandbox:
    """API v1 over a seeded catalogue.

    ``clock`` returns seconds for the rate limiter and the log, ``sleep`` waits for scripted delays, ``new_secret``
    returns the secret of a key that is created at runtime.

    The attribute ``day`` may be set at any time, even during a scan.
    """

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        new_secret: Callable[[], str] = _new_secret,
    ) -> None:
        self.settings = settings or SandboxSettings()
        self.day = self.settings.day
        self.catalogue = Catalogue(self.settings)
        self.keyring = Keyring(self.settings.keys, self.catalogue.position)
        self.cursors = Cursors(self.settings.seed)
        self.pages = Pages(self.catalogue, self.cursors, self.settings)
        self.faults = FaultScript(self.settings.seed, self.settings.faults)
        self.log = RequestLog(self.settings.log_size)
        self.limiter = RateLimiter(
            {
                CATALOG_SCOPE: self.settings.account_catalog,
                ACCOUNT_SCOPE: self.settings.selected_account,
            },
            clock,
        )
        self._clock = clock
        self._sleep = sleep
        self._new_secret = new_secret
        self._ids = CorrelationIds(self.settings.seed, clock())
        self._control = control_plane(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI connection scope."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["path"] == OPENAPI_PATH or scope["path"].startswith(CONTROL_PREFIX):
            await self._control(scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    def create_key(self, request: KeyRequest) -> tuple[Credential, str]:
        """Create a key, and return it with its secret (API 5.3).

        Raises ValueError if the name was used before, and for accounts that were never listed.
        """
        secret = self._new_secret()
        return self.keyring.add(request.key(secret, self.catalogue, self.day)), secret

    def refuse_unread(self, code: Code) -> tuple[Reply, str]:
        """Log a request that could not be parsed; return the error reply and its correlation id."""
        asked = Asked(self._ids.new(), self._clock())
        reply = Refused(code).reply(asked.correlation_id)
        self._note(asked, reply)
        return reply, asked.correlation_id

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = Asked(self._ids.new(), self._clock())
        try:
            reply = await self._answer(asked, scope, receive)
        except Refused as refused:
            reply = refused.reply(asked.correlation_id)
        self._note(asked, reply)
        if reply.delay:
            await self._sleep(reply.delay)
        await deliver(reply, asked.correlation_id, scope, receive, send)

    def _note(self, asked: Asked, reply: Reply) -> None:
        self.log.counts[asked.operation, reply.status] += 1
        if self.log.keeps:
            self.log.entries.append(_entry(asked, reply))

    async def _answer(self, asked: Asked, scope: Scope, receive: Receive) -> Reply:
        raw_path = scope.get("raw_path") or scope["path"].encode()
        account_id = account_of(scope["method"], raw_path)
        asked.operation = ACCOUNTS if account_id is None else MEDIA
        headers = dict(scope["headers"])
        length = body_length(headers)
        credential = self.keyring.find(headers.get(b"authorization"))
        if credential is None:
            raise Refused(Code.UNAUTHORIZED)
        account = None if account_id is None else self._granted(asked, credential, account_id)
        tenant = self._limited(asked, credential, account)
        if length != 0:
            check_body(await read_body(receive, length), headers.get(b"content-type", b""))
        query = (account_query if account is None else media_query)(scope["query_string"])
        asked.surface, asked.cursor, asked.limit = query.surface, query.cursor, query.limit
        wanted = Wanted(
            Resource() if account is None else Resource(account.position, query.surface),
            account,
            credential.positions,
            query.limit,
            self.day,
        )
        return self._page(asked, wanted, tenant)

    def _granted(self, asked: Asked, credential: Credential, account_id: str) -> Account:
        if MEDIA_KEY_SCOPE not in credential.scopes:
            raise Refused(Code.SCOPE_DENIED)
        asked.account_id = account_uuid(account_id).lower()
        position = self.catalogue.position(asked.account_id)
        if not self.catalogue.has_listed(position, self.day) or not credential.reaches(position):
            raise Refused(Code.ACCOUNT_NOT_GRANTED)
        account = self.catalogue.find(asked.account_id, self.day)
        if account is None:
            # The account has left the service. Only a key with access to it may find out (API 5.9).
            raise Refused(Code.AUTOMATION_MEDIA_NOT_FOUND)
        return account

    def _limited(self, asked: Asked, credential: Credential, account: Account | None) -> TenantScope:
        if account is None:
            tenant = TenantScope(CATALOG_SCOPE, credential.name)
        else:
            tenant = TenantScope(ACCOUNT_SCOPE, credential.name, account.position)
        self.limiter.note_early(tenant, asked.account_id, asked.correlation_id)
        wait = self.limiter.admit(tenant)
        if wait is not None:
            raise Refused(Code.RATE_LIMITED, headers={b"retry-after": b"%d" % wait})
        return tenant

    def _page(self, asked: Asked, wanted: Wanted, tenant: TenantScope) -> Reply:
        start = None
        if asked.cursor is not None:
            start = self.cursors.read(asked.cursor, wanted.resource)
            if start is None:
                raise Refused(Code.INVALID_CURSOR)
        anchor = start.anchor if start else None
        if not self.faults.rules:
            return json_reply(200, self.pages.page(wanted, anchor))
        first = asked.cursor is None
        actions = self.faults.fire(wanted.resource, asked.account_id, first=first)
        reply = staged(actions, asked, wanted, start, self.pages)
        waits = dict(reply.headers).get(b"retry-after", b"")
        if reply.status == 429 and waits.isdigit():
            self.limiter.announce(tenant, int(waits))
        return reply


def _entry(asked: Asked, reply: Reply) -> Entry:
    return Entry(
        asked.operation,
        asked.account_id,
        asked.surface,
        asked.cursor,
        asked.limit,
        reply.status,
        reply.code,
        asked.arrived,
        asked.correlation_id,
    )


async def _live(receive: Receive, send: Send) -> None:
    while True:
        stage = (await receive())["type"]
        await send({"type": f"{stage}.complete"})
        if stage == "lifespan.shutdown":
            return
