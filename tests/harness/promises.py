"""The promises about requests and outcomes, checked event by event whatever faults occur."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal

from tests.api.transport import Exchange
from tests.harness.machine import instant
from tests.harness.oracle.landing import Warehouse, is_account, parsed, shown
from tests.harness.oracle.tables import CATALOGUE, Partition, Scan

WITHIN = timedelta(hours=12)
_JUST = 1e-5
_KINDS = {403: "denied", 404: "not_found", 429: "deferred"}
_STATUSES = ("active", "token_expired")
_UNFINISHED = {"deferred", "denied", "not_found", "failed"}

# Kind, error code, correlation id and status.
Outcome = tuple[str, str | None, str | None, int | None]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request was sent, `at` so many seconds after the beginning."""

    at: float
    partition: Partition
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Landed:
    """What is durable now. `page`: the last answer of the partition, as a page or an unreadable one.

    `state` is that of the partition's scan after it: scanning, complete, recent or abandoned; None: as before.
    `cooldown`: the rate-limit scope whose cooldown is saved.
    """

    partition: Partition
    page: Literal["page", "unreadable"] | None = None
    state: str | None = None
    cooldown: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """A run has decided, at its end, which of the missing items and accounts are removed."""


# The events of a command, in order. A seed must always produce the same ones.
Event = Sent | Exchange | Landed | Decided


class Violation(AssertionError):  # noqa: N818 - named after its meaning
    """A promise was broken."""


def require(condition: object, message: str) -> None:
    """Raise Violation unless the condition holds."""
    if not condition:
        raise Violation(message)


@dataclass
class Session:
    """One run in one process; `chain` are the processes of the runs it resumes.

    `listed` are its accounts with their status, `begun_again` the partitions that it asked for from the first page,
    `stuck` those whose last page after a cursor was requested and has not landed, `in_flight` the scopes that it waits
    for, and `last` the last answer for each partition.
    """

    number: int
    kind: str
    begun: datetime
    max_requests: int | None = None
    accepts_removals: bool = False
    chain: Sequence[int] = ()
    requests: int = 0
    listed: dict[str, str] = field(default_factory=dict)
    in_flight: set[str] = field(default_factory=set)
    cooldowns: dict[str, float] = field(default_factory=dict)
    first_sent: dict[Partition, float] = field(default_factory=dict)
    begun_again: set[Partition] = field(default_factory=set)
    stuck: set[Partition] = field(default_factory=set)
    received: list[Exchange] = field(default_factory=list)
    last: dict[Partition, Exchange] = field(default_factory=dict)


@dataclass
class Promises:
    """Checks every event of every run, and passes landed pages to the oracle's `warehouse`.

    `is_rebuilt`: a rebuild began, which reads addresses as they were when the item last changed.
    """

    warehouse: Warehouse = field(default_factory=Warehouse)
    scans: dict[tuple[Partition, str], Scan] = field(default_factory=dict)
    cooldowns: dict[str, float] = field(default_factory=dict)
    is_rebuilt: bool = False

    def begin(self, session: Session) -> None:
        """Start a run. Accounts that a resumed scan of the catalogue has listed belong to it, too."""
        if session.kind == "backfill":
            session.listed = {one: row.status for one, row in self.warehouse.accounts.present().items()}
            return
        scan = self.scans.get((CATALOGUE, session.kind))
        if session.accepts_removals or scan is None or session.begun - scan.started > WITHIN or scan.abandoned:
            return
        if not scan.closed or scan.ended_in in session.chain:
            rows = self.warehouse.accounts.rows.items()
            session.listed = {account_id: row.status for account_id, row in rows if row.seen >= scan.began}

    def check(self, session: Session, log: Collection[Event]) -> None:
        """Check the events of a run."""
        for event in log:
            match event:
                case Sent():
                    self._sent(session, event)
                case Exchange():
                    self._answered(session, event)
                case Landed():
                    self._landed(session, event)
                case Decided():
                    accepts, lists = session.accepts_removals, session.kind == "sync"
                    self.warehouse.end_run(session.number, accepts=accepts, lists=lists)

    def _sent(self, session: Session, asked: Sent) -> None:
        where, scope = asked.partition, _scope_of(asked.partition)
        session.requests += 1
        most = session.max_requests
        require(most is None or session.requests <= most, f"more requests than {most}")
        require(scope not in session.in_flight, f"two concurrent requests of {scope}")
        session.in_flight.add(scope)
        early = max(session.cooldowns.get(scope, 0.0), self.cooldowns.get(scope, 0.0)) - asked.at
        require(early <= _JUST, f"{scope} was requested {early:.3f} s before its cooldown was over")
        if where != CATALOGUE:
            status = session.listed.get(where[0])
            require(status == "active", f"{where} was requested, whose account is {status}")
            require(where[0] not in self.warehouse.forgotten, f"{where} was requested though it is forgotten")
        scan = self.scans.get((where, session.kind))
        if asked.cursor is None:
            require(scan is None or self._may_begin(session, scan, asked), f"{where} is scanned again without need")
            session.first_sent.setdefault(where, asked.at)
            session.begun_again.add(where)
        else:
            require(scan is not None and scan.following == asked.cursor, f"{asked} is not the next page")
            session.stuck.add(where)

    def _may_begin(self, session: Session, scan: Scan, asked: Sent) -> bool:
        """Return whether a partition may be asked for from the first page again. A recent scan may be not enough."""
        where = asked.partition
        if scan.restarts or scan.abandoned or (session.accepts_removals and where == CATALOGUE):
            return True
        if scan.closed:
            is_old = instant(asked.at) - scan.started > WITHIN
            return is_old or (scan.ended_in != session.number and (scan.recent or scan.ended_in not in session.chain))
        # An old scan that cannot be continued begins again.
        is_stuck = where in session.stuck and session.begun - scan.started > WITHIN
        return is_stuck or (session.kind == "backfill" and scan.process not in {session.number, *session.chain})

    def _answered(self, session: Session, answer: Exchange) -> None:
        where, scope = answer.asked.partition, _scope_of(answer.asked.partition)
        session.in_flight.discard(scope)
        if answer.status is None:
            return
        session.received.append(answer)
        session.last[where] = answer
        if answer.status == 429 and (seconds := _retry_after(answer)) is not None:
            session.cooldowns[scope] = max(session.cooldowns.get(scope, 0.0), answer.received_at + seconds)
        scan = self.scans.get((where, session.kind))
        if scan is not None and answer.asked.cursor is not None:
            refused = answer.status == 422 and b"api_invalid_cursor" in answer.body
            round_ = answer.status == 200 and _following(answer) in {*scan.cursors, answer.asked.cursor}
            scan.restarts |= refused or round_

    def _list_accounts(self, session: Session, items: Sequence[object]) -> None:
        for item in items:
            if not isinstance(item, dict) or (account_id := str(item.get("id"))) in self.warehouse.forgotten:
                continue
            known = self.warehouse.accounts.rows.get(account_id)
            # A malformed record of an account that was known when the run began: its last valid status counts.
            is_known = known is not None and known.first_seen_at < session.begun
            status = item["status"] if is_account(item) else known.status if known and is_known else None
            if status is not None and session.listed.get(account_id) not in _STATUSES:
                session.listed[account_id] = status

    def _landed(self, session: Session, landed: Landed) -> None:
        where, scope = landed.partition, landed.cooldown
        if scope is not None:
            self.cooldowns[scope] = max(self.cooldowns.get(scope, 0.0), session.cooldowns.get(scope, 0.0))
        if landed.page is not None:
            require(where in session.last, f"a page landed that was never received: {landed}")
            answer = session.last[where]
            if landed.page == "unreadable":
                self.warehouse.quarantine.setdefault((where, shown(answer.body)), shown(answer.body))
            else:
                require(answer.status == 200 and answer.whole, f"an answer that is not a page landed: {answer}")
                self._page(session, landed, answer)
        # A scan whose first page was refused is abandoned before anything has landed.
        if landed.state == "abandoned" and (scan := self.scans.get((where, session.kind))):
            scan.abandoned = True

    def _page(self, session: Session, landed: Landed, answer: Exchange) -> None:
        where, cursor, at = landed.partition, answer.asked.cursor, instant(answer.received_at)
        page, scan = parsed(answer.body), self.scans.get((where, session.kind))
        if where == CATALOGUE and (landed.state is not None or cursor is not None):
            self._list_accounts(session, page["items"])
        started = instant(session.first_sent.pop(where)) if cursor is None else at
        if landed.state is None:
            # Its items are stored, but the scan fails. A run that is killed before that lands is resumed before it.
            failed = Scan(started=at, process=session.number)
            self.warehouse.land(session.number, failed, where, answer.body, at, has_cursor=False)
            if scan is not None and cursor is not None:
                scan.decides &= failed.decides
            return
        if cursor is None:
            scan = self.scans[where, session.kind] = Scan(started=started, process=session.number)
        require(scan is not None and scan.following == cursor and not scan.closed, f"{where}: {cursor} is not the next")
        assert scan is not None
        session.stuck.discard(where)
        scan.pages += 1
        scan.process = session.number
        scan.following = page.get("next_cursor")
        scan.cursors.add(str(scan.following))
        scan.recent = landed.state == "recent"
        self.warehouse.land(session.number, scan, where, answer.body, at)

    def forget(self, account: str) -> None:
        """Erase an account: nothing of it is left, and it is not imported again."""
        self.warehouse.forget(account)
        self.scans = {key: scan for key, scan in self.scans.items() if key[0][0] != account}
        # An unfinished catalogue is listed again.
        if (scan := self.scans.get((CATALOGUE, "sync"))) and not scan.closed:
            del self.scans[CATALOGUE, "sync"]

    def _outcomes(self, session: Session, partition: Partition) -> set[str]:
        """Return the outcomes that a partition may have."""
        if partition != CATALOGUE and (status := session.listed[partition[0]]) != "active":
            return {"skipped"} if status == "token_expired" else _UNFINISHED
        scan = self.scans.get((partition, session.kind))
        if scan is None or not scan.closed or scan.ended_in not in {session.number, *session.chain}:
            return _UNFINISHED
        kind = "recent" if scan.recent else "complete"
        if scan.ended_in == session.number:
            return _UNFINISHED if session.begun - scan.started > WITHIN else {kind}
        # A run that it resumes closed the scan, which may not have been enough.
        return {kind, *_UNFINISHED} if partition in session.begun_again else {kind}

    def check_outcomes(self, session: Session, outcomes: Mapping[Partition, Outcome], state: str) -> None:
        """Check a run's outcomes and its state."""
        # A cooldown lasts longer than the run that was asked for it.
        for scope, until in session.cooldowns.items():
            self.cooldowns[scope] = max(self.cooldowns.get(scope, 0.0), until)
        partitions = {(one, surface) for one in session.listed for surface in ("stories", "posts")}
        partitions |= {CATALOGUE} if session.kind == "sync" else set()
        require(outcomes.keys() == partitions, f"outcomes missing or too many: {outcomes.keys() ^ partitions}")
        traced = {answer.headers.get("x-correlation-id"): answer for answer in session.received}
        for partition, outcome in outcomes.items():
            kind, code, trace, _ = outcome
            expected = self._outcomes(session, partition)
            require(kind in expected, f"{partition} is {kind}, and should be one of {sorted(expected)}")
            if kind in _UNFINISHED:
                require(code, f"{partition} is {kind} without an error code")
                require(
                    trace is None or trace in traced, f"{partition} is {kind} by an answer that never came: {trace}"
                )
                if trace is not None:
                    _check_cause(partition, outcome, traced[trace])
        kinds = {kind for kind, *_ in outcomes.values()}
        if any(map(_stops, session.received)):
            expected_state = "failed"
        elif not kinds & _UNFINISHED:
            # A backfill that skipped all that it was to scan has done nothing.
            is_partial = self.warehouse.lacks_many or kinds == {"skipped"}
            expected_state = "partial" if is_partial else "complete"
        else:
            # The records of a scan that rejected most of them are kept.
            has_landed = any((code or "").endswith("_rejected") for _, code, *_ in outcomes.values())
            expected_state = "partial" if has_landed or kinds & {"complete", "recent", "deferred"} else "failed"
        require(state == expected_state, f"the run is {state}, and should be {expected_state} with {sorted(kinds)}")


def _scope_of(partition: Partition) -> str:
    """Return the rate-limit scope of a partition (API 4)."""
    return "account_catalog" if partition == CATALOGUE else f"selected_account:{partition[0]}"


def _check_cause(partition: Partition, outcome: Outcome, answer: Exchange) -> None:
    """Check that an outcome has the kind, error code and status of the answer that is said to be its cause."""
    kind, code, _, status = outcome
    if (answer.status or 0) >= 400 and b'"error"' in answer.body:
        # Also another error may ask to wait for longer than the run does, and a 503 be a limit of the whole key.
        is_deferred = kind == "deferred" and (answer.status == 503 or _retry_after(answer))
        expected = "deferred" if is_deferred else _KINDS.get(answer.status or 0, "failed")
        right = (expected, json.loads(answer.body)["error"]["code"], answer.status)
        require((kind, code, status) == right, f"{partition} is {outcome}, and should be {right}")


def _following(answer: Exchange) -> str | None:
    try:
        cursor = parsed(answer.body)["next_cursor"] if answer.whole else None
    except (ValueError, KeyError, TypeError):
        return None
    return cursor if isinstance(cursor, str) else None


def _retry_after(answer: Exchange) -> float | None:
    text = answer.headers.get("retry-after", "")
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - instant(answer.received_at)).total_seconds())
    except ValueError:
        return None


def _stops(answer: Exchange) -> bool:
    """THE RULE OF WHAT STOPS A RUN."""
    is_ours = answer.status in (400, 413, 415) and b'"error"' in answer.body
    return answer.status == 401 or is_ours or b"api_scope_denied" in answer.body
