"""Progress and events sent to Prefect; errors of Prefect do not affect the run."""

import asyncio
import logging
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from flows.orchestration import notify as telling
from flows.orchestration.notify import notify, notify_failure, share, show_progress
from flows.pipeline import run_sync
from flows.reporting.progress import Progress
from tests.clocks import VirtualClock
from tests.flows.fake_api import FakeApi, open_run_resources, request

pytestmark = pytest.mark.anyio

ARTIFACT = UUID(int=1)


class Server:
    """Records the messages sent to Prefect; the first `ails` of them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ails: int = 0) -> None:
        self.ails = ails
        self.shown: list[tuple[float, str]] = []
        self.emitted: list[str] = []
        self.pages: list[str] = []
        for name, door in {
            "acreate_progress_artifact": self._create,
            "aupdate_progress_artifact": self._update,
            "acreate_markdown_artifact": self._page,
            "emit_event": self._emit,
        }.items():
            monkeypatch.setattr(telling, name, door)

    def _answer(self) -> None:
        if self.ails:
            self.ails -= 1
            message = "away"
            raise ConnectionError(message)

    async def _create(self, percent: float, key: str, description: str) -> UUID:
        self._answer()
        assert key == "gramhouse-progress"
        self.shown.append((percent, description))
        return ARTIFACT

    async def _update(self, artifact: UUID, percent: float, description: str) -> None:
        assert artifact == ARTIFACT
        self._answer()
        self.shown.append((percent, description))

    async def _page(self, markdown: str, *, key: str, description: str) -> None:
        self._answer()
        assert key == "gramhouse-run"
        assert description
        self.pages.append(markdown)

    def _emit(self, *, event: str, resource: dict[str, str], payload: dict[str, Any]) -> None:
        assert resource["prefect.resource.id"].startswith("gramhouse.run.")
        assert payload["sentence"]
        self.emitted.append(event)


@pytest.mark.parametrize(
    ("progress", "percent"),
    [
        (Progress(), 0.0),
        (Progress(accounts=200, accounts_done=50, pages=3, items=9), 25.0),
        (Progress(accounts=8, accounts_done=8, catalogue_complete=True, waiting=1), 99.0),
    ],
)
def test_progress_is_a_share_of_the_accounts(progress: Progress, percent: float) -> None:
    assert share(progress) == percent


class _Ticks(VirtualClock):
    """A clock on which one account is finished every five seconds, until there are three."""

    def __init__(self, progress: Progress, enough: asyncio.Event) -> None:
        super().__init__()
        self._progress = progress
        self._enough = enough

    async def sleep(self, seconds: float) -> None:
        assert seconds == 5.0
        self._progress.accounts_done += 1
        if self._progress.accounts_done == 3:
            self._enough.set()
            await asyncio.Event().wait()
        await super().sleep(seconds)


async def test_progress_moves_and_ends_at_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    server, progress, enough = Server(monkeypatch), Progress(accounts=10, catalogue_complete=True), asyncio.Event()
    async with show_progress(progress, _Ticks(progress, enough)):
        await enough.wait()
    assert [percent for percent, _ in server.shown] == [0.0, 10.0, 20.0, 100.0]
    assert server.shown[-1][1].startswith("3 of 10 accounts")


async def test_progress_warns_once_about_an_unavailable_server_and_continues_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server, progress, enough = Server(monkeypatch, 2), Progress(accounts=10), asyncio.Event()
    with caplog.at_level(logging.WARNING, "flows.orchestration.notify"):
        async with show_progress(progress, _Ticks(progress, enough)):
            await enough.wait()
    assert [percent for percent, _ in server.shown] == [20.0, 100.0]
    assert caplog.messages == [
        "Prefect did not receive the run's progress (away); the run is recorded in the warehouse."
    ]


async def test_progress_of_a_run_that_raises_is_left_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    server, progress, enough = Server(monkeypatch), Progress(accounts=10), asyncio.Event()
    message = "the run's own"

    async def watched() -> None:
        async with show_progress(progress, _Ticks(progress, enough)):
            await enough.wait()
            raise ValueError(message)

    with pytest.raises(ValueError, match=message):
        await watched()
    assert [percent for percent, _ in server.shown] == [0.0, 10.0, 20.0]


async def test_a_run_is_reported_with_its_page_and_its_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    async with open_run_resources(tmp_path, FakeApi(expired=frozenset({1}))) as resources:
        report = await run_sync(request(tmp_path), resources)
    await notify(report)
    assert server.emitted[:2] == ["gramhouse.run.complete", "gramhouse.tokens"]
    [page] = server.pages
    assert "`user_1`" in page


async def test_an_error_of_reporting_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(monkeypatch, 1)
    async with open_run_resources(tmp_path, FakeApi()) as resources:
        report = await run_sync(request(tmp_path), resources)
    with caplog.at_level(logging.WARNING, "flows.orchestration.notify"):
        await notify(report)
    [away] = caplog.messages
    assert away == "Prefect did not receive the run's page (away); the run is recorded in the warehouse."
    # The events of the first run were sent before its artifact failed.
    assert server.emitted[0] == "gramhouse.run.complete"


async def test_a_failure_is_reported_and_an_error_of_the_report_is_ignored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(monkeypatch)
    await notify_failure("the warehouse is no file")
    assert server.emitted == ["gramhouse.run.failed"]

    def broken(**_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(telling, "emit_event", broken)
    with caplog.at_level(logging.WARNING, "flows.orchestration.notify"):
        await notify_failure("the warehouse is no file")
    assert caplog.messages == [
        "Prefect did not receive the failure event (TimeoutError); the run is recorded in the warehouse."
    ]
