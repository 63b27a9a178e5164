"""How a run must behave towards the service, whatever befalls it, and what its ledger must say in the end."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from models.incremental import SyncMode
from tests.model.recent import LOOKBACK, Why, why_full
from tests.simulation.events import (
    CATALOGUE,
    SURFACES,
    Event,
    GivenUp,
    Got,
    Held,
    Kept,
    Lost,
    Partition,
    PendingPages,
    Sent,
    instant,
    scope_of,
)
from tests.simulation.model import Model, Scan, is_account, listed, parsed

WITHIN = timedelta(hours=12)
_JUST = 1e-5


class Foul(AssertionError):  # noqa: N818 - what it is called in a game
    """A rule was broken."""


def require(cooldowns: object, message: str) -> None:
    """Raise Foul unless something holds."""
    if not cooldowns:
        raise Foul(message)


@dataclass
class Session:
    """What the referee knows of one process: `chain` are the days it resumes.

    `full` says why scans of posts must be full, as of the beginning; `known` what the others may stop at, and
    `known_landed` the landing that closed it. `touched` are the partitions whose scan it has resumed or begun.
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
    requests: int = 0
    listed: dict[str, str] = field(default_factory=dict)
    in_flight: dict[str, Sent] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)
    first_asked: dict[Partition, float] = field(default_factory=dict)
    answers: dict[str, Got] = field(default_factory=dict)
    heard: list[Got] = field(default_factory=list)


@dataclass
class Referee:
    """Follows every event of every day, and tells the model what landed."""

    model: Model = field(default_factory=Model)
    scans: dict[tuple[Partition, str], Scan] = field(default_factory=dict)
    promises: dict[str, float] = field(default_factory=dict)

    def present(self) -> dict[str, str]:
        """The accounts in the catalogue, as far as is known, and their status."""
        return {one: row.status for one, row in self.model.accounts.rows.items() if row.removed_at is None}

    def begin(self, session: Session) -> None:
        """A process begins. What a scan of the catalogue that goes on has listed is this run's, too."""
        self._set_depths(session)
        if session.run_kind == "backfill":
            session.listed = self.present()
            return
        scan = self.scans.get((CATALOGUE, session.run_kind))
        if scan is None or session.begun - scan.started > WITHIN:
            return
        if not scan.given_up and (not scan.over or scan.ended_in in session.chain):
            for account_id, row in self.model.accounts.rows.items():
                if row.scan is scan:
                    session.listed[account_id] = row.status

    def _set_depths(self, session: Session) -> None:
        model = self.model
        mode = session.mode if session.run_kind == "sync" else "full_refresh"
        for partition, closed in model.media.closed.items():
            if partition[1] == "posts":
                needs_full = model.media.needs_full(partition)
                session.full[partition] = why = why_full(closed, mode, session.begun, needs_full=needs_full)
                session.known_landed[partition] = None if why else model.media.ended[partition]
                session.known[partition] = set() if why else set(model.media.known(partition))

    def follow(self, session: Session, log: Collection[Event]) -> None:
        """Judge what happened in a day."""
        for event in log:
            match event:
                case Sent():
                    self._sent(session, event)
                case Got():
                    self._got(session, event)
                case Lost():
                    session.in_flight.pop(scope_of(event.partition), None)
                case PendingPages():
                    self._landed(session, event)
                case Kept():
                    self.model.keep(event.partition, event.text)
                case GivenUp():
                    # A scan whose first page was refused is given up before it has landed anything.
                    if scan := self.scans.get((event.partition, session.run_kind)):
                        scan.given_up = True
                case Held():
                    result = session.promised.get(event.scope, 0.0)
                    self.promises[event.scope] = max(self.promises.get(event.scope, 0.0), result)

    def _sent(self, session: Session, sent: Sent) -> None:
        scope = scope_of(sent.partition)
        session.requests += 1
        most = session.max_requests
        require(most is None or session.requests <= most, f"more requests than {most}")
        require(scope not in session.in_flight, f"two requests at once of {scope}")
        session.in_flight[scope] = sent
        until = max(session.promised.get(scope, 0.0), self.promises.get(scope, 0.0))
        require(sent.at >= until - _JUST, f"{scope} was asked {until - sent.at:.3f} s before it may be")
        if sent.partition != CATALOGUE:
            status = session.listed.get(sent.partition[0])
            require(status is not None, f"{sent.partition} was asked for and is not listed")
            require(status == "active", f"{sent.partition} was asked for though its token has expired")
        scan = self.scans.get((sent.partition, session.run_kind))
        if sent.cursor is None:
            if scan is not None:
                require(self._may_begin(session, scan, sent), f"{sent.partition} is scanned anew, and need not be")
            session.first_asked.setdefault(sent.partition, sent.at)
        else:
            require(scan is not None and scan.following == sent.cursor, f"{sent} is not what comes next")
            session.touched.add(sent.partition)

    def _may_begin(self, session: Session, scan: Scan, sent: Sent) -> bool:
        if scan.dead or scan.given_up:
            return True
        if not scan.over:
            return session.run_kind == "backfill" and scan.day not in {session.number, *session.chain}
        dated = instant(sent.at) - scan.started > WITHIN and scan.begun_in < session.number
        return dated or not self._is_done(session, sent.partition, scan)

    def _is_done(self, session: Session, partition: Partition, scan: Scan) -> bool:
        """Whether a scan counts as this run's: a recent one of a run that it resumes does where one is enough."""
        if scan.ended_in == session.number:
            return True
        is_enough = not scan.recent or session.known_landed.get(partition) is not None
        return scan.ended_in in session.chain and is_enough

    def _got(self, session: Session, got: Got) -> None:
        scope = scope_of(got.partition)
        session.in_flight.pop(scope, None)
        session.heard.append(got)
        if got.correlation_id:
            session.answers[got.correlation_id] = got
        if got.status == 429 and (seconds := _retry_after(got)) is not None:
            session.promised[scope] = max(session.promised.get(scope, 0.0), got.at + seconds)
        scan = self.scans.get((got.partition, session.run_kind))
        if scan is None or got.cursor is None:
            return
        refused = got.status == 422 and b"api_invalid_cursor" in got.body
        round_ = got.status == 200 and got.whole and _following(got.body) in {*scan.cursors, got.cursor}
        scan.dead = scan.dead or refused or round_

    def _landed(self, session: Session, landed: PendingPages) -> None:
        got = session.answers.get(landed.correlation_id or "")
        require(got is not None, f"a page landed that never arrived: {landed}")
        assert got is not None
        require(got.status == 200 and got.whole, f"no page landed as one: {got}")
        scan = self.scans.get((got.partition, session.run_kind))
        if got.cursor is None:
            first = instant(session.first_asked.pop(got.partition))
            before, scan = scan, Scan(first, session.begun, session.number, session.number)
            self.scans[got.partition, session.run_kind] = scan
            scan.known_landed = session.known_landed.get(got.partition)
            if got.partition in session.touched and before is not None and before.feed.broken_by is not None:
                # An order that was found broken stays so until full scans prove another.
                scan.known_landed = None
        assert scan is not None
        require(
            scan.following == got.cursor and not scan.over, f"{got.partition}: a page is missing before {got.cursor}"
        )
        page = parsed(got.body)
        # What began too long ago lists who was there then; it is scanned anew at once.
        if got.partition == CATALOGUE and session.begun - scan.started <= WITHIN:
            for item in page["items"]:
                if is_account(item):
                    session.listed.setdefault(item["id"], item["status"])
        if scan.day != session.number and scan.pages:
            if got.partition[1] == "posts":
                scan.feed.resume({key[2] for key in scan.seen})
            if scan.known_landed != session.known_landed.get(got.partition):
                scan.known_landed = None
        session.touched.add(got.partition)
        scan.pages += 1
        scan.day = session.number
        scan.following = page["next_cursor"]
        scan.share = 1.0 if session.full.get(got.partition) == "full_due" else 0.0
        self._read(session, scan, got, recent=landed.recent)
        scan.cursors.add(str(scan.following))
        self.model.land(session.number, scan, got.partition, got.body, instant(got.at))
        if scan.following is None or scan.recent:
            scan.over, scan.ended_in = True, session.number

    def _read(self, session: Session, scan: Scan, got: Got, *, recent: bool) -> None:
        """A page is read: a recent scan may stop after it, or must."""
        items = parsed(got.body)["items"]
        if got.partition[1] != "posts":
            scan.feed.received += len(items)
            return
        older = (scan.earliest - LOOKBACK, scan.started - LOOKBACK)
        scan.feed.read(listed(items), session.known.get(got.partition, ()), older, instant(got.at))
        may = scan.known_landed is not None and scan.following is not None
        if recent:
            require(may and scan.feed.may_stop(), f"{got.partition}: a scan stops, and may not: {scan.feed}")
            scan.recent = True
        else:
            require(not (may and scan.feed.must_stop()), f"{got.partition}: a scan reads on, and need not: {scan.feed}")

    def gaps(self) -> list[tuple[object, ...]]:
        """The scans of media that were cut short, and that began after any of their partition was closed."""
        last: dict[Partition, Scan] = {}
        for (partition, _), scan in self.scans.items():
            if partition == CATALOGUE or scan.over or scan.began <= self.model.media.ended.get(partition, 0):
                continue
            if partition not in last or scan.began > last[partition].began:
                last[partition] = scan
        return [
            (*partition, None if scan.given_up else scan.following, scan.pages, scan.feed.read_to)
            for partition, scan in last.items()
        ]

    def owed(self, session: Session) -> dict[Partition, str]:
        """What became of each partition of a run: complete, recent, skipped, or left."""
        surfaces = {(one, surface) for one in session.listed for surface in SURFACES}
        partitions = surfaces if session.run_kind == "backfill" else {CATALOGUE, *surfaces}
        return {partition: self._became(session, partition) for partition in partitions}

    def _became(self, session: Session, partition: Partition) -> str:
        if partition != CATALOGUE and session.listed[partition[0]] != "active":
            return "skipped"
        scan = self.scans.get((partition, session.run_kind))
        if scan is None or not scan.over or not self._is_done(session, partition, scan):
            return "left"
        dated = session.begun - scan.started > WITHIN and scan.ended_in == session.number
        if dated:
            return "left"
        return "recent" if scan.recent else "complete"

    def judge(
        self, session: Session, outcomes: Mapping[Partition, tuple[str, str | None, str | None]], state: str
    ) -> None:
        """Hold a run's ledger to account: outcome, error code and correlation id by partition, and its state."""
        owed = self.owed(session)
        require(outcomes.keys() == owed.keys(), f"outcomes of {outcomes.keys() ^ owed.keys()} are missing or too many")
        stops = {got.correlation_id for got in session.heard if _stops(got)}
        for partition, (kind, code, trace) in outcomes.items():
            if owed[partition] == "left":
                require(
                    kind in ("deferred", "denied", "not_found", "failed"), f"{partition} is {kind}, and was not scanned"
                )
                require(code, f"{partition} is {kind}, and nobody knows why")
                known = trace is None or trace in session.answers
                require(known, f"{partition} is {kind} because of an answer that never came: {trace}")
            else:
                require(kind == owed[partition], f"{partition} is {kind}, and should be {owed[partition]}")
        kinds = {kind for kind, _, _ in outcomes.values()}
        if stops:
            expected = "failed"
        elif kinds <= {"complete", "recent", "skipped"}:
            expected = "partial" if self.model.accounts.missing and session.run_kind == "sync" else "complete"
        else:
            expected = "partial" if kinds & {"complete", "recent", "deferred"} else "failed"
        require(state == expected, f"the run is {state}, and should be {expected} with {sorted(kinds)}")


def _following(body: bytes) -> str | None:
    try:
        cursor = parsed(body)["next_cursor"]
    except (ValueError, KeyError, TypeError):
        return None
    return cursor if isinstance(cursor, str) else None


def _retry_after(got: Got) -> float | None:
    text = got.headers.get("retry-after", "")
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - instant(got.at)).total_seconds())
    except ValueError:
        return None


def _stops(got: Got) -> bool:
    return got.status in (400, 401, 413, 415) or b"api_scope_denied" in got.body
