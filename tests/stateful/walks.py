"""Walks as the flows carry them on: held in mind while a process lives, taken up at their checkpoint by the next."""

from dataclasses import dataclass
from datetime import datetime

from connectors.warehouse.progress import checkpoints
from models.landing import Landing, StagedPage
from models.ledger import Outcome, OutcomeKind
from models.walk import Checkpoint, Done, WalkState, plan_walk
from tests.stateful.model import Heard, Row
from tests.stateful.pages import Page
from tests.stateful.process import Process
from tests.warehouse.house import body


@dataclass(frozen=True)
class Told:
    """A page on its way into the warehouse, and what the model hears of it if it lands."""

    landing: Landing
    heard: Heard
    checkpoint: Checkpoint
    outcomes: tuple[Row, ...]

    @property
    def lane(self) -> Row:
        """Whose progress it is."""
        return (*self.heard.where, self.checkpoint.lane)

    @property
    def progress(self) -> Row:
        """Its checkpoint, as the warehouse must tell it."""
        one = self.checkpoint
        return (one.walk_id, one.cursor, one.pages, one.items, one.state.value)

    @property
    def staged(self) -> Row:
        """Its page, as it must wait for a fold."""
        page = self.landing.page
        assert page is not None
        return (page.walk_id, page.page, page.body)


def taken_up(process: Process, page: Page, *, walk_id: str, now: datetime) -> Checkpoint:
    """The checkpoint from which a process goes on that knows nothing of its partition yet."""
    where = page.partition
    found = process.run(process.warehouse.transact(checkpoints, where.resource, [where.account_id], page.lane))
    last = found.get(where)
    # A backfill takes up only what a run left that it carries on.
    carried_on = {last.run_id} if last and last.state is WalkState.WALKING else set()
    plan = plan_walk(
        where, last, run_id=f"run of {walk_id}", carried_on=carried_on, now=now, new_id=lambda: walk_id, lane=page.lane
    )
    assert not isinstance(plan, Done)
    return plan.checkpoint


def tell(before: Checkpoint, page: Page, at: datetime) -> Told:
    """The landing of a walk's next page, received `at`."""
    cursor = None if page.after == "ends" else f"{before.walk_id}/{before.pages + 1}"
    after = before.advance(run_id=before.run_id, next_cursor=cursor, items=len(page.items), at=at)
    staged = StagedPage(page.partition, after.run_id, after.walk_id, after.pages, at, None, body(page.items, cursor))
    # A walk that goes nowhere: its last page lands, and it is given up.
    after = after.abandon(run_id=after.run_id, at=at) if page.after == "is given up" else after
    where = (page.partition.resource, page.partition.account_id, page.partition.surface)
    heard = Heard(where, after.walk_id, after.started_at, at, page.items, page.after == "ends")
    if page.after != "ends":
        return Told(Landing(staged, after), heard, after, ())
    outcome = Outcome(page.partition, after.run_id, OutcomeKind.COMPLETE, after.started_at, at)
    return Told(Landing(staged, after, (outcome,)), heard, after, ((after.run_id, *where, "complete"),))
