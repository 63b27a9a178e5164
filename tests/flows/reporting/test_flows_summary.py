"""The summary of a run, read from a real snapshot."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from connectors.source.endpoints import ApiRequest
from connectors.warehouse.runs.failure_groups import Example, FailureGroup
from connectors.warehouse.storage.errors import SnapshotMissing
from flows.engine.pipeline import RunReport, run_sync
from flows.reporting.artifact import markdown
from flows.reporting.events import events
from flows.reporting.summary import (
    Field,
    OutcomeCount,
    RunUnknown,
    Summary,
    Token,
    Truncated,
    summarize,
)
from models.runs import OutcomeKind, RunState
from tests.clocks import START
from tests.flows.fake_api import CORRELATION_ID, FakeApi, Refusal, is_posts, open_run_resources, request, uuid
from tests.flows.summaries import HOSTILE

pytestmark = pytest.mark.anyio

DAY = 86_400.0


@dataclass
class Named(FakeApi):
    """A fake API with other account names, and with more fields in its items."""

    names: dict[int, str] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def _items(self, request: ApiRequest, params: dict[str, str]) -> list[dict[str, Any]]:
        items = super()._items(request, params)
        if request.operation != "accounts.list":
            return [item | self.more for item in items]
        for number, name in self.names.items():
            items[number - 1]["ig_username"] = name
        return items


async def _syncs(folder: Path, service: FakeApi, *changes: Callable[[], None]) -> list[RunReport]:
    """Make each change and run a sync after it, 24 hours apart."""
    reports = []
    async with open_run_resources(folder, service, page_size=50) as resources:
        for day, change in enumerate(changes):
            service.clock.passed = max(service.clock.passed, day * DAY)
            change()
            reports.append(await run_sync(request(folder), resources))
    return reports


def _summed(report: RunReport, *, hours: float = 0.0, **changes: Any) -> Summary:  # noqa: ANN401
    message: dict[str, Any] = {"resumed_runs": report.resumed_runs}
    now = report.started_at + timedelta(hours=hours)
    return summarize(report.snapshot, report.run_id, now=now, **(message | changes))


def _names(some: Truncated[Token]) -> list[str]:
    return [token.ig_username for token in some.shown]


def _nothing() -> None: ...


async def test_a_first_run(tmp_path: Path) -> None:
    [report] = await _syncs(tmp_path, FakeApi(accounts=3, posts=2, expired=frozenset({2})), _nothing)
    found = _summed(report)
    assert found.run.state is RunState.COMPLETE
    assert (found.run.kind, found.run.accounts, found.run.items, found.run.added) == ("sync", 3, 7, 4)
    assert (found.run.started_at, found.run.seconds) == (START, 0.0)
    assert found.scope == "everything"
    assert found.outcomes == (
        OutcomeCount("", OutcomeKind.COMPLETE, 1),
        OutcomeCount("posts", OutcomeKind.COMPLETE, 2),
        OutcomeCount("posts", OutcomeKind.SKIPPED, 1),
        OutcomeCount("stories", OutcomeKind.COMPLETE, 2),
        OutcomeCount("stories", OutcomeKind.SKIPPED, 1),
    )
    assert found.tally[OutcomeKind.SKIPPED] == 2
    assert found.tokens.newly == Truncated(1, (Token(uuid(2), "user_2", START, None),))
    assert (found.tokens.recovered, found.tokens.still, found.failure_groups) == (Truncated(), Truncated(), Truncated())
    # In the first run every field is new, so none is reported.
    assert found.drift.new == found.drift.retyped == Truncated()
    message = [(f.surface, f.accounts, f.fresh, f.stale, f.never, f.overdue, f.expired) for f in found.freshness]
    assert message == [("posts", 2, 2, 0, 0, 0, 1), ("stories", 2, 2, 0, 0, 0, 1)]
    assert found.freshness[0].oldest == START
    assert found.last == (found.run,)


async def test_tokens_expire_stay_expired_and_recover(tmp_path: Path) -> None:
    service = FakeApi(accounts=4)

    def expire(*numbers: int) -> Callable[[], None]:
        return lambda: setattr(service, "expired", frozenset(numbers))

    reports = await _syncs(tmp_path, service, expire(1), expire(1, 3), expire(1, 4), expire(1, 4))
    found = _summed(reports[3])
    assert (found.tokens.newly.total, found.tokens.recovered.total) == (0, 0)
    assert _names(found.tokens.still) == ["user_4", "user_1"]
    assert [run.run_id for run in found.last] == [report.run_id for report in reversed(reports)]

    # The summary of the third day's run does not contain later changes.
    found = _summed(reports[2])
    assert _names(found.tokens.newly) == ["user_4"]
    assert _names(found.tokens.still) == ["user_1"]
    assert _names(found.tokens.recovered) == ["user_3"]
    [recovered] = found.tokens.recovered.shown
    assert recovered.since == START + timedelta(days=2)
    assert found.tokens.newly.shown[0].media_as_of == START + timedelta(days=1)

    # An interrupted run reports nothing: the run that resumes it does.
    found = _summed(reports[2], resumed_runs=(reports[1].run_id, reports[0].run_id))
    assert _names(found.tokens.newly) == ["user_1", "user_4"]
    assert found.tokens.still.total == 0


def _trouble(request: ApiRequest) -> Refusal | None:
    if is_posts(request, 1) or is_posts(request, 2):
        return Refusal(403, "api_forbidden")
    if is_posts(request, 3):
        return Refusal(429, "rate_limited", retry_after=7200)
    return None


async def test_failures_are_grouped_with_examples_and_make_media_stale(tmp_path: Path) -> None:
    service = FakeApi(accounts=3)
    reports = await _syncs(tmp_path, service, _nothing, lambda: setattr(service, "failure", _trouble))
    found = _summed(reports[1], hours=13)
    assert found.run.state is RunState.PARTIAL
    assert found.failure_groups == Truncated(
        2,
        (
            FailureGroup(
                OutcomeKind.DENIED,
                "api_forbidden",
                2,
                2,
                None,
                "No.",
                (
                    Example("user_1", "posts", CORRELATION_ID, uuid(1)),
                    Example("user_2", "posts", CORRELATION_ID, uuid(2)),
                ),
            ),
            FailureGroup(
                OutcomeKind.DEFERRED,
                "rate_limited",
                1,
                1,
                found.failure_groups.shown[1].resume_after,
                found.failure_groups.shown[1].detail,
                (Example("user_3", "posts", CORRELATION_ID, uuid(3)),),
            ),
        ),
    )
    after = found.failure_groups.shown[1].resume_after
    assert after is not None
    assert timedelta(hours=2) <= after - START - timedelta(days=1) < timedelta(hours=3)
    message = [(f.surface, f.fresh, f.stale, f.never, f.overdue) for f in found.freshness]
    assert message == [("posts", 0, 3, 0, 3), ("stories", 3, 0, 0, 0)]
    assert [event.name for event in events(found)] == ["gramhouse.run.partial", "gramhouse.stale"]
    assert [f.overdue for f in _summed(reports[1], hours=11).freshness] == [0, 0]


async def test_who_was_never_scanned_is_overdue_only_when_known_for_long(tmp_path: Path) -> None:
    service = FakeApi(accounts=2, failure=_trouble)
    [report] = await _syncs(tmp_path, service, _nothing)
    posts = _summed(report, hours=1).freshness[0]
    assert (posts.accounts, posts.fresh, posts.stale, posts.never, posts.overdue, posts.oldest) == (2, 0, 0, 2, 0, None)
    assert _summed(report, hours=40).freshness[0].overdue == 2


async def test_a_catalogue_that_fails_is_named_as_that(tmp_path: Path) -> None:
    service = FakeApi(failure=lambda _: Refusal(401, "api_unauthorized"))
    [report] = await _syncs(tmp_path, service, _nothing)
    found = _summed(report)
    assert found.run.state is RunState.FAILED
    assert found.failure_groups.shown[0].examples == (Example("", "", CORRELATION_ID),)
    assert "the account catalogue, correlation id" in markdown(found)
    assert "check the API key" in markdown(found)
    assert found.freshness == ()


async def test_drift_consists_of_fields_first_seen_in_this_run(tmp_path: Path) -> None:
    service = Named(accounts=2)
    reports = await _syncs(
        tmp_path,
        service,
        lambda: service.more.update(level=1),
        lambda: service.more.update(level="high", mood="calm"),
        _nothing,
    )
    found = _summed(reports[1])
    assert found.drift.new == Truncated(1, (Field("media", "/mood", "VARCHAR"),))
    assert [change.path for change in found.drift.retyped.shown] == ["/level"]
    assert _summed(reports[2]).drift.new == Truncated()
    assert _summed(reports[2]).drift.retyped == Truncated()


async def test_long_lists_are_counted_and_truncated(tmp_path: Path) -> None:
    service = FakeApi(accounts=70, posts=1, expired=frozenset(range(1, 61)))
    [report] = await _syncs(tmp_path, service, _nothing)
    found = _summed(report)
    assert (found.tokens.newly.total, len(found.tokens.newly.shown)) == (60, 50)
    assert len(markdown(found)) < 5_000


async def test_hostile_names_are_rejected_and_hostile_fields_are_shown_as_text(tmp_path: Path) -> None:
    service = Named(accounts=len(HOSTILE) + 1, posts=1)

    def turn() -> None:
        service.names.update(enumerate(HOSTILE, 1))
        service.more.update(dict.fromkeys(HOSTILE, "x"))

    reports = await _syncs(tmp_path, service, _nothing, turn)
    found = _summed(reports[1])
    assert found.run.quarantined == len(HOSTILE)
    assert found.drift.new.total == len(HOSTILE)
    page = markdown(found)
    assert "`/[click](https:~1~1evil.example)`" in page
    # The page has exactly its own five headings: external text adds none.
    assert page.count("\n### ") == page.count("\n#") == 5
    [drift] = [event for event in events(found) if event.name == "gramhouse.drift"]
    assert "«!channel»" in drift.payload["sentence"]
    assert not any(sign in drift.payload["sentence"] for sign in ("<", "{", "@", "`", "["))


async def test_a_run_that_the_snapshot_does_not_know(tmp_path: Path) -> None:
    [report] = await _syncs(tmp_path, FakeApi(), _nothing)
    with pytest.raises(RunUnknown, match="does not contain run another"):
        summarize(report.snapshot, "another", resumed_runs=(), now=START)
    with pytest.raises(SnapshotMissing):
        summarize(tmp_path / "none", "another", resumed_runs=(), now=START)
