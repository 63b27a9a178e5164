"""The promises about requests and outcomes, checked event by event whatever faults occur."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from tests.harness.events import Answered, Decided, Event, Landed, Sent, scope_of
from tests.harness.machine import instant
from tests.harness.oracle.feed import LOOKBACK
from tests.harness.oracle.landing import Warehouse, is_account, listed, parsed, shown
from tests.harness.oracle.tables import CATALOGUE, Partition, Scan

WITHIN = timedelta(hours=12)
SURFACES = ("stories", "posts")
_JUST = 1e-5
# A page is requested so often in a row, twice, unless the service says when, or this many scopes get no answer at all.
_TRIES = 2 * 6
_EVERYWHERE = 4
_KINDS = {403: "denied", 404: "not_found", 429: "deferred"}
_STATUSES = ("active", "token_expired")
_UNFINISHED = {"deferred", "denied", "not_found", "failed"}


# Kind, error code, correlation id and status.
Outcome = tuple[str, str | None, str | None, int | None]


class Violation(AssertionError):  # noqa: N818 - named after its meaning
    """A promise was broken."""


def require(condition: object, message: str) -> None:
    """Raise Violation unless the condition holds."""
    if not condition:
        raise Violation(message)


@dataclass
class Session:
    """One run in one process; `chain` are the processes of the runs it resumes.

    `listed` are its accounts with their status. `full` has the reasons why scans of posts must be full, as of the
    start; `known` the posts at which the others may stop, and `known_landed` the landing that closed them. `touched`
    are the partitions that it has begun or resumed, `stuck` those whose last page after a cursor was requested and has
    not landed. `failures` counts those of a page in a row, `over` are partitions with an answer that ends their scan.
    """

    number: int
    kind: str
    begun: datetime
    mode: str = "full_refresh"
    max_requests: int | None = None
    accepts_removals: bool = False
    chain: Sequence[int] = ()
    full: dict[Partition, str | None] = field(default_factory=dict)
    known: dict[Partition, set[str]] = field(default_factory=dict)
    known_landed: dict[Partition, int | None] = field(default_factory=dict)
    touched: set[Partition] = field(default_factory=set)
    stuck: set[Partition] = field(default_factory=set)
    requests: int = 0
    listed: dict[str, str] = field(default_factory=dict)
    in_flight: dict[str, Sent] = field(default_factory=dict)
    cooldowns: dict[str, float] = field(default_factory=dict)
    first_sent: dict[Partition, float] = field(default_factory=dict)
    last: dict[Partition, Answered] = field(default_factory=dict)
    received: list[Answered] = field(default_factory=list)
    failures: Counter[Partition] = field(default_factory=Counter)
    unanswered: set[str] = field(default_factory=set)
    over: dict[Partition, int] = field(default_factory=dict)


@dataclass
class Promises:
    """Checks every event of every run, and passes landed pages to the oracle's `warehouse`.

    `is_rebuilt`: a rebuild began, which reads addresses as they were when the item last changed.
    """

    warehouse: Warehouse = field(default_factory=Warehouse)
    scans: dict[tuple[Partition, str], Scan] = field(default_factory=dict)
    cooldowns: dict[str, float] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    is_rebuilt: bool = False

    def begin(self, session: Session) -> None:
        """Start a run. Accounts that a resumed scan of the catalogue has listed belong to it, too."""
        media, mode = self.warehouse.media, session.mode if session.kind == "sync" else "full_refresh"
        for partition, closed in media.closed.items():
            if partition[1] == "posts":
                session.full[partition] = why = closed.why_full(mode, session.begun)
                session.known_landed[partition] = None if why else media.ended[partition]
                session.known[partition] = set() if why else media.known(partition)
        if session.kind == "backfill":
            session.listed = {one: row.status for one, row in self.warehouse.accounts.present().items()}
            return
        scan = self.scans.get((CATALOGUE, session.kind))
        if session.accepts_removals or scan is None or session.begun - scan.started > WITHIN or scan.abandoned:
            return
        if not scan.closed or scan.ended_in in session.chain:
            rows = self.warehouse.accounts.rows.items()
            session.listed = {account_id: row.status for account_id, row in rows if row.scan is scan}

    def check(self, session: Session, log: Collection[Event]) -> None:
        """Check the events of a run."""
        for event in log:
            match event:
                case Sent():
                    self._sent(session, event)
                case Answered():
                    self._answered(session, event)
                case Landed():
                    self._landed(session, event)
                case Decided():
                    accepts, lists = session.accepts_removals, session.kind == "sync"
                    self.warehouse.end_run(session.number, accepts=accepts, lists=lists)

    def _sent(self, session: Session, asked: Sent) -> None:
        scope, where = scope_of(asked.partition), asked.partition
        session.requests += 1
        most = session.max_requests
        require(most is None or session.requests <= most, f"more requests than {most}")
        require(scope not in session.in_flight, f"two concurrent requests of {scope}")
        session.in_flight[scope] = asked
        require(session.failures[where] < _TRIES, f"{where} is requested again after {_TRIES} failures")
        begun = self.scans.get((where, session.kind))
        if begun is not None and asked.cursor is None and not begun.closed and session.begun - begun.started > WITHIN:
            # An old scan that cannot be continued begins again.
            session.over.pop(where, None)
        require(where not in session.over, f"{where} is requested again after status {session.over.get(where)}")
        until = max(session.cooldowns.get(scope, 0.0), self.cooldowns.get(scope, 0.0))
        early = until - asked.at
        require(early <= _JUST, f"{scope} was requested {early:.3f} s before its cooldown was over")
        if where != CATALOGUE:
            status = session.listed.get(where[0])
            require(status is not None, f"{where} was requested and is not listed")
            require(status == "active", f"{where} was requested though its token has expired")
            require(where[0] not in self.forgotten, f"{where} was requested though it is forgotten")
        if asked.cursor is None:
            if begun is not None:
                require(self._may_begin(session, begun, asked), f"{where} is scanned again without need")
            session.first_sent.setdefault(where, asked.at)
        else:
            require(begun is not None and begun.following == asked.cursor, f"{asked} is not the next page")
            session.touched.add(where)
            session.stuck.add(where)

    def _may_begin(self, session: Session, scan: Scan, asked: Sent) -> bool:
        if scan.restarts or scan.abandoned or (session.accepts_removals and asked.partition == CATALOGUE):
            return True
        if not scan.closed:
            # An old scan that cannot be continued.
            if asked.partition in session.stuck and session.begun - scan.started > WITHIN:
                return True
            return session.kind == "backfill" and scan.process not in {session.number, *session.chain}
        dated = instant(asked.at) - scan.started > WITHIN and scan.begun_in < session.number
        return dated or not self._is_done(session, asked.partition, scan)

    def _is_done(self, session: Session, partition: Partition, scan: Scan) -> bool:
        """Return whether a scan counts for this run, because it or a run that it resumes closed it."""
        if scan.ended_in == session.number:
            return True
        is_enough = not scan.recent or session.known_landed.get(partition) is not None
        return scan.ended_in in session.chain and is_enough

    def _answered(self, session: Session, answer: Answered) -> None:
        scope, where = scope_of(answer.partition), answer.partition
        session.in_flight.pop(scope, None)
        if answer.status == -1:
            return
        session.received.append(answer)
        session.last[where] = answer
        if answer.status == 429 and (seconds := _retry_after(answer)) is not None:
            session.cooldowns[scope] = max(session.cooldowns.get(scope, 0.0), answer.at + seconds)
        _count_failure(session, answer)
        scan = self.scans.get((where, session.kind))
        if scan is None or answer.cursor is None:
            return
        refused = answer.status == 422 and b"api_invalid_cursor" in answer.body
        round_ = answer.status == 200 and answer.whole and _following(answer.body) in {*scan.cursors, answer.cursor}
        scan.restarts = scan.restarts or refused or round_

    def _list_accounts(self, session: Session, items: Sequence[object]) -> None:
        for item in items:
            if not isinstance(item, dict) or (account_id := str(item.get("id"))) in self.forgotten:
                continue
            known = self.warehouse.accounts.rows.get(account_id)
            # A malformed record of an account that was known when the run began: its last valid status counts.
            is_known = known is not None and known.first_seen_at < session.begun
            status = item["status"] if is_account(item) else known.status if known and is_known else None
            if status is not None and session.listed.get(account_id) not in _STATUSES:
                session.listed[account_id] = status

    def _landed(self, session: Session, landed: Landed) -> None:
        where = landed.partition
        if landed.cooldown is not None:
            result = session.cooldowns.get(landed.cooldown, 0.0)
            self.cooldowns[landed.cooldown] = max(self.cooldowns.get(landed.cooldown, 0.0), result)
        answer = session.last.get(where)
        if landed.page is not None:
            require(answer is not None, f"a page landed that was never received: {landed}")
            assert answer is not None
            if landed.page == "unreadable":
                self.warehouse.quarantine.setdefault((where, shown(answer.body)), shown(answer.body))
            else:
                require(answer.status == 200 and answer.whole, f"an answer that is not a page landed: {answer}")
                self._page(session, landed, answer)
        # A scan whose first page was refused is abandoned before anything has landed.
        if landed.state == "abandoned" and (scan := self.scans.get((where, session.kind))):
            scan.abandoned = True

    def _page(self, session: Session, landed: Landed, answer: Answered) -> None:
        where, scan = answer.partition, self.scans.get((answer.partition, session.kind))
        if landed.state is None:
            self._page_without_checkpoint(session, scan, answer)
            return
        if answer.cursor is None:
            before, scan = scan, _scan(session, instant(session.first_sent.pop(where)))
            self.scans[where, session.kind] = scan
            scan.known_landed = session.known_landed.get(where)
            if where in session.touched and before is not None and before.feed.broken_by is not None:
                # A broken order stays broken until full scans prove it again.
                scan.known_landed = None
        assert scan is not None
        is_next = scan.following == answer.cursor and not scan.closed
        require(is_next, f"{where}: a page is missing before {answer.cursor}")
        page = parsed(answer.body)
        if where == CATALOGUE:
            self._list_accounts(session, page["items"])
        if scan.process != session.number and scan.pages:
            if where[1] == "posts":
                scan.feed.resume({key[2] for key in scan.seen})
            if scan.known_landed != session.known_landed.get(where):
                scan.known_landed = None
        session.touched.add(where)
        session.stuck.discard(where)
        session.failures[where] = 0
        scan.pages += 1
        scan.process = session.number
        scan.following = page.get("next_cursor")
        scan.share = 1.0 if session.full.get(where) == "full_due" else 0.0
        self._read(session, scan, answer, recent=landed.state == "recent")
        scan.cursors.add(str(scan.following))
        self.warehouse.land(session.number, scan, where, answer.body, instant(answer.at))

    def _page_without_checkpoint(self, session: Session, scan: Scan | None, answer: Answered) -> None:
        """Its items are stored, but the scan fails."""
        session.first_sent.pop(answer.partition, None)
        at = instant(answer.at)
        failed = _scan(session, at)
        self.warehouse.land(session.number, failed, answer.partition, answer.body, at, has_cursor=False)
        if answer.cursor is None or scan is None:
            return
        # A run that is killed before the outcome has landed is resumed before this page.
        scan.seen |= failed.seen
        scan.decides &= failed.decides
        if answer.partition == CATALOGUE:
            self._list_accounts(session, parsed(answer.body)["items"])
            for row in self.warehouse.accounts.rows.values():
                row.scan = scan if row.scan is failed else row.scan

    def _read(self, session: Session, scan: Scan, answer: Answered, *, recent: bool) -> None:
        """Read a page, and check whether a recent scan may or must stop after it."""
        where, items = answer.partition, parsed(answer.body)["items"]
        if where[1] != "posts":
            scan.feed.received += len(self.warehouse.kept(items))
            return
        older = (scan.earliest - LOOKBACK, scan.started - LOOKBACK)
        scan.feed.read(listed(items), session.known.get(where, ()), older, instant(answer.at))
        may = scan.known_landed is not None and scan.following is not None
        if recent:
            require(may and scan.feed.may_stop(), f"{where}: a scan stopped and may not: {scan.feed}")
            scan.recent = True
        else:
            require(not (may and scan.feed.must_stop()), f"{where}: a scan continued without need: {scan.feed}")

    def forget(self, account: str) -> None:
        """Erase an account: nothing of it is left, and it is not imported again."""
        self.forgotten.add(account)
        self.warehouse.forget(account)
        self.scans = {key: scan for key, scan in self.scans.items() if key[0][0] != account}
        # An unfinished catalogue is listed again.
        if (scan := self.scans.get((CATALOGUE, "sync"))) and not scan.closed:
            del self.scans[CATALOGUE, "sync"]

    def gaps(self) -> list[tuple[object, ...]]:
        """Return the unfinished scans of media that began after the last closed scan of their partition."""
        last: dict[Partition, Scan] = {}
        for (partition, _), scan in self.scans.items():
            if partition == CATALOGUE or scan.closed or scan.began <= self.warehouse.media.ended.get(partition, 0):
                continue
            if partition not in last or scan.began > last[partition].began:
                last[partition] = scan
        return [
            (*partition, None if scan.abandoned else scan.following, scan.pages, scan.feed.read_to)
            for partition, scan in last.items()
        ]

    def _outcome(self, session: Session, partition: Partition) -> str:
        """Return the expected outcome of a partition: complete, recent, skipped, or unfinished."""
        if partition != CATALOGUE and (status := session.listed[partition[0]]) != "active":
            return "skipped" if status == "token_expired" else "unfinished"
        scan = self.scans.get((partition, session.kind))
        if scan is None or not scan.closed or not self._is_done(session, partition, scan):
            return "unfinished"
        if session.begun - scan.started > WITHIN and scan.ended_in == session.number:
            return "unfinished"
        return "recent" if scan.recent else "complete"

    def check_outcomes(
        self, session: Session, outcomes: Mapping[Partition, Outcome], state: str, *, is_refused: bool
    ) -> None:
        """Check a run's outcomes and its state. `is_refused`: its snapshot would have shown what the last one hid."""
        # A cooldown lasts longer than the run that was asked for it.
        for scope, until in session.cooldowns.items():
            self.cooldowns[scope] = max(self.cooldowns.get(scope, 0.0), until)
        partitions = {(one, surface) for one in session.listed for surface in SURFACES}
        partitions |= {CATALOGUE} if session.kind == "sync" else set()
        require(outcomes.keys() == partitions, f"outcomes missing or too many: {outcomes.keys() ^ partitions}")
        traced = {answer.correlation_id: answer for answer in session.received}
        for partition, (kind, code, trace, status) in outcomes.items():
            expected = self._outcome(session, partition)
            if expected == "unfinished":
                require(kind in _UNFINISHED, f"{partition} is {kind}, and was not scanned")
                require(code, f"{partition} is {kind} without an error code")
                if trace is not None:
                    require(trace in traced, f"{partition} is {kind} by an answer that never came: {trace}")
                    _check_cause(partition, (kind, code, status), traced[trace])
            else:
                require(kind == expected, f"{partition} is {kind}, and should be {expected}")
        kinds = {kind for kind, *_ in outcomes.values()}
        if any(_stops(answer) for answer in session.received):
            expected = "failed"
        elif kinds <= {"complete", "recent", "skipped"}:
            expected = "partial" if self.warehouse.lacks_many or is_refused else "complete"
        else:
            # The records of a scan that rejected most of them are kept.
            has_landed = any((code or "").endswith("_rejected") for _, code, *_ in outcomes.values())
            expected = "partial" if has_landed or kinds & {"complete", "recent", "deferred"} else "failed"
        require(state == expected, f"the run is {state}, and should be {expected} with {sorted(kinds)}")


def _check_cause(partition: Partition, outcome: tuple[str, str | None, int | None], answer: Answered) -> None:
    """Check that an outcome has the kind, error code and status of the answer that is said to be its cause."""
    if answer.status >= 400 and b'"error"' in answer.body:
        code = json.loads(answer.body)["error"]["code"]
        # Also another error may ask to wait for longer than the run does.
        kind = "deferred" if outcome[0] == "deferred" and _retry_after(answer) else _KINDS.get(answer.status, "failed")
        expected = (kind, code, answer.status)
        require(outcome == expected, f"{partition} is {outcome}, and should be {expected}")


def _scan(session: Session, started: datetime) -> Scan:
    return Scan(earliest=session.begun, started=started, begun_in=session.number, process=session.number)


def _count_failure(session: Session, answer: Answered) -> None:
    """THE RULE OF WHAT IS TRIED AGAIN: passing errors are, other errors of the client's end the scan."""
    where, status = answer.partition, answer.status
    if b"api_invalid_cursor" in answer.body or status == 429 or "retry-after" in answer.headers:
        session.failures[where] = 0
    elif status == 0 or status >= 500 or status in (408, 425) or (status >= 400 and b'"error"' not in answer.body):
        # What has no envelope is a gateway's word, which counts as a lost connection.
        session.unanswered.add(scope_of(where))
        session.failures[where] += len(session.unanswered) < _EVERYWHERE
        return
    elif status >= 400:
        session.over[where] = status
    session.unanswered.clear()


def _following(body: bytes) -> str | None:
    try:
        cursor = parsed(body)["next_cursor"]
    except (ValueError, KeyError, TypeError):
        return None
    return cursor if isinstance(cursor, str) else None


def _retry_after(answer: Answered) -> float | None:
    text = answer.headers.get("retry-after", "")
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - instant(answer.at)).total_seconds())
    except ValueError:
        return None


def _stops(answer: Answered) -> bool:
    """THE RULE OF WHAT STOPS A RUN."""
    is_ours = answer.status in (400, 413, 415) and b'"error"' in answer.body
    return answer.status == 401 or is_ours or b"api_scope_denied" in answer.body
