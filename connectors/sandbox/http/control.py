"""The control endpoints, below ``/_sandbox/``."""

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, FastAPI, HTTPException
from pydantic import BaseModel, Field

from connectors.sandbox.http.faults import Fault
from connectors.sandbox.http.keys import Credential, KeyRequest
from connectors.sandbox.settings import MAX_DAY, RateLimit

if TYPE_CHECKING:
    from connectors.sandbox.http.app import Sandbox

PREFIX = "/_sandbox"

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


def control_app(sandbox: "Sandbox") -> FastAPI:  # noqa: C901 - one short function for each endpoint
    """Return the application that serves the endpoints of a sandbox; docs/sandbox.md describes each."""
    router = APIRouter(prefix=PREFIX)

    def shown(credential: Credential) -> Document:
        positions, identity = credential.positions, sandbox.catalogue.identity
        return {
            "name": credential.name,
            "scopes": credential.scopes,
            "accounts": None if positions is None else [identity.account_id(position) for position in positions],
            "revoked": sandbox.keyring.is_revoked(credential),
        }

    @router.get("/day")
    async def day() -> Document:
        return {"day": sandbox.day}

    @router.post("/day")
    async def change_day(change: DayChange | None = None) -> Document:
        change = change or DayChange()
        sandbox.day = sandbox.day + change.advance if change.day is None else change.day
        return {"day": sandbox.day}

    @router.get("/limits")
    async def limits() -> dict[str, RateLimit | None]:
        return sandbox.limiter.limits

    @router.post("/limits")
    async def change_limits(change: LimitChange) -> dict[str, RateLimit | None]:
        sandbox.limiter.configure({kind: getattr(change, kind) for kind in change.model_fields_set})
        return sandbox.limiter.limits

    @router.get("/faults")
    async def faults() -> list[Fault]:
        return sandbox.faults

    @router.post("/faults", status_code=201)
    async def add_fault(fault: Fault) -> list[Fault]:
        sandbox.faults.append(fault)
        return sandbox.faults

    @router.delete("/faults")
    async def remove_faults() -> list[Fault]:
        sandbox.faults.clear()
        return sandbox.faults

    @router.get("/keys")
    async def keys() -> list[Document]:
        return [shown(credential) for credential in sandbox.keyring.issued.values()]

    @router.post("/keys", status_code=201)
    async def create_key(request: KeyRequest) -> Document:
        try:
            credential = request.credential(sandbox.catalogue, sandbox.day)
            secret = sandbox.keyring.create(credential)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        return {**shown(credential), "secret": secret}

    @router.delete("/keys/{name}")
    async def revoke_key(name: str) -> Document:
        if name not in sandbox.keyring.issued:
            raise HTTPException(404, f"no key is named {name!r}")
        return shown(sandbox.keyring.revoke(name))

    app = FastAPI(openapi_url=None)
    app.include_router(router)
    return app
