"""How a run must behave towards the service, whatever befalls it, and what its ledger must say in the end."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

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
from tests.simulation.model import Model, Scan, is_account, parsed

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
    """What the referee knows of one process: `chain` are the nights it resumes."""

    number: int
    run_kind: str
    begun: datetime
    chain: Sequence[int] = ()
    listed: dict[str, str] = field(default_factory=dict)
    in_flight: dict[str, Sent] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)
    first_asked: dict[Partition, float] = field(default_factory=dict)
    answers: dict[str, Got] = field(default_factory=dict)
    heard: list[Got] = field(default_factory=list)


@dataclass
class Referee:
    """Follows every event of every night, and tells the model what landed."""

    model: Model = field(default_factory=Model)
    scans: dict[tuple[Partition, str], Scan] = field(default_factory=dict)
    promises: dict[str, float] = field(default_factory=dict)

    def present(self) -> dict[str, str]:
        """The accounts in the catalogue, as far as is known, and their status."""
        accounts = self.model.accounts.items()
        return {account_id: row["status"] for account_id, row in accounts if row["removed_at"] is None}

    def begin(self, session: Session) -> None:
        """A process begins. What a scan of the catalogue that goes on has listed is this run's, too."""
        if session.run_kind == "backfill":
            session.listed = self.present()
            return
        scan = self.scans.get((CATALOGUE, session.run_kind))
        if scan is None or session.begun - scan.started > WITHIN:
            return
        if not scan.given_up and (not scan.over or scan.ended_in in session.chain):
            for account_id, row in self.model.accounts.items():
                if row["scan"] is scan:
                    session.listed[account_id] = row["status"]

    def follow(self, session: Session, log: Collection[Event]) -> None:
        """Judge what happened in a night."""
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

    def _may_begin(self, session: Session, scan: Scan, sent: Sent) -> bool:
        if scan.dead or scan.given_up:
            return True
        if not scan.over:
            return session.run_kind == "backfill" and scan.night not in {session.number, *session.chain}
        dated = instant(sent.at) - scan.started > WITHIN and scan.begun_in < session.number
        return dated or scan.ended_in not in {session.number, *session.chain}

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
            scan = self.scans[got.partition, session.run_kind] = Scan(first, session.number, session.number)
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
        scan.pages += 1
        scan.night = session.number
        scan.following = page["next_cursor"]
        scan.cursors.add(str(scan.following))
        self.model.land(session.number, scan, got.partition, got.body, instant(got.at))
        if scan.following is None:
            scan.over, scan.ended_in = True, session.number

    def owed(self, session: Session) -> dict[Partition, str]:
        """What became of each partition of a run: complete, skipped, or left."""
        surfaces = {(one, surface) for one in session.listed for surface in SURFACES}
        partitions = surfaces if session.run_kind == "backfill" else {CATALOGUE, *surfaces}
        return {partition: self._became(session, partition) for partition in partitions}

    def _became(self, session: Session, partition: Partition) -> str:
        if partition != CATALOGUE and session.listed[partition[0]] != "active":
            return "skipped"
        scan = self.scans.get((partition, session.run_kind))
        done = scan is not None and scan.over and scan.ended_in in {session.number, *session.chain}
        dated = scan is not None and session.begun - scan.started > WITHIN and scan.ended_in == session.number
        return "complete" if done and not dated else "left"

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
        elif kinds <= {"complete", "skipped"}:
            expected = "partial" if self.model.missing_accounts and session.run_kind == "sync" else "complete"
        else:
            expected = "partial" if kinds & {"complete", "deferred"} else "failed"
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
