"""The control plane under ``/_sandbox/``: day, faults, limits, keys, request log, all data. Not part of the API."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from connectors.sandbox.contract import ACCOUNT_SCOPE, CATALOG_SCOPE, KEY_SCOPES
from connectors.sandbox.faults.rules import rule_from_json
from connectors.sandbox.http.key_requests import request_from_json
from connectors.sandbox.http.keys import DEMO_KEY
from connectors.sandbox.http.openapi import description
from connectors.sandbox.settings import RateLimit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request
    from starlette.responses import Response

    from connectors.sandbox.data.catalogue import Catalogue
    from connectors.sandbox.faults.script import FaultScript
    from connectors.sandbox.http.key_requests import KeyRequest
    from connectors.sandbox.http.keys import Credential, Keyring
    from connectors.sandbox.http.limits import RateLimiter
    from connectors.sandbox.http.request_log import RequestLog

CONTROL_PREFIX = "/_sandbox/"
OPENAPI_PATH = "/openapi.json"
_BLOCK = 200
_KINDS = (CATALOG_SCOPE, ACCOUNT_SCOPE)


class Controlled(Protocol):
    """The parts of a sandbox that the control plane uses."""

    day: int
    catalogue: Catalogue
    keyring: Keyring
    faults: FaultScript
    limiter: RateLimiter
    log: RequestLog

    def create_key(self, request: KeyRequest) -> tuple[Credential, str]:
        """Create a key, and return it with its secret."""
        ...


def control_plane(sandbox: Controlled) -> Starlette:
    """Return the application that controls a sandbox. Invalid requests get status 400 and ``{"error": why}``."""
    control = ControlApi(sandbox)
    return Starlette(
        routes=[
            Route(f"{CONTROL_PREFIX}day", control.day),
            Route(f"{CONTROL_PREFIX}day", control.set_day, methods=["POST"]),
            Route(f"{CONTROL_PREFIX}faults", control.faults),
            Route(f"{CONTROL_PREFIX}faults", control.set_faults, methods=["POST", "DELETE"]),
            Route(f"{CONTROL_PREFIX}requests", control.requests),
            Route(f"{CONTROL_PREFIX}requests", control.forget_requests, methods=["DELETE"]),
            Route(f"{CONTROL_PREFIX}stats", control.stats),
            Route(f"{CONTROL_PREFIX}limits", control.limits),
            Route(f"{CONTROL_PREFIX}limits", control.set_limits, methods=["POST"]),
            Route(f"{CONTROL_PREFIX}keys", control.keys),
            Route(f"{CONTROL_PREFIX}keys", control.create_key, methods=["POST"]),
            Route(f"{CONTROL_PREFIX}keys/{{name}}", control.revoke_key, methods=["DELETE"]),
            Route(f"{CONTROL_PREFIX}truth", control.truth),
            Route(OPENAPI_PATH, control.openapi),
        ],
        exception_handlers={ValueError: _refused, TypeError: _refused},
    )


class ControlApi:
    """The endpoints, one method each."""

    def __init__(self, sandbox: Controlled) -> None:
        self._sandbox = sandbox

    async def day(self, _request: Request) -> Response:
        """Show the day."""
        return JSONResponse({"day": self._sandbox.day})

    async def set_day(self, request: Request) -> Response:
        """Set the day with ``{"day": n}``, or advance it with ``{"advance": n}``; an empty body advances it by one."""
        wanted = await _object(request)
        day = wanted.get("day", self._sandbox.day + wanted.get("advance", 1))
        if isinstance(day, bool) or not isinstance(day, int) or day < 0:
            message = f"a day is an integer of at least 0, not {day!r}"
            raise ValueError(message)
        self._sandbox.day = day
        return await self.day(request)

    async def faults(self, _request: Request) -> Response:
        """Show the rules and how often each has fired."""
        script = self._sandbox.faults
        shown = [{**asdict(rule), "fired": script.fired[index]} for index, rule in enumerate(script.rules)]
        return JSONResponse({"faults": shown})

    async def set_faults(self, request: Request) -> Response:
        """Replace the rules by a JSON array of rules (or ``{"faults": [...]}``); DELETE removes all."""
        body = await request.body() if request.method == "POST" else b"[]"
        wanted = json.loads(body)
        rules = wanted.get("faults") if isinstance(wanted, dict) else wanted
        if not isinstance(rules, list):
            message = "faults are a JSON array of rules"
            raise TypeError(message)
        self._sandbox.faults.replace([rule_from_json(rule) for rule in rules])
        return await self.faults(request)

    async def requests(self, _request: Request) -> Response:
        """Show the last requests, oldest first."""
        return JSONResponse({"requests": [entry._asdict() for entry in self._sandbox.log.entries]})

    async def forget_requests(self, request: Request) -> Response:
        """Clear the requests, the counts and the early requests."""
        self._sandbox.log.clear()
        self._sandbox.limiter.forget_early()
        return await self.stats(request)

    async def stats(self, _request: Request) -> Response:
        """Show counts by operation and status, early requests, repeated requests, and the number of distinct ones."""
        log, limiter = self._sandbox.log, self._sandbox.limiter
        counts: dict[str, dict[str, int]] = {}
        for (operation, status), count in sorted(log.counts.items(), key=str):
            counts.setdefault(operation or "unknown", {})[str(status)] = count
        return JSONResponse(
            {
                "day": self._sandbox.day,
                "total": log.counts.total(),
                "counts": counts,
                "distinct": log.distinct(),
                "asked_again": [{**entry._asdict(), "times": times} for entry, times in log.asked_again()],
                "early_requests": limiter.early_total,
                "early": [asdict(early) for early in limiter.early],
            }
        )

    async def limits(self, _request: Request) -> Response:
        """Show the rate limits by kind of tenant scope; null: off."""
        shown = {kind: asdict(limit) if limit else None for kind, limit in self._sandbox.limiter.limits.items()}
        return JSONResponse(shown)

    async def set_limits(self, request: Request) -> Response:
        """Change the given limits, for example ``{"account_catalog": {"requests": 5, "seconds": 1}}``; null: off."""
        wanted = await _object(request)
        if not wanted.keys() <= set(_KINDS):
            message = f"limits are for {' and '.join(_KINDS)}"
            raise ValueError(message)
        limits = {kind: RateLimit(**limit) if limit else None for kind, limit in wanted.items()}
        self._sandbox.limiter.configure(limits)
        return await self.limits(request)

    async def keys(self, _request: Request) -> Response:
        """List all keys, including revoked ones, with name, scopes and accounts (null: all), but without secrets."""
        shown = [self._shown(credential) for credential in self._sandbox.keyring.issued.values()]
        return JSONResponse({"keys": shown})

    async def create_key(self, request: Request) -> Response:
        """Create a key from ``{"name": ..., "scopes": [...], "accounts": [...]}``; only this reply shows its secret."""
        credential, secret = self._sandbox.create_key(request_from_json(await _object(request)))
        return JSONResponse({**self._shown(credential), "secret": secret}, 201)

    async def revoke_key(self, request: Request) -> Response:
        """Revoke the key with this name, also repeatedly; 404 if there never was one."""
        keyring, name = self._sandbox.keyring, request.path_params["name"]
        if name not in keyring.issued:
            return JSONResponse({"error": f"no key is named {name!r}"}, 404)
        return JSONResponse(self._shown(keyring.revoke(name)))

    def _shown(self, credential: Credential) -> dict[str, object]:
        catalogue, positions = self._sandbox.catalogue, credential.positions
        return {
            "name": credential.name,
            "scopes": [scope for scope in KEY_SCOPES if scope in credential.scopes],
            "accounts": None if positions is None else [catalogue.account_id(index) for index in positions],
            "revoked": self._sandbox.keyring.is_revoked(credential),
        }

    async def truth(self, request: Request) -> Response:
        """Stream all data that a key can access on the current day as NDJSON.

        By default the accounts (API 2); with ``?media=1`` one line per media item instead:
        ``{"account_id", "surface", "item"}``. ``?key=`` selects another key than the demo key.
        """
        key = request.query_params.get("key", DEMO_KEY)
        credential = self._sandbox.keyring.find(b"Bearer " + key.encode())
        if credential is None:
            message = "no such key"
            raise ValueError(message)
        wants_media = request.query_params.get("media", "0") not in {"", "0"}
        lines = (self._media if wants_media else self._accounts)(credential.positions)
        return StreamingResponse(_in_blocks(lines), media_type="application/x-ndjson")

    async def openapi(self, _request: Request) -> Response:
        """Show the OpenAPI description of API v1."""
        return JSONResponse(description())

    def _accounts(self, grant: tuple[int, ...] | None) -> Iterator[str]:
        for account in self._sandbox.catalogue.accounts(self._sandbox.day, grant):
            yield f"{account.json()}\n"

    def _media(self, grant: tuple[int, ...] | None) -> Iterator[str]:
        for account, surface, item in self._sandbox.catalogue.truth(self._sandbox.day, grant):
            yield f'{{"account_id":"{account.id}","surface":"{surface}","item":{item}}}\n'


async def _in_blocks(lines: Iterator[str]) -> AsyncIterator[str]:
    # The data may be large, so other requests are served between blocks.
    while block := "".join(islice(lines, _BLOCK)):
        yield block
        await asyncio.sleep(0)


async def _object(request: Request) -> dict[str, Any]:
    body = await request.body()
    document = json.loads(body) if body else {}
    if not isinstance(document, dict):
        message = "the body must be a JSON object"
        raise TypeError(message)
    return document


async def _refused(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=400)
