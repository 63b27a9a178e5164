"""The inbox: what has landed and is not merged. Everything that has arrived lands in one transaction.

Rows go to the driver directly, because what SQLAlchemy does for each costs a second per 100,000 items.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter

import msgspec
from sqlalchemy import Connection

from connectors.state.database import driver_of
from models.checkpoint import Checkpoint, Landing, PageCommit, to_landing
from models.tables import checkpoints, text_of_time

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(PageCommit).decode

# SQLite's largest integer.
_ALL = 2**63 - 1

_KEY = ("resource", "account_id", "surface")
_COLUMNS = [column.name for column in checkpoints.columns]
_values_of = attrgetter(*(f"partition.{name}" if name in _KEY else name for name in _COLUMNS))

_PUT_CHECKPOINT = (
    f"INSERT OR REPLACE INTO checkpoints ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' for _ in _COLUMNS)})"  # noqa: S608
)
# The longest wait counts.
_PUT_COOLDOWN = """
INSERT INTO cooldowns (scope, resume_after, asked_at) VALUES (?, ?, ?)
ON CONFLICT (scope) DO UPDATE SET resume_after = excluded.resume_after, asked_at = excluded.asked_at
WHERE excluded.resume_after > cooldowns.resume_after
"""
_BEGAN = """
SELECT began_seq FROM checkpoints
WHERE resource = ? AND account_id = ? AND surface = ? AND run_kind = ? AND scan_id = ?
"""
_BIND = "UPDATE identity SET base_url = (SELECT base_url FROM runs WHERE run_id = ?) WHERE base_url IS NULL"


def land(connection: Connection, commits: Sequence[PageCommit]) -> int:
    """Make page commits durable; after an error none of them is. Return the last landing number.

    Raises UnicodeEncodeError for lone surrogates.
    """
    driver = driver_of(connection)
    entries = [commit for commit in commits if commit.page or commit.checkpoint or commit.outcomes]
    after = count_landings(connection, len(entries))
    began: dict[str, int] = {}
    for seq, entry in enumerate(entries, after + 1):
        page, checkpoint = entry.page, entry.checkpoint
        if checkpoint is not None:
            if (first := checkpoint.began_seq or began.get(checkpoint.scan_id)) is None:
                stored = driver.execute(_BEGAN, _values(checkpoint)[:5]).fetchone()
                first = began[checkpoint.scan_id] = stored[0] if stored else seq
            checkpoint = replace(checkpoint, began_seq=first)
            driver.execute(_PUT_CHECKPOINT, _values(checkpoint))
        body = b"" if page is None else page.body
        text = _encode(replace(entry, page=page and replace(page, body=b""), checkpoint=checkpoint)).decode()
        driver.execute("INSERT INTO inbox (seq, entry, body) VALUES (?, ?, ?)", (seq, text, body))
    for wait in (commit.cooldown for commit in commits if commit.cooldown is not None):
        asked_at = wait.asked_at and text_of_time(wait.asked_at)
        driver.execute(_PUT_COOLDOWN, (wait.scope, text_of_time(wait.resume_after), asked_at))
    if (run_id := next((entry.page.run_id for entry in entries if entry.page), None)) is not None:
        driver.execute(_BIND, (run_id,))
    return after + len(entries)


def _values(checkpoint: Checkpoint) -> list[object]:
    """Return the values of the columns of a checkpoint's row."""
    return [text_of_time(one) if isinstance(one, datetime) else one for one in _values_of(checkpoint)]


def count_landings(connection: Connection, number: int) -> int:
    """Take this many landing numbers; return the number before the first of them."""
    count = "UPDATE identity SET last_seq = last_seq + ? RETURNING last_seq"
    return int(connection.exec_driver_sql(count, (number,)).scalar_one()) - number


def read_landings(connection: Connection, after: int = 0, last: int = _ALL) -> Iterator[Landing]:
    """Yield the landings after one number, up to another, in order, without all of them in memory."""
    driver = driver_of(connection)
    run_seqs = dict(driver.execute("SELECT run_id, seq FROM runs WHERE run_id IS NOT NULL"))
    query = "SELECT seq, entry, body FROM inbox WHERE seq > ? AND seq <= ? ORDER BY seq"
    for seq, entry, body in driver.execute(query, (after, last)):
        yield to_landing(seq, _decode(entry), body, run_seqs)


def last_landing(connection: Connection) -> int:
    """Return the number of the last landing that is not merged; 0 without any."""
    return int(connection.exec_driver_sql("SELECT coalesce(max(seq), 0) FROM inbox").scalar_one())


def delete_landings(connection: Connection, last: int) -> None:
    """Delete the landings up to this number, because they are merged."""
    connection.exec_driver_sql("DELETE FROM inbox WHERE seq <= ?", (last,))
