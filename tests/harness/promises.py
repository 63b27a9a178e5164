"""The promises about requests and outcomes, checked event by event whatever faults occur."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from connectors.sandbox.contract import ERRORS
from tests.api.asked import Asked
from tests.harness.machine import instant
from tests.harness.oracle.reading import is_account, parsed, published, shown
from tests.harness.oracle.warehouse import CATALOGUE, Partition, Scan, Warehouse
from tests.harness.watching import Exchange

WITHIN = timedelta(hours=12)
LOOKBACK, FULL_EVERY = timedelta(days=2), timedelta(days=5)
# A recent scan ends with so many posts that were known and older.
_KNOWN = 20
_JUST = 1e-5
_STATUSES = ("active", "token_expired")
# Errors that stop a run.
_STOPS = {code for code, (status, _) in ERRORS.items() if status in (400, 401, 413, 415)} | {"api_scope_denied"}
_UNFINISHED = {"deferred", "denied", "not_found", "failed"}

# The name of a method of `Promises`, and what it is called with. A seed must always produce the same events.
Event = tuple[Any, ...]


class Violation(AssertionError):  # noqa: N818 - named after its meaning
    """A promise was broken."""


def require(condition: object, message: str) -> None:
    """Raise Violation unless the condition holds."""
    if not condition:
        raise Violation(message)


@dataclass
class Session:
    """One run in one process; `chain` are the processes of the runs it resumes. If it `is_full`, no scan may be recent.
    If it `scans_expired`, accounts with an expired token are scanned, and these scans decide nothing.

    `listed` are its accounts with their status, `begun_again` the partitions that it asked for from the first page,
    `stuck` those whose last page after a cursor was requested and has not landed, `in_flight` the scopes that it waits
    for, and `last` the last answer for each partition.
    """

    number: int
    kind: str
    begun: datetime
    is_full: bool = False
    scans_expired: bool = False
    accepts_removals: bool = False
    chain: Sequence[int] = ()
    requests: int = 0
    listed: dict[str, str] = field(default_factory=dict)
    in_flight: set[str] = field(default_factory=set)
    cooldowns: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    first_sent: dict[Partition, float] = field(default_factory=dict)
    begun_again: set[Partition] = field(default_factory=set)
    stuck: set[Partition] = field(default_factory=set)
    last: dict[Partition, Exchange] = field(default_factory=dict)


@dataclass
class Promises:
    """Checks every event of every run, and passes landed pages to the oracle's `warehouse`.

    `run` is the one that is being checked. `is_rebuilt`: a rebuild began, which reads addresses as they were when the
    item last changed.
    """

    warehouse: Warehouse = field(default_factory=Warehouse)
    scans: dict[tuple[Partition, str], Scan] = field(default_factory=dict)
    cooldowns: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    is_rebuilt: bool = False
    run: Session = field(default_factory=lambda: Session(0, "", instant(0)))

    def check(self, run: Session, log: Collection[Event]) -> None:
        """Check the events of a run."""
        self.run = run
        run.listed = self._already_listed()
        for name, *facts in log:
            getattr(self, name)(*facts)

    def _already_listed(self) -> dict[str, str]:
        """Return the accounts that belong to a run before it lists any: those that a resumed catalogue has listed."""
        run, scan, accounts = self.run, self.scans.get((CATALOGUE, self.run.kind)), self.warehouse.accounts
        if run.kind == "backfill":
            return {one: row.shown["status"] for one, row in accounts.items() if row.removed_at is None}
        if run.accepts_removals or scan is None or run.begun - scan.started > WITHIN or scan.abandoned:
            return {}
        if scan.closed and scan.ended_in not in run.chain:
            return {}
        return {one: row.shown["status"] for one, row in accounts.items() if row.seen >= scan.began}

    def _scan(self, where: Partition) -> Scan | None:
        return self.scans.get((where, self.run.kind))

    def sent(self, asked: Asked, at: float) -> None:
        """A request was sent, `at` so many seconds after the beginning."""
        run, where, scan = self.run, asked.partition, self._scan(asked.partition)
        scope = _scope_of(where)
        run.requests += 1
        require(scope not in run.in_flight, f"two concurrent requests of {scope}")
        run.in_flight.add(scope)
        early = max(run.cooldowns[scope], self.cooldowns[scope]) - at
        require(early <= _JUST, f"{scope} was requested {early:.3f} s before its cooldown was over")
        if where != CATALOGUE:
            status = run.listed.get(where[0])
            is_right = status == "active" or (status == "token_expired" and run.scans_expired)
            require(is_right, f"{where} was requested, whose account is {status}")
        if asked.cursor is None:
            may_begin = scan is None or self._may_begin(where, scan, instant(at))
            require(may_begin, f"{where} is scanned again without need")
            run.first_sent.setdefault(where, at)
            run.begun_again.add(where)
        else:
            require(scan is not None and scan.following == asked.cursor, f"{asked} is not the next page")
            run.stuck.add(where)

    def _may_begin(self, where: Partition, scan: Scan, at: datetime) -> bool:
        """Return whether a partition may be asked for from the first page again. A recent scan may be not enough."""
        run = self.run
        if scan.restarts or scan.abandoned or (run.accepts_removals and where == CATALOGUE):
            return True
        if scan.closed:
            is_new = scan.ended_in != run.number and (scan.recent or scan.ended_in not in run.chain)
            return is_new or at - scan.started > WITHIN
        # An old scan that cannot be continued begins again.
        is_stuck = where in run.stuck and run.begun - scan.started > WITHIN
        return is_stuck or (run.kind == "backfill" and scan.process not in {run.number, *run.chain})

    def answered(self, answer: Exchange) -> None:
        """A request was answered, or cancelled."""
        run, where, scan = self.run, answer.asked.partition, self._scan(answer.asked.partition)
        scope = _scope_of(where)
        run.in_flight.discard(scope)
        if answer.status is None:
            return
        run.last[where] = answer
        if answer.status == 429 and (seconds := _retry_after(answer)) is not None:
            run.cooldowns[scope] = max(run.cooldowns[scope], answer.received_at + seconds)
        if scan is not None and answer.asked.cursor is not None:
            refused = answer.status == 422 and b"api_invalid_cursor" in answer.body
            round_ = answer.status == 200 and _following(answer) in {*scan.cursors, answer.asked.cursor}
            scan.restarts |= refused or round_

    def cooled(self, scope: str) -> None:
        """The cooldown of a rate-limit scope is durable."""
        self.cooldowns[scope] = max(self.cooldowns[scope], self.run.cooldowns[scope])

    def landed(self, where: Partition, page: str | None, state: str | None) -> None:
        """The last answer of a partition is durable, as a `page` or an `unreadable` one, and `state` of its scan.

        The state is scanning, complete, recent or abandoned; None: as before.
        """
        if page is not None:
            require(where in self.run.last, f"a page of {where} landed that was never received")
            answer = self.run.last[where]
            if page == "unreadable":
                self.warehouse.keep_rejected(where, shown(answer.body), shown(answer.body), instant(answer.received_at))
            else:
                require(answer.status == 200 and answer.whole, f"an answer that is not a page landed: {answer}")
                self._page(where, state, answer)
        # A scan whose first page was refused is abandoned before anything has landed.
        if state == "abandoned" and (scan := self._scan(where)):
            scan.abandoned = True

    def _page(self, where: Partition, state: str | None, answer: Exchange) -> None:
        run, cursor, at = self.run, answer.asked.cursor, instant(answer.received_at)
        page, scan = parsed(answer.body), self._scan(where)
        if where == CATALOGUE and (state is not None or cursor is not None):
            self._list_accounts(page["items"])
        started = instant(run.first_sent.pop(where)) if cursor is None else at
        if state is None:
            # Its items are stored, but the scan fails. A run that is killed before that lands is resumed before it.
            failed = Scan(started=at, process=run.number)
            self.warehouse.land(run.number, failed, where, answer.body, at, has_cursor=False)
            if scan is not None and cursor is not None:
                scan.decides &= failed.decides
            return
        if "next_cursor" not in page:
            require(cursor is None, f"the last page of {where} has no cursor, unlike those before")
        if cursor is None:
            scan = self.scans[where, run.kind] = Scan(started=started, process=run.number)
        require(scan is not None and scan.following == cursor and not scan.closed, f"{where}: {cursor} is not the next")
        assert scan is not None
        run.stuck.discard(where)
        scan.process, scan.recent = run.number, state == "recent"
        scan.had_expired_token |= run.listed.get(where[0]) == "token_expired"
        scan.following = page.get("next_cursor")
        scan.cursors.add(str(scan.following))
        closed = self.warehouse.ended.get(where, 0)
        self.warehouse.land(run.number, scan, where, answer.body, at)
        if scan.recent:
            rows = [self.warehouse.rows[key] for key in scan.found]
            dates = [published(row.shown) for row in rows if row.present <= closed]
            known = sum(date is not None and date < scan.started - LOOKBACK for date in dates)
            require(known >= _KNOWN, f"a recent scan of {where} ended with {known} known posts")
            is_due = run.begun - self.warehouse.closed[where][0] >= FULL_EVERY
            require(not is_due, f"a scan of {where} is recent, and a full one was due")

    def _list_accounts(self, items: Iterable[object]) -> None:
        for item in items:
            if not isinstance(item, dict) or (account_id := str(item.get("id"))) in self.warehouse.forgotten:
                continue
            known = self.warehouse.accounts.get(account_id)
            # A malformed record of an account that was known when the run began: its last valid status counts.
            is_known = known is not None and known.first_seen_at < self.run.begun
            status = item["status"] if is_account(item) else known.shown["status"] if known and is_known else None
            if status is not None and self.run.listed.get(account_id) not in _STATUSES:
                self.run.listed[account_id] = status

    def decided(self) -> None:
        """A run has decided, at its end, which of the missing items and accounts are removed."""
        run = self.run
        self.warehouse.end_run(run.number, accepts=run.accepts_removals, lists=run.kind == "sync")

    def forget(self, account: str) -> None:
        """Erase an account: nothing of it is left, and it is not imported again."""
        self.warehouse.forget(account)
        self.scans = {key: scan for key, scan in self.scans.items() if key[0][0] != account}
        # An unfinished catalogue is listed again.
        if (scan := self.scans.get((CATALOGUE, "sync"))) and not scan.closed:
            del self.scans[CATALOGUE, "sync"]

    def _outcomes(self, partition: Partition) -> set[str]:
        """Return the outcomes that a partition may have."""
        run, scan = self.run, self._scan(partition)
        status = run.listed.get(partition[0], "active")
        if status != "active" and not (status == "token_expired" and run.scans_expired):
            return {"skipped"} if status == "token_expired" else _UNFINISHED
        if scan is None or not scan.closed or scan.ended_in not in {run.number, *run.chain}:
            return _UNFINISHED
        if run.begun - scan.started > WITHIN or (run.is_full and scan.recent):
            return _UNFINISHED
        kind = "recent" if scan.recent else "complete"
        if scan.ended_in == run.number:
            return {kind}
        # A run that it resumes closed the scan, which may not have been enough.
        return {kind, *_UNFINISHED} if partition in run.begun_again else {kind}

    def check_outcomes(self, outcomes: Mapping[Partition, tuple[str, str | None]], state: str) -> None:
        """Check the kind and error code of the outcomes of a run with this state."""
        run = self.run
        # A cooldown lasts longer than the run that was asked for it.
        for scope, until in run.cooldowns.items():
            self.cooldowns[scope] = max(self.cooldowns[scope], until)
        partitions = {(one, surface) for one in run.listed for surface in ("stories", "posts")}
        partitions |= {CATALOGUE} if run.kind == "sync" else set()
        require(outcomes.keys() == partitions, f"outcomes missing or too many: {outcomes.keys() ^ partitions}")
        for where, (kind, code) in outcomes.items():
            expected = self._outcomes(where)
            # What stopped the run came before anything was decided about this account.
            expected |= {"failed"} if expected == {"skipped"} and state == "failed" and code in _STOPS else set()
            require(kind in expected, f"{where} is {kind}, and should be one of {sorted(expected)}")
            require(kind not in _UNFINISHED or code, f"{where} is {kind} without an error code")


def _scope_of(partition: Partition) -> str:
    """Return the rate-limit scope of a partition (API 4)."""
    return "account_catalog" if partition == CATALOGUE else f"selected_account:{partition[0]}"


def _following(answer: Exchange) -> str | None:
    with suppress(ValueError, KeyError, TypeError):
        cursor = parsed(answer.body)["next_cursor"]
        return cursor if answer.whole and isinstance(cursor, str) else None
    return None


def _retry_after(answer: Exchange) -> float | None:
    text = answer.headers.get("retry-after", "")
    with suppress(ValueError):
        at = instant(answer.received_at)
        return float(text) if text.isdigit() else max(0.0, (parsedate_to_datetime(text) - at).total_seconds())
    return None
