"""Incremental nights: feeds in any order, pins, archives and crashes; what then must hold, from the wire alone.

The rules are those of an onlooker who knows what the service shows and what arrived, and nothing of how scans decide.
"""

import json
import logging
import tempfile
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from connectors.sandbox.faults.rules import Action, Rule
from connectors.sandbox.settings import ORDERS, FeedSettings
from flows.engine.pipeline import RunReport, RunRequest
from models import incremental
from models.schema.mapping_built_in import BUILT_IN
from tests import raw
from tests.e2e import reading
from tests.e2e.reading import lasting
from tests.simulation.compare import Snapshot
from tests.simulation.crashes import Crash
from tests.simulation.disk import Disk
from tests.simulation.events import Event, Got, Partition, PendingPages, Sent, instant
from tests.simulation.model import id_of, parsed
from tests.simulation.play import Played, Player
from tests.simulation.referee import Foul, Session, require
from tests.simulation.story import Night, Story, World

# Feeds are small here, and so is what lets a scan stop.
RUN = 4
LOOKBACK = timedelta(days=2)
EVERY = timedelta(days=5)
_DAY = 24.0

_PUBLISHED = next(column for column in BUILT_IN.columns if column.column == "published_at")
_FAULTS = (
    Action("reset"),
    Action("cut"),
    Action("error", code="api_internal_error"),
    Action("error", code="api_forbidden"),
    Action("error", code="rate_limited", retry_after=5),
    Action("error", code="rate_limited", retry_after=90_000),
    Action("refuse_cursor"),
)
Posts = dict[tuple[str, str], tuple[datetime | None, Any]]


def _night(draw: Random) -> Night:
    rules = tuple(
        Rule(draw.choice(_FAULTS), operation="media", surface="posts", probability=draw.choice((0.05, 0.2)))
        for _ in range(draw.choice((0, 0, 0, 1, 2)))
    )
    return Night(
        hours=draw.choice((_DAY, _DAY, _DAY, 3.0, 60.0)),
        faults=rules,
        advance=1,
        forgets_cursors=draw.random() < 0.1,
        crash=Crash("step", int(draw.expovariate(1 / 400)) + 1) if draw.random() < 0.35 else None,
        page_size=draw.choice((3, 4, 5)),
        places=draw.choice((1, 4)),
        latency=draw.choice((0.0, 0.05, 1.0)),
        backfill=draw.random() < 0.08,
        full_refresh=draw.random() < 0.08,
    )


def tell(seed: int, nights: int = 8) -> Story:
    """Return the story of a seed."""
    draw = Random(f"gramhouse incremental {seed}")
    ordered = draw.random() < 0.7
    feed = FeedSettings(
        "newest_first" if ordered else draw.choice(ORDERS),
        draw.choice((0, 0, 1, 2, 3, 3, 4, 5)),
        pins_twice=draw.random() < 0.3,
        archived=draw.choice((0, 0, 5)),
        back_dated=draw.choice((0, 0, 7)),
    )
    world = World(
        draw.randrange(1 << 20), draw.randint(1, 3), draw.choice((20, 40)), 1, draw.choice((0, 0, 3)), "graph", feed
    )
    return Story(seed, world, tuple(_night(draw) for _ in range(nights)))


class Onlooker(Player):
    """Plays nights of incremental syncs, and holds what each leaves against what the service shows."""

    def __init__(self, story: Story, disk: Disk) -> None:
        super().__init__(story, disk)
        self._answers: dict[str, Got] = {}
        self._ended: set[Partition] = set()
        self._complete_at: dict[str, datetime] = {}
        self._absent: dict[str, set[str] | None] = {}
        self._removed: set[tuple[str, str]] = set()
        self.recent = 0

    def request(self, night: Night) -> RunRequest:
        mode: incremental.SyncMode = "full_refresh" if night.full_refresh else "incremental"
        return replace(super().request(night), mode=mode, lookback=LOOKBACK, full_refresh_every=EVERY)

    def play(self) -> None:
        """Play all nights, then quiet ones: the last of them reads everything."""
        nights = self.story.nights
        quiet = (Night(hours=60.0), Night(), Night(full_refresh=True, page_size=50))
        for number, night in enumerate((*nights, *quiet)):
            report = self._play(number, night)
            is_well = report is not None and (report.state == "complete" or report.accounts_missing)
            require(number < len(nights) or is_well, f"a quiet night ended {report}")
        snapshot = Snapshot(self.disk.snapshot)
        try:
            stored = {key: text for key, (_, text) in self._stored(snapshot).items() if key not in self._gone(snapshot)}
            shown = {key: text for key, (_, text) in self._truth().items()}
            expired = {row[0] for row in snapshot.rows("SELECT account_id FROM accounts WHERE status <> 'active'")}
            # Those that left the catalogue keep their posts, be it that a second catalogue has yet to confirm it.
            listed = {account.id for account in self.sandbox.catalogue.accounts(self.sandbox.night)}
            doubted = {
                key for key in stored.keys() - shown.keys() if key[0] not in listed - expired or self._is_doubted(key)
            }
            require(
                {key: text for key, text in stored.items() if key[0] not in expired and key not in doubted}
                == {key: text for key, text in shown.items() if key[0] not in expired},
                "all is not as it is shown",
            )
        finally:
            snapshot.close()

    def _is_doubted(self, key: tuple[str, str]) -> bool:
        # Most of an account's posts were missing at once: another full scan, an hour later, decides.
        return key[1] in (self._absent.get(key[0]) or ())

    def _truth(self) -> Posts:
        found: Posts = {}
        for account, surface, text in self.sandbox.catalogue.truth(self.sandbox.night):
            if surface == "posts":
                item = json.loads(text)
                found[account.id, str(id_of(item))] = (reading.canonical(item, _PUBLISHED), _canonical(text))
        return found

    def _stored(self, snapshot: Snapshot) -> Posts:
        query = f"SELECT account_id, media_id, published_at, gh_payload FROM {raw.media(snapshot.rows)}"
        rows = snapshot.rows(f"{query} WHERE surface = 'posts'")
        return {(row[0], row[1]): (row[2], _canonical(row[3])) for row in rows}

    def _gone(self, snapshot: Snapshot) -> set[tuple[str, str]]:
        query = "SELECT account_id, media_id FROM media WHERE surface = 'posts' AND removed_at IS NOT NULL"
        return {(row[0], row[1]) for row in snapshot.rows(query)}

    def _judge(self, session: Session, log: list[Event], report: RunReport | None) -> None:  # noqa: ARG002 - its base's
        began, landed = set[str](), set[str]()
        for event in log:
            match event:
                case Sent():
                    if event.cursor is None and event.partition[1] == "posts":
                        began.add(event.partition[0])
                case Got():
                    self._answers[event.correlation_id or ""] = event
                case PendingPages():
                    got = self._answers[event.correlation_id or ""]
                    if got.partition[1] == "posts":
                        landed.add(got.partition[0])
                    if parsed(got.body)["next_cursor"] is None:
                        self._ended.add(got.partition)
                case _:
                    pass
        if report is None:
            # What a dead process closed is known to the next; its looks are not followed.
            self._absent.update(dict.fromkeys(began | landed))
            return
        self.ended += 1
        snapshot = Snapshot(self.disk.snapshot)
        try:
            self._inspect(snapshot, report, began, landed, log)
        finally:
            snapshot.close()

    def _inspect(
        self, snapshot: Snapshot, report: RunReport, began: set[str], landed: set[str], log: list[Event]
    ) -> None:
        truth, stored, gone = self._truth(), self._stored(snapshot), self._gone(snapshot)
        rows = snapshot.rows(
            f"SELECT account_id, outcome FROM run_outcomes WHERE run_id = '{report.run_id}' AND surface = 'posts'"
        )
        outcomes: dict[str, str] = dict(rows)
        depths: dict[str, Any] = {
            row[0]: row[1:]
            for row in snapshot.rows(
                "SELECT account_id, complete_at, covered_from FROM completed_scans WHERE surface = 'posts'"
            )
        }
        closed = {one for one, outcome in outcomes.items() if outcome in ("complete", "recent")}
        self.recent += sum(outcome == "recent" for outcome in outcomes.values())
        gaps = {row[0] for row in snapshot.rows("SELECT account_id FROM gaps WHERE surface = 'posts'")}
        require(not gaps & closed & landed, f"closed, and listed as gaps: {gaps & closed}")
        require(landed - closed <= gaps, f"cut short, and not listed as gaps: {landed - closed - gaps}")
        # A full scan that began long ago may have ended before the recent one of this run.
        moved = set[str]()
        for account_id, (complete_at, _) in depths.items():
            if self._complete_at.get(account_id) != complete_at:
                self._complete_at[account_id] = complete_at
                moved.add(account_id)
                require((account_id, "posts") in self._ended, f"{account_id} is complete without a last page")
        self._ended.clear()
        for account_id in closed & landed:
            if account_id not in began:
                # It began in another night, of which this one's list says nothing.
                self._absent[account_id] = None
                continue
            covered_from = depths[account_id][1] if outcomes[account_id] == "recent" else None
            self._hold(account_id, covered_from, truth, stored, gone)
            outcome = "complete" if account_id in moved else outcomes[account_id]
            self._two_looks(account_id, outcome, covered_from, truth, stored, gone)
        self._removed = gone
        self._count(closed, outcomes, log, truth)

    def _hold(
        self, account_id: str, covered_from: datetime | None, truth: Posts, stored: Posts, gone: set[tuple[str, str]]
    ) -> None:
        """What the service lists above the depth is there as it was last delivered, and is not marked as gone."""
        for key, (at, text) in truth.items():
            if key[0] != account_id or (covered_from is not None and (at is None or at <= covered_from)):
                continue
            require(
                stored.get(key, (None, None))[1] == text, f"{key} of {at} is not as it is listed, above {covered_from}"
            )
            require(key not in gone, f"{key} is listed, and marked as gone")

    def _two_looks(
        self,
        account_id: str,
        outcome: str,
        covered_from: datetime | None,
        truth: Posts,
        stored: Posts,
        gone: set[tuple[str, str]],
    ) -> None:
        newly = {key[1] for key in gone - self._removed if key[0] == account_id}
        before = self._absent.get(account_id, set())
        if outcome == "recent" and before is not None:
            require(newly <= before, f"{account_id}: one look marked {newly - before} as gone")
        # A look that did not reach its place says nothing of a post that an earlier one missed.
        absent = {key[1] for key in stored if key[0] == account_id and key not in truth}
        seen = {
            key[1]
            for key, (at, _) in truth.items()
            if key[0] == account_id and (covered_from is None or (at is not None and at > covered_from))
        }
        if outcome == "complete":
            self._absent[account_id] = absent
        elif before is not None:
            self._absent[account_id] = (before | absent) - seen

    def _count(self, closed: set[str], outcomes: dict[str, str], log: list[Event], truth: Posts) -> None:
        """An undisturbed recent scan asks for the pins, the window and the run, and one page of change."""
        night = self.night
        if night.faults or night.crash or night.forgets_cursors:
            return
        for account_id in closed:
            asked = [event for event in log if isinstance(event, Sent) and event.partition == (account_id, "posts")]
            if outcomes[account_id] != "recent" or not asked or asked[0].cursor is not None:
                continue
            since = instant(asked[0].at) - LOOKBACK
            window = sum(at is not None and at >= since for key, (at, _) in truth.items() if key[0] == account_id)
            # Unknown posts among the known ones begin the run anew: the feed is left out where there are any.
            feed = self.story.world.feed
            if not feed.archived and not feed.back_dated:
                most = -(-(3 + feed.pins + window + RUN) // night.page_size) + 1 + _DELETED
                require(len(asked) <= most, f"{account_id}: {len(asked)} requests, and {most} are enough")

    def _set_stage(self, night: Night) -> None:
        self.night = night
        super()._set_stage(night)


# Posts of the sandbox come back after a night or two, as unarchived ones do: each may cost a page.
_DELETED = 3


def _canonical(text: str) -> Any:  # noqa: ANN401 - any JSON
    return lasting(json.loads(text))


def play(story: Story) -> tuple[Played, int]:
    """Play a story on a disk of its own; return how it ended, and how many scans were recent."""
    logging.disable()
    home = "/dev/shm" if Path("/dev/shm").is_dir() else None
    foul = None
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=home) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental, "KNOWN_RUN", RUN)
        player = Onlooker(story, Disk(Path(folder)))
        try:
            player.play()
        except Foul as error:
            foul = str(error)
        finally:
            logging.disable(logging.NOTSET)
        return Played(story, player.nights, player.ended, player.trace.hexdigest(), foul), player.recent
