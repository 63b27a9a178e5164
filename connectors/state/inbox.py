"""The inbox: what has landed and is not merged. Everything that has arrived lands in one transaction."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from operator import attrgetter

import msgspec
from sqlalchemy import Connection

from connectors.state.database import State
from connectors.state.runs import read_run_numbers
from models.checkpoint import Checkpoint, ScanState
from models.landing import Landing, PageCommit, to_landing
from models.tables import Instant, checkpoints, text_of_time

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(PageCommit).decode

# Rows go to the driver directly, because what SQLAlchemy does for each costs a second per 100,000 items.
_COLUMNS = [column.name for column in checkpoints.columns]
_PUT_CHECKPOINT = (
    f"INSERT OR REPLACE INTO checkpoints ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' for _ in _COLUMNS)})"  # noqa: S608
)
# The longest wait counts.
_PUT_COOLDOWN = """
INSERT INTO cooldowns (scope, resume_after, asked_at) VALUES (?, ?, ?)
ON CONFLICT (scope) DO UPDATE SET resume_after = excluded.resume_after, asked_at = excluded.asked_at
WHERE excluded.resume_after > cooldowns.resume_after
"""
_PUT_LANDING = "INSERT INTO inbox (seq, entry, body) VALUES (?, ?, ?)"
_COUNT = "UPDATE identity SET last_seq = last_seq + ? RETURNING last_seq"
_BIND = "UPDATE identity SET base_url = (SELECT base_url FROM runs WHERE run_id = ?) WHERE base_url IS NULL"
_READ = "SELECT seq, entry, body FROM inbox WHERE seq > ? ORDER BY seq"

_OF_PARTITION = ("resource", "account_id", "surface")
_values_of = attrgetter(*(f"partition.{name}" if name in _OF_PARTITION else name for name in _COLUMNS))
_TIMES = [n for n, column in enumerate(checkpoints.columns) if isinstance(column.type, Instant)]


class Inbox:
    """Lands page commits, and reads and deletes what has landed. Thread-safe, but only one thread may land."""

    def __init__(self, state: State) -> None:
        self._state = state
        # The landing of the first page of each scan that began since the file was opened, and is not closed.
        self._began: dict[str, int] = {}

    def land(self, commits: Sequence[PageCommit]) -> int:
        """Make page commits durable in one transaction; after an error none of them is.

        Return the last landing number. Raises StateError, and UnicodeEncodeError for lone surrogates.
        """
        entries = [commit for commit in commits if commit.page or commit.checkpoint or commit.outcomes]
        waits = [commit.cooldown for commit in commits if commit.cooldown is not None]

        def work(connection: Connection) -> int:
            after = count_landings(connection, len(entries))
            numbered = [self._with_beginning(seq, commit) for seq, commit in enumerate(entries, after + 1)]
            _put(connection, _PUT_LANDING, [_landed(seq, commit) for seq, commit in enumerate(numbered, after + 1)])
            _put(connection, _PUT_CHECKPOINT, [_row(one.checkpoint) for one in numbered if one.checkpoint is not None])
            _put(
                connection,
                _PUT_COOLDOWN,
                [
                    (one.scope, text_of_time(one.resume_after), one.asked_at and text_of_time(one.asked_at))
                    for one in waits
                ],
            )
            first = next((commit.page for commit in entries if commit.page is not None), None)
            if first is not None:
                connection.exec_driver_sql(_BIND, (first.run_id,))
            return after + len(entries)

        return self._state.write(work)

    def _with_beginning(self, seq: int, commit: PageCommit) -> PageCommit:
        """Return the commit, with the landing number of its scan's first page in its checkpoint."""
        checkpoint = commit.checkpoint
        if checkpoint is None:
            return commit
        if checkpoint.began_seq is None:
            began_seq = self._began.setdefault(checkpoint.scan_id, seq)
            commit = replace(commit, checkpoint=replace(checkpoint, began_seq=began_seq))
        if checkpoint.state is not ScanState.SCANNING:
            self._began.pop(checkpoint.scan_id, None)
        return commit

    def after(self, seq: int) -> Generator[Landing]:
        """Yield what has landed after this number, in order. Close the iterator if it is not read to its end."""
        with self._state.reading() as connection:
            run_seqs = read_run_numbers(connection)
            rows = connection.execution_options(yield_per=64).exec_driver_sql(_READ, (seq,))
            for number, entry, body in rows:
                yield to_landing(number, _decode(entry), body, run_seqs)

    def last(self) -> int:
        """Return the number of the last landing that is not merged; 0 without any."""
        last = "SELECT coalesce(max(seq), 0) FROM inbox"
        return int(self._state.read(lambda connection: connection.exec_driver_sql(last).scalar_one()))

    def delete(self, seq: int) -> None:
        """Delete the landings up to this number, because they are merged."""
        self._state.write(lambda connection: connection.exec_driver_sql("DELETE FROM inbox WHERE seq <= ?", (seq,)))


def count_landings(connection: Connection, number: int) -> int:
    """Take this many landing numbers; return the number before the first of them."""
    return int(connection.exec_driver_sql(_COUNT, (number,)).scalar_one()) - number


def _put(connection: Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    if rows:
        connection.exec_driver_sql(statement, [tuple(row) for row in rows])


def _landed(seq: int, commit: PageCommit) -> tuple[int, str, bytes]:
    if (page := commit.page) is None:
        return seq, _encode(commit).decode(), b""
    return seq, _encode(replace(commit, page=replace(page, body=b""))).decode(), page.body


def _row(checkpoint: Checkpoint) -> list[object]:
    values = list(_values_of(checkpoint))
    for n in _TIMES:
        values[n] = values[n] and text_of_time(values[n])
    return values
