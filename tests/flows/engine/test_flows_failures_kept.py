"""A run keeps only facts about a failed request, not the exception or the response."""

import gc
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from connectors.source.endpoints import ApiRequest, Response
from connectors.source.errors import ApiError
from flows.engine.run import Run
from flows.pipeline import merge, run_sync
from models.runs import OutcomeKind
from tests.flows.fake_api import FakeApi, Refusal, account_of, open_run_resources, request

pytestmark = pytest.mark.anyio
ACCOUNTS = 40
REFUSALS = (
    Refusal(429, "rate_limited", 9000),
    Refusal(403, "api_forbidden"),
    Refusal(500, "api_internal_error"),
    Refusal(404, "api_automation_media_not_found"),
)


@dataclass
class Watched(FakeApi):
    """A fake API that keeps weak references to the exceptions."""

    raised: list["weakref.ref[ApiError]"] = field(default_factory=list)

    async def send(self, request: ApiRequest) -> Response:
        try:
            return await super().send(request)
        except ApiError as error:
            self.raised.append(weakref.ref(error))
            raise


async def test_no_exception_of_a_failed_partition_is_kept_until_the_end(tmp_path: Path) -> None:
    def failure(request: ApiRequest) -> Refusal | None:
        account = account_of(request)
        return None if account is None else REFUSALS[account % len(REFUSALS)]

    service = Watched(ACCOUNTS, failure=failure)
    kept: list[int] = []

    async def track(step: Any, run: Run, *args: object) -> Any:  # noqa: ANN401 - any step
        if step is merge:
            kept.append(sum(one() is not None for one in service.raised))
        return await step(run, *args)

    async with open_run_resources(tmp_path, service, page_size=50) as resources:
        gc.collect()
        gc.disable()
        try:
            report = await run_sync(request(tmp_path), resources, track=track)
        finally:
            gc.enable()
    kinds = (OutcomeKind.DEFERRED, OutcomeKind.DENIED, OutcomeKind.FAILED, OutcomeKind.NOT_FOUND)
    assert report.outcomes.kinds == {OutcomeKind.COMPLETE: 1} | dict.fromkeys(kinds, ACCOUNTS // 2)
    assert len(service.raised) > ACCOUNTS
    assert kept == [0]
