"""The control endpoints, below ``/_sandbox/``; docs/sandbox.md describes each."""

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel, Field

from connectors.sandbox.http.faults import Fault
from connectors.sandbox.settings import MAX_DAY, RateLimit

if TYPE_CHECKING:
    from connectors.sandbox.http.app import Sandbox

PREFIX = "/_sandbox"

_DayNumber = Annotated[int, Field(ge=0, le=MAX_DAY, strict=True)]


class DayChange(BaseModel, extra="forbid"):
    """The day to set, or by how many days to advance."""

    day: _DayNumber | None = None
    advance: _DayNumber = 1


class LimitChange(BaseModel, extra="forbid"):
    """The limits to change; None: off."""

    account_catalog: RateLimit | None = None
    selected_account: RateLimit | None = None


def control_app(sandbox: "Sandbox") -> FastAPI:
    """Return the application that serves the endpoints of a sandbox."""
    router = APIRouter(prefix=PREFIX)

    @router.get("/day")
    async def day() -> dict[str, int]:
        return {"day": sandbox.day}

    @router.post("/day")
    async def change_day(change: DayChange | None = None) -> dict[str, int]:
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

    app = FastAPI(openapi_url=None)
    app.include_router(router)
    return app
