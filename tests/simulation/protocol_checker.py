"""Checks the requests of a run against the rules of the API, and its outcomes at the end, whatever faults occur."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from models.incremental import SyncMode
from tests.model.recent import LOOKBACK, Why, why_full
from tests.simulation.events import (
    CATALOGUE,
    SURFACES,
    CooldownLanded,
    Event,
    PageLanded,
    PageQuarantined,
    Partition,
    RequestCancelled,
    RequestSent,
    ResponseReceived,
    ScanAbandoned,
    instant,
    scope_of,
)
from tests.simulation.model import Model, Scan, is_account, listed, parsed

WITHIN = timedelta(hours=12)
_JUST = 1e-5


class Violation(AssertionError):  # noqa: N818 - named after its meaning
    """A rule was violated."""


def require(condition: object, message: str) -> None:
    """Raise Violation unless the condition holds."""
    if not condition:
        raise Violation(message)


@dataclass
class Session:
    """State of one process; `chain` are the days of the runs it resumes.

    `listed` are its accounts with their status; those that only an old scan of the catalogue listed are in
    `listed_by_old`, and belong to the run unless the catalogue is then listed to its end. `full` has the reasons why
    scans of posts must be full, as of the start; `known` the posts at which the others may stop, and `known_landed` the
    landing that closed them. `touched` are the partitions that it has begun or resumed, `stuck` those whose last page
    after a cursor was requested and has not landed.
    """

    number: int
    run_kind: str
    begun: datetime
    mode: SyncMode = "full_refresh"
    max_requests: int | None = None
    chain: Sequence[int] = ()
    full: dict[Partition, Why | None] = field(default_factory=dict)
    known: dict[Partition, set[str]] = field(default_factory=dict)
    known_landed: dict[Partition, int | None] = field(default_factory=dict)
    touched: set[Partition] = field(default_factory=set)
    stuck: set[Partition] = field(default_factory=set)
    requests: int = 0
    listed: dict[str, str] = field(default_factory=dict)
    listed_by_old: dict[str, str] = field(default_factory=dict)
    in_flight: dict[str, RequestSent] = field(default_factory=dict)
    cooldowns: dict[str, float] = field(default_factory=dict)
    first_request_at: dict[Partition, float] = field(default_factory=dict)
    responses: dict[str, ResponseReceived] = field(default_factory=dict)
    received: list[ResponseReceived] = field(default_factory=list)


@dataclass
class ProtocolChecker:
    """Checks every event of every day, and passes landed pages to the model."""

    model: Model = field(default_factory=Model)
    scans: dict[tuple[Partition, str], Scan] = field(default_factory=dict)
    cooldowns: dict[str, float] = field(default_factory=dict)

    def present(self) -> dict[str, str]:
        """Return the accounts that have landed and are not removed, with their status."""
        return {one: row.status for one, row in self.model.accounts.rows.items() if row.removed_at is None}

    def begin(self, session: Session) -> None:
        """Start a process. Accounts that a resumed scan of the catalogue has listed belong to this run, too."""
        self._set_depths(session)
        if session.run_kind == "backfill":
            session.listed = self.present()
            return
        scan = self.scans.get((CATALOGUE, session.run_kind))
        if scan is None or session.begun - scan.started > WITHIN:
            return
        if not scan.abandoned and (not scan.closed or scan.ended_in in session.chain):
            for account_id, row in self.model.accounts.rows.items():
                if row.scan is scan:
                    session.listed[account_id] = row.status

    def _set_depths(self, session: Session) -> None:
        model = self.model
        mode = session.mode if session.run_kind == "sync" else "full_refresh"
        for partition, closed in model.media.closed.items():
            if partition[1] == "posts":
                session.full[partition] = why = why_full(closed, mode, session.begun)
                session.known_landed[partition] = None if why else model.media.ended[partition]
                session.known[partition] = set() if why else set(model.media.known(partition))

    def check_events(self, session: Session, log: Collection[Event]) -> None:
        """Check the events of a day."""
        for event in log:
            match event:
                case RequestSent():
                    self._request_sent(session, event)
                case ResponseReceived():
                    self._response_received(session, event)
                case RequestCancelled():
                    session.in_flight.pop(scope_of(event.partition), None)
                case PageLanded():
                    self._page_landed(session, event)
                case PageQuarantined():
                    self.model.keep(event.partition, event.text)
                case ScanAbandoned():
                    # A scan whose first page was refused is abandoned before anything has landed.
                    if scan := self.scans.get((event.partition, session.run_kind)):
                        scan.abandoned = True
                case CooldownLanded():
                    result = session.cooldowns.get(event.scope, 0.0)
                    self.cooldowns[event.scope] = max(self.cooldowns.get(event.scope, 0.0), result)

    def _request_sent(self, session: Session, sent: RequestSent) -> None:
        scope = scope_of(sent.partition)
        session.requests += 1
        most = session.max_requests
        require(most is None or session.requests <= most, f"more requests than {most}")
        require(scope not in session.in_flight, f"two concurrent requests of {scope}")
        session.in_flight[scope] = sent
        until = max(session.cooldowns.get(scope, 0.0), self.cooldowns.get(scope, 0.0))
        require(sent.at >= until - _JUST, f"{scope} was requested {until - sent.at:.3f} s before its cooldown was over")
        if sent.partition != CATALOGUE:
            status = self._accounts(session).get(sent.partition[0])
            require(status is not None, f"{sent.partition} was requested and is not listed")
            require(status == "active", f"{sent.partition} was requested though its token has expired")
        scan = self.scans.get((sent.partition, session.run_kind))
        if sent.cursor is None:
            if scan is not None:
                require(self._may_begin(session, scan, sent), f"{sent.partition} is scanned again without need")
            session.first_request_at.setdefault(sent.partition, sent.at)
        else:
            require(scan is not None and scan.following == sent.cursor, f"{sent} is not the next page")
            session.touched.add(sent.partition)
            session.stuck.add(sent.partition)

    def _may_begin(self, session: Session, scan: Scan, sent: RequestSent) -> bool:
        if scan.restarts or scan.abandoned:
            return True
        if not scan.closed:
            # An old scan that cannot be continued.
            if sent.partition in session.stuck and session.begun - scan.started > WITHIN:
                return True
            return session.run_kind == "backfill" and scan.day not in {session.number, *session.chain}
        dated = instant(sent.at) - scan.started > WITHIN and scan.begun_in < session.number
        return dated or not self._is_done(session, sent.partition, scan)

    def _is_done(self, session: Session, partition: Partition, scan: Scan) -> bool:
        """Return whether a scan counts for this run, because it or a run that it resumes closed it."""
        if scan.ended_in == session.number:
            return True
        is_enough = not scan.recent or session.known_landed.get(partition) is not None
        return scan.ended_in in session.chain and is_enough

    def _response_received(self, session: Session, response: ResponseReceived) -> None:
        scope = scope_of(response.partition)
        session.in_flight.pop(scope, None)
        session.received.append(response)
        if response.correlation_id:
            session.responses[response.correlation_id] = response
        if response.status == 429 and (seconds := _retry_after(response)) is not None:
            session.cooldowns[scope] = max(session.cooldowns.get(scope, 0.0), response.at + seconds)
        scan = self.scans.get((response.partition, session.run_kind))
        if scan is None or response.cursor is None:
            return
        refused = response.status == 422 and b"api_invalid_cursor" in response.body
        round_ = (
            response.status == 200 and response.whole and _following(response.body) in {*scan.cursors, response.cursor}
        )
        scan.restarts = scan.restarts or refused or round_

    def _accounts(self, session: Session) -> dict[str, str]:
        """Return the accounts of a run that are listed so far, with their status."""
        if session.run_kind == "backfill" or self._expected_outcome(session, CATALOGUE) != "unfinished":
            return session.listed
        return session.listed_by_old | session.listed

    def _list_accounts(self, session: Session, scan: Scan, items: Sequence[object]) -> None:
        # A scan that began too long ago is out of date; the catalogue is scanned again immediately.
        to = session.listed_by_old if session.begun - scan.started > WITHIN else session.listed
        for item in items:
            if not isinstance(item, dict):
                continue
            account_id = str(item.get("id"))
            if is_account(item):
                to.setdefault(account_id, item["status"])
            elif known := self.model.accounts.rows.get(account_id):
                # A known account whose record is malformed is scanned with its last valid status.
                to.setdefault(account_id, known.status)

    def _page_landed(self, session: Session, landed: PageLanded) -> None:
        response = session.responses.get(landed.correlation_id or "")
        require(response is not None, f"a page landed that was never received: {landed}")
        assert response is not None
        require(response.status == 200 and response.whole, f"a response that is not a page landed: {response}")
        scan = self.scans.get((response.partition, session.run_kind))
        if not landed.has_checkpoint:
            self._page_without_checkpoint(session, scan, response)
            return
        if response.cursor is None:
            first = instant(session.first_request_at.pop(response.partition))
            before, scan = scan, self._scan(session, first)
            self.scans[response.partition, session.run_kind] = scan
            scan.known_landed = session.known_landed.get(response.partition)
            if response.partition in session.touched and before is not None and before.feed.broken_by is not None:
                # A broken order stays broken until full scans prove it again.
                scan.known_landed = None
        assert scan is not None
        require(
            scan.following == response.cursor and not scan.closed,
            f"{response.partition}: a page is missing before {response.cursor}",
        )
        page = parsed(response.body)
        if response.partition == CATALOGUE:
            self._list_accounts(session, scan, page["items"])
        if scan.day != session.number and scan.pages:
            if response.partition[1] == "posts":
                scan.feed.resume({key[2] for key in scan.seen})
            if scan.known_landed != session.known_landed.get(response.partition):
                scan.known_landed = None
        session.touched.add(response.partition)
        session.stuck.discard(response.partition)
        scan.pages += 1
        scan.day = session.number
        scan.following = page.get("next_cursor")
        scan.share = 1.0 if session.full.get(response.partition) == "full_due" else 0.0
        self._read(session, scan, response, recent=landed.recent)
        scan.cursors.add(str(scan.following))
        self.model.land(session.number, scan, response.partition, response.body, instant(response.at))
        if (scan.following is None or scan.recent) and not scan.abandoned:
            scan.closed, scan.ended_in = True, session.number

    def _page_without_checkpoint(self, session: Session, scan: Scan | None, response: ResponseReceived) -> None:
        """Its items are stored, but the scan fails."""
        session.first_request_at.pop(response.partition, None)
        at = instant(response.at)
        failed = self._scan(session, at)
        self.model.land(session.number, failed, response.partition, response.body, at, has_cursor=False)
        if response.cursor is None or scan is None:
            return
        # A run that is killed before the outcome has landed is resumed before this page.
        scan.seen |= failed.seen
        if response.partition == CATALOGUE:
            self._list_accounts(session, scan, parsed(response.body)["items"])
            for row in self.model.accounts.rows.values():
                row.scan = scan if row.scan is failed else row.scan

    @staticmethod
    def _scan(session: Session, started: datetime) -> Scan:
        return Scan(started, earliest=session.begun, begun_in=session.number, day=session.number)

    def _read(self, session: Session, scan: Scan, response: ResponseReceived, *, recent: bool) -> None:
        """Read a page, and check whether a recent scan may or must stop after it."""
        items = parsed(response.body)["items"]
        if response.partition[1] != "posts":
            scan.feed.received += len(items)
            return
        older = (scan.earliest - LOOKBACK, scan.started - LOOKBACK)
        scan.feed.read(listed(items), session.known.get(response.partition, ()), older, instant(response.at))
        may = scan.known_landed is not None and scan.following is not None
        if recent:
            require(may and scan.feed.may_stop(), f"{response.partition}: a scan stopped and may not: {scan.feed}")
            scan.recent = True
        else:
            require(
                not (may and scan.feed.must_stop()), f"{response.partition}: a scan continued without need: {scan.feed}"
            )

    def gaps(self) -> list[tuple[object, ...]]:
        """Return the unfinished scans of media that began after the last closed scan of their partition."""
        last: dict[Partition, Scan] = {}
        for (partition, _), scan in self.scans.items():
            if partition == CATALOGUE or scan.closed or scan.began <= self.model.media.ended.get(partition, 0):
                continue
            if partition not in last or scan.began > last[partition].began:
                last[partition] = scan
        return [
            (*partition, None if scan.abandoned else scan.following, scan.pages, scan.feed.read_to)
            for partition, scan in last.items()
        ]

    def expected_outcomes(self, session: Session) -> dict[Partition, str]:
        """Return the expected outcome of each partition of a run: complete, recent, skipped, or unfinished."""
        surfaces = {(one, surface) for one in self._accounts(session) for surface in SURFACES}
        partitions = surfaces if session.run_kind == "backfill" else {CATALOGUE, *surfaces}
        return {partition: self._expected_outcome(session, partition) for partition in partitions}

    def _expected_outcome(self, session: Session, partition: Partition) -> str:
        if partition != CATALOGUE and self._accounts(session)[partition[0]] != "active":
            return "skipped"
        scan = self.scans.get((partition, session.run_kind))
        if scan is None or not scan.closed or not self._is_done(session, partition, scan):
            return "unfinished"
        dated = session.begun - scan.started > WITHIN and scan.ended_in == session.number
        if dated:
            return "unfinished"
        return "recent" if scan.recent else "complete"

    def check_outcomes(
        self, session: Session, outcomes: Mapping[Partition, tuple[str, str | None, str | None]], state: str
    ) -> None:
        """Check a run's outcomes (kind, error code and correlation id by partition) and its state."""
        expected_outcomes = self.expected_outcomes(session)
        require(
            outcomes.keys() == expected_outcomes.keys(),
            f"outcomes of {outcomes.keys() ^ expected_outcomes.keys()} are missing or too many",
        )
        stops = {response.correlation_id for response in session.received if _stops(response)}
        for partition, (kind, code, trace) in outcomes.items():
            if expected_outcomes[partition] == "unfinished":
                require(
                    kind in ("deferred", "denied", "not_found", "failed"), f"{partition} is {kind}, and was not scanned"
                )
                require(code, f"{partition} is {kind} without an error code")
                known = trace is None or trace in session.responses
                require(known, f"{partition} is {kind} because of a response that was never received: {trace}")
            else:
                require(
                    kind == expected_outcomes[partition],
                    f"{partition} is {kind}, and should be {expected_outcomes[partition]}",
                )
        kinds = {kind for kind, _, _ in outcomes.values()}
        if stops:
            expected = "failed"
        elif kinds <= {"complete", "recent", "skipped"}:
            expected = "partial" if self.model.accounts.lacks_many and session.run_kind == "sync" else "complete"
        else:
            expected = "partial" if kinds & {"complete", "recent", "deferred"} else "failed"
        require(state == expected, f"the run is {state}, and should be {expected} with {sorted(kinds)}")


def _following(body: bytes) -> str | None:
    try:
        cursor = parsed(body)["next_cursor"]
    except (ValueError, KeyError, TypeError):
        return None
    return cursor if isinstance(cursor, str) else None


def _retry_after(response: ResponseReceived) -> float | None:
    text = response.headers.get("retry-after", "")
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - instant(response.at)).total_seconds())
    except ValueError:
        return None


def _stops(response: ResponseReceived) -> bool:
    return response.status in (400, 401, 413, 415) or b"api_scope_denied" in response.body
