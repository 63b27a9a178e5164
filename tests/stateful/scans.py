"""Scans as the flows carry them on: held in mind while a process lives, resumed at their checkpoint by the next."""

from dataclasses import dataclass
from datetime import datetime

from connectors.warehouse.runs.progress import checkpoints
from models.checkpoint import Checkpoint, Done, ScanState, plan_scan
from models.page_commit import PageCommit, StagedPage
from models.runs import Outcome, OutcomeKind
from tests.stateful.model import Heard, Row
from tests.stateful.pages import Page
from tests.stateful.process import Process
from tests.warehouse.house import body


@dataclass(frozen=True)
class Told:
    """A page on its way into the warehouse, and what the model hears of it if it lands."""

    landing: PageCommit
    heard: Heard
    checkpoint: Checkpoint
    outcomes: tuple[Row, ...]

    @property
    def run_kind(self) -> Row:
        """Whose progress it is."""
        return (*self.heard.where, self.checkpoint.run_kind)

    @property
    def progress(self) -> Row:
        """Its checkpoint, as the warehouse must tell it."""
        one = self.checkpoint
        return (one.scan_id, one.cursor, one.pages, one.items, one.state.value)

    @property
    def staged(self) -> Row:
        """Its page, as it must wait for a merge."""
        page = self.landing.page
        assert page is not None
        return (page.scan_id, page.page, page.body)


def taken_up(process: Process, page: Page, *, scan_id: str, now: datetime) -> Checkpoint:
    """The checkpoint from which a process goes on that knows nothing of its partition yet."""
    where = page.partition
    found = process.run(process.warehouse.transact(checkpoints, where.resource, [where.account_id], page.run_kind))
    last = found.get(where)
    # A backfill resumes only what a run left that it resumes.
    resumed_runs = {last.run_id} if last and last.state is ScanState.SCANNING else set()
    plan = plan_scan(
        where,
        last,
        run_id=f"run of {scan_id}",
        resumed_runs=resumed_runs,
        now=now,
        new_id=lambda: scan_id,
        run_kind=page.run_kind,
    )
    assert not isinstance(plan, Done)
    return plan.checkpoint


def tell(before: Checkpoint, page: Page, at: datetime) -> Told:
    """The landing of a scan's next page, received `at`."""
    cursor = None if page.after == "ends" else f"{before.scan_id}/{before.pages + 1}"
    after = before.advance(run_id=before.run_id, next_cursor=cursor, items=len(page.items), at=at)
    staged = StagedPage(page.partition, after.run_id, after.scan_id, after.pages, at, None, body(page.items, cursor))
    # A scan that goes nowhere: its last page lands, and it is given up.
    after = after.abandon(run_id=after.run_id, at=at) if page.after == "is given up" else after
    where = (page.partition.resource, page.partition.account_id, page.partition.surface)
    heard = Heard(where, after.scan_id, after.started_at, at, page.items, page.after == "ends")
    if page.after != "ends":
        return Told(PageCommit(staged, after), heard, after, ())
    outcome = Outcome(page.partition, after.run_id, OutcomeKind.COMPLETE, after.started_at, at)
    return Told(PageCommit(staged, after, (outcome,)), heard, after, ((after.run_id, *where, "complete"),))
