"""What lands: pages, which are in the inbox until they are merged, and with them checkpoints and cooldowns.

Everything that has arrived lands in one transaction. Its rows go to the driver directly, because what SQLAlchemy does
for each costs a second per 100,000 items.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, delete, func, select, update

from connectors.state.database import driver_of
from models.checkpoint import Checkpoint, Landing, RunKind, ScanState, ScopeCooldown
from models.feeds import CATALOGUE, Partition
from models.tables import checkpoints, cooldowns, inbox, text_of_time

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Landing).decode

_of = checkpoints.c
_KEY = ("resource", "account_id", "surface")
_COLUMNS = [column.name for column in _of]
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


def land(connection: Connection, arrived: Sequence[Landing | ScopeCooldown]) -> int:
    """Make what arrived durable; after an error nothing of it is. Return the last landing number.

    Raises UnicodeEncodeError for lone surrogates.
    """
    driver = driver_of(connection)
    landings = [one for one in arrived if isinstance(one, Landing) and (one.page or one.checkpoint or one.outcomes)]
    after = reserve_seqs(connection, len(landings))
    for seq, landing in enumerate(landings, after + 1):
        if (checkpoint := landing.checkpoint) is not None:
            if checkpoint.began_seq is None:
                [began_seq] = driver.execute(_BEGAN, _values(checkpoint)[:5]).fetchone() or [seq]
                checkpoint = replace(checkpoint, began_seq=began_seq)
            driver.execute(_PUT_CHECKPOINT, _values(checkpoint))
        text = _encode(replace(landing, body=b"", checkpoint=checkpoint)).decode()
        driver.execute("INSERT INTO inbox (seq, entry, body) VALUES (?, ?, ?)", (seq, text, landing.body))
    for wait in (one for one in arrived if isinstance(one, ScopeCooldown)):
        asked_at = wait.asked_at and text_of_time(wait.asked_at)
        driver.execute(_PUT_COOLDOWN, (wait.scope, text_of_time(wait.resume_after), asked_at))
    if (run_id := next((one.run_id for one in landings if one.page), None)) is not None:
        driver.execute(_BIND, (run_id,))
    return after + len(landings)


def _values(checkpoint: Checkpoint) -> list[object]:
    """Return the values of the columns of a checkpoint's row."""
    return [text_of_time(one) if isinstance(one, datetime) else one for one in _values_of(checkpoint)]


def reserve_seqs(connection: Connection, number: int) -> int:
    """Take this many landing numbers; return the number before the first of them."""
    count = "UPDATE identity SET last_seq = last_seq + ? RETURNING last_seq"
    return int(connection.exec_driver_sql(count, (number,)).scalar_one()) - number


def read_landings(connection: Connection, after: int) -> Iterator[Landing]:
    """Yield the landings after a number, in order, without all of them in memory."""
    driver = driver_of(connection)
    run_seqs = dict(driver.execute("SELECT run_id, seq FROM runs WHERE run_id IS NOT NULL"))
    for seq, entry, body in driver.execute("SELECT seq, entry, body FROM inbox WHERE seq > ? ORDER BY seq", (after,)):
        landing = _decode(entry)
        # A rebuild lands again what runs received that are deleted since.
        yield replace(landing, body=body, seq=seq, run_seq=run_seqs.get(landing.run_id, 0))


def read_unmerged(connection: Connection) -> set[int]:
    """Return the numbers of the landings in the inbox."""
    return {*connection.execute(select(inbox.c.seq)).scalars()}


def delete_landings(connection: Connection, last: int) -> None:
    """Delete the landings up to this number, because they are merged."""
    connection.exec_driver_sql("DELETE FROM inbox WHERE seq <= ?", (last,))


def read_checkpoints(
    connection: Connection, account_ids: Collection[str], run_kind: RunKind = "sync"
) -> Mapping[Partition, Checkpoint]:
    """Return the last checkpoint by runs of this kind, for each partition of these accounts that has one.

    The catalogue's account is "".
    """
    wanted = func.json_each(json.dumps([*account_ids])).table_valued("value")
    query = select(checkpoints).where(_of.account_id.in_(select(wanted.c.value)), _of.run_kind == run_kind)
    found = {}
    for row in connection.execute(query).mappings():
        values = dict(row)
        partition = Partition(*(values.pop(name) for name in _KEY))
        found[partition] = Checkpoint(partition, **values | {"state": ScanState(row["state"])})
    return found


def forget_order(connection: Connection) -> None:
    """Make open scans of feeds in order full ones, because the mapping of times or ids has changed."""
    # Only scans of feeds that may be in order read down to known items, or to a time.
    in_order = _of.known_seq.is_not(None) | _of.read_to.is_not(None)
    connection.execute(update(checkpoints).where(in_order).values(order_broken_by="", known_seq=None))


def delete_progress(connection: Connection, account_ids: Collection[str]) -> Mapping[str, int]:
    """Delete the checkpoints and cooldowns of accounts; return how many, by table.

    Also the checkpoint of an unfinished catalogue: its cursor is opaque, and may contain an account.
    """
    connection.execute(delete(checkpoints).where(_of.resource == CATALOGUE.resource, _of.cursor.is_not(None)))
    deleted = Counter[str]()
    for account_id in account_ids:
        of_scope = cooldowns.c.scope.endswith(f":{account_id}")
        for table, condition in ((checkpoints, _of.account_id == account_id), (cooldowns, of_scope)):
            deleted[table.name] += connection.execute(delete(table).where(condition)).rowcount
    return deleted


def read_cooldowns(connection: Connection, *, now: datetime) -> Mapping[str, datetime]:
    """Return the end of the cooldown of each rate-limit scope that must still wait."""
    query = select(cooldowns.c.scope, cooldowns.c.resume_after).where(cooldowns.c.resume_after > now)
    return {row.scope: row.resume_after for row in connection.execute(query)}


def lift_cooldowns(connection: Connection, *, after: datetime) -> None:
    """Delete the cooldowns that end after `after`."""
    connection.execute(delete(cooldowns).where(cooldowns.c.resume_after > after))
