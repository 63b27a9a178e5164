"""What changes while the sandbox runs: faults of the next requests, and the endpoints below ``/_sandbox/``.

docs/commands.md describes each endpoint.
"""

from typing import TYPE_CHECKING, Annotated, Literal, Self

from fastapi import FastAPI
from pydantic import BaseModel, Field, model_validator

from connectors.sandbox.contract import ACCOUNTS, ERRORS, MEDIA, Surface
from connectors.sandbox.http.requests import PageRequest, Refused
from connectors.sandbox.settings import RateLimit

if TYPE_CHECKING:
    from connectors.sandbox.http.app import Sandbox

PREFIX = "/_sandbox"

_DayNumber = Annotated[int, Field(ge=0, le=10_000, strict=True)]
_OPERATIONS = {"accounts": ACCOUNTS, "media": MEDIA}


class Fault(BaseModel, frozen=True, extra="forbid"):
    """What happens to valid requests, and to which: all of those that the given fields match; None: any.

    It affects ``times`` requests; None: all until it is deleted. ``code`` is the error of section 7 that is returned
    instead of a page, and ``retry_after`` for a 429 the seconds to wait. ``delay`` are the seconds before the reply.
    """

    operation: Literal["accounts", "media"] | None = None
    account_id: str | None = None
    surface: Surface | None = None
    times: Annotated[int, Field(ge=1)] | None = 1
    code: str | None = None
    retry_after: Annotated[int, Field(ge=1)] = 1
    delay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.code not in ERRORS and (self.code is not None or not self.delay):
            raise ValueError(f"a fault has a delay, or one of these codes: {', '.join(ERRORS)}")
        return self

    def refusal(self) -> Refused | None:
        """Return the error of this fault; None: there is none."""
        if self.code is None:
            return None
        issues = [{"code": "unrecognized_keys", "path": [0]}] if self.code == "api_validation_error" else []
        return Refused(self.code, issues=issues, retry_after=self.retry_after if self.code == "rate_limited" else None)

    def covers(self, request: PageRequest) -> bool:
        """Return whether this fault affects a request."""
        return (
            (self.operation is None or _OPERATIONS[self.operation] == request.operation)
            and (self.account_id is None or (request.account is not None and self.account_id == request.account.id))
            and self.surface in (None, request.surface)
        )


def take_fault(pending: list[Fault], request: PageRequest) -> Fault | None:
    """Return the first fault that affects a request, and count it: after its last time, it is removed."""
    for index, fault in enumerate(pending):
        if fault.covers(request):
            left = fault.times and fault.times - 1
            pending[index : index + 1] = [] if left == 0 else [fault.model_copy(update={"times": left})]
            return fault
    return None


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
    app = FastAPI(openapi_url=None)

    @app.get(f"{PREFIX}/{{what}}")
    async def show(what: Literal["day", "limits", "faults"]) -> object:
        return {"day": {"day": sandbox.day}, "limits": sandbox.limiter.limits, "faults": sandbox.faults}[what]

    @app.post(f"{PREFIX}/day")
    async def change_day(change: DayChange | None = None) -> object:
        change = change or DayChange()
        sandbox.day = sandbox.day + change.advance if change.day is None else change.day
        return await show("day")

    @app.post(f"{PREFIX}/limits")
    async def change_limits(change: LimitChange) -> object:
        sandbox.limiter.configure({kind: getattr(change, kind) for kind in change.model_fields_set})
        return await show("limits")

    @app.post(f"{PREFIX}/faults", status_code=201)
    async def add_fault(fault: Fault) -> object:
        sandbox.faults.append(fault)
        return await show("faults")

    @app.delete(f"{PREFIX}/faults")
    async def remove_faults() -> object:
        sandbox.faults.clear()
        return await show("faults")

    return app
