"""A walk's durable progress, and the decision where the next run takes it up."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Literal

from models.partition import Partition

# Whose progress a checkpoint is: a backfill's walk of a partition never disturbs the sync's.
Lane = Literal["sync", "backfill"]


class WalkState(StrEnum):
    """How far a walk is. Only a complete one says anything about what is gone."""

    WALKING = "walking"
    COMPLETE = "complete"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A walk's progress: `pages` and `items` landed so far, and the cursor of the page to ask for next.

    It is committed in the same transaction as the page it speaks of, so it is never ahead of its rows.
    `pages` and `items` count the whole walk, over every run that took part in it; `run_id` is the last.
    `repeated_pages` and `empty_pages` count the last ones in a row that brought nothing new.
    """

    partition: Partition
    walk_id: str
    run_id: str
    started_at: datetime
    updated_at: datetime
    cursor: str | None = None
    pages: int = 0
    items: int = 0
    state: WalkState = WalkState.WALKING
    lane: Lane = "sync"
    repeated_pages: int = 0
    empty_pages: int = 0

    def advance(
        self,
        *,
        run_id: str,
        next_cursor: str | None,
        items: int,
        at: datetime,
        repeated_pages: int = 0,
        empty_pages: int = 0,
    ) -> "Checkpoint":
        """Return the checkpoint after one more page. API 8 rule 3: a null cursor, and only that, ends it."""
        return replace(
            self,
            run_id=run_id,
            updated_at=at,
            cursor=next_cursor,
            pages=self.pages + 1,
            items=self.items + items,
            state=WalkState.COMPLETE if next_cursor is None else WalkState.WALKING,
            repeated_pages=repeated_pages,
            empty_pages=empty_pages,
        )

    def abandon(self, *, run_id: str, at: datetime) -> "Checkpoint":
        """Return the checkpoint of a walk that must not be taken up again: the next one starts afresh."""
        return replace(self, run_id=run_id, updated_at=at, cursor=None, state=WalkState.ABANDONED)


@dataclass(frozen=True, slots=True)
class Fresh:
    """Walk from the first page."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Resume:
    """Walk on from a page that another run was about to ask for."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Done:
    """Ask for nothing: the interrupted run that this one carries on had finished this walk."""

    checkpoint: Checkpoint


def plan_walk(
    partition: Partition,
    last: Checkpoint | None,
    *,
    run_id: str,
    carried_on: Collection[str],
    now: datetime,
    new_id: Callable[[], str],
    lane: Lane = "sync",
) -> Fresh | Resume | Done:
    """Decide where a run takes up a partition whose last checkpoint in its lane is `last`.

    `carried_on` holds the ids of the interrupted runs which this run carries on: what they completed counts
    as this run's own work, and no page of it is asked for again. A backfill walks from the first page, so it takes up
    only what such a run left.
    """
    carries_on = last is not None and last.run_id in carried_on
    if last is not None and last.state is WalkState.COMPLETE and carries_on:
        return Done(last)
    half_way = last is not None and last.state is WalkState.WALKING and last.cursor is not None
    if last is not None and half_way and (carries_on or lane == "sync"):
        return Resume(last)
    return Fresh(Checkpoint(partition, new_id(), run_id, started_at=now, updated_at=now, lane=lane))
