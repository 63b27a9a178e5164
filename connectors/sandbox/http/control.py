"""The control endpoints, below ``/_sandbox/``, and the OpenAPI description of the API."""

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

from connectors.sandbox.http.faults import Fault
from connectors.sandbox.http.keys import Credential, KeyRequest
from connectors.sandbox.http.openapi import description
from connectors.sandbox.settings import MAX_DAY, RateLimit

if TYPE_CHECKING:
    from connectors.sandbox.http.app import Sandbox

PREFIX = "/_sandbox/"
OPENAPI_PATH = "/openapi.json"

Document = dict[str, Any]
_DayNumber = Annotated[int, Field(ge=0, le=MAX_DAY, strict=True)]


class DayChange(BaseModel, extra="forbid"):
    """The day to set, or by how many days to advance."""

    day: _DayNumber | None = None
    advance: _DayNumber = 1


class LimitChange(BaseModel, extra="forbid"):
    """The limits to change; None: off."""

    account_catalog: RateLimit | None = None
    selected_account: RateLimit | None = None


class Control:
    """The endpoints of a sandbox, one method each."""

    def __init__(self, sandbox: "Sandbox") -> None:
        self._sandbox = sandbox

    def app(self) -> FastAPI:
        """Return the application that serves them."""
        app = FastAPI(openapi_url=None)
        app.add_api_route(OPENAPI_PATH, description)
        for method, path, endpoint, status in (
            ("GET", "day", self.day, 200),
            ("POST", "day", self.change_day, 200),
            ("GET", "limits", self.limits, 200),
            ("POST", "limits", self.change_limits, 200),
            ("GET", "faults", self.faults, 200),
            ("POST", "faults", self.add_fault, 201),
            ("DELETE", "faults", self.remove_faults, 200),
            ("GET", "keys", self.keys, 200),
            ("POST", "keys", self.create_key, 201),
            ("DELETE", "keys/{name}", self.revoke_key, 200),
        ):
            app.add_api_route(f"{PREFIX}{path}", endpoint, methods=[method], status_code=status)
        return app

    async def day(self) -> Document:
        """Show the day."""
        return {"day": self._sandbox.day}

    async def change_day(self, change: DayChange | None = None) -> Document:
        """Set the day, or advance it; without a body, by one."""
        change = change or DayChange()
        self._sandbox.day = self._sandbox.day + change.advance if change.day is None else change.day
        return await self.day()

    async def limits(self) -> dict[str, RateLimit | None]:
        """Show the rate limits by kind of tenant scope; null: off."""
        return self._sandbox.limiter.limits

    async def change_limits(self, change: LimitChange) -> dict[str, RateLimit | None]:
        """Change the given limits."""
        self._sandbox.limiter.configure({kind: getattr(change, kind) for kind in change.model_fields_set})
        return await self.limits()

    async def faults(self) -> list[Fault]:
        """List the faults that are still to happen."""
        return self._sandbox.faults

    async def add_fault(self, fault: Fault) -> list[Fault]:
        """Create a fault."""
        self._sandbox.faults.append(fault)
        return await self.faults()

    async def remove_faults(self) -> list[Fault]:
        """Delete all faults."""
        self._sandbox.faults.clear()
        return await self.faults()

    async def keys(self) -> list[Document]:
        """List all keys, including revoked ones, without their secrets."""
        return [self._shown(credential) for credential in self._sandbox.keyring.issued.values()]

    async def create_key(self, request: KeyRequest) -> Document:
        """Create a key; only this reply shows its secret."""
        try:
            credential, secret = self._sandbox.create_key(request)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        return {**self._shown(credential), "secret": secret}

    async def revoke_key(self, name: str) -> Document:
        """Revoke the key with this name, also repeatedly."""
        keyring = self._sandbox.keyring
        if name not in keyring.issued:
            raise HTTPException(404, f"no key is named {name!r}")
        return self._shown(keyring.revoke(name))

    def _shown(self, credential: Credential) -> Document:
        positions, identity = credential.positions, self._sandbox.catalogue.identity
        return {
            "name": credential.name,
            "scopes": credential.scopes,
            "accounts": None if positions is None else [identity.account_id(position) for position in positions],
            "revoked": self._sandbox.keyring.is_revoked(credential),
        }
