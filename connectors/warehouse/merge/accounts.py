"""What becomes of an account each time that the catalogue lists it. No IO.

Of the records that one catalogue has of an account the first one counts.
"""

from collections.abc import Iterator
from typing import Any

from connectors.warehouse.merge.reading import ListedAccount

Row = dict[str, Any]
"""A row of core.accounts."""

_NOT_MISSED = dict.fromkeys(("missed_at", "confirmed_by", "removed_at", "removal"))


def list_account(before: Row | None, listed: ListedAccount) -> Row | None:
    """Return an account after a record of it; None if there is only a malformed one.

    A malformed record, or another one of the same catalogue, says that the account is listed, and nothing else.
    """
    page, said = listed.page, listed.said
    seen = {"run_seq": page.run_seq, "seen_seq": page.seq, "last_seen_at": page.received_at, **_NOT_MISSED}
    first = {"status_since": page.received_at, "present_seq": page.seq}
    if before is None:
        new = {"account_id": listed.account_id, "first_seen_at": page.received_at, **first, **seen}
        return new | said if said else None
    after = {**before, **(said if said and not is_repeated(before, listed) else {}), **seen}
    if before["removed_at"] is not None:
        return after | first
    return after if after["status"] == before["status"] else after | {"status_since": page.received_at}


def is_repeated(before: Row, listed: ListedAccount) -> bool:
    """Return whether the catalogue has listed the account before."""
    return bool(before["seen_seq"] >= listed.page.began_seq)


def begin_periods(before: Row | None, after: Row) -> Iterator[Row]:
    """Yield the rows of core.account_periods for the status and the name that begin when an account is listed."""
    for attribute in ("status", "ig_username"):
        is_returned = before is not None and before["removed_at"] is not None and attribute == "status"
        if before is None or after[attribute] != before[attribute] or is_returned:
            same = {name: after[name] for name in ("account_id", "run_seq")}
            begun = {"attribute": attribute, "value": after[attribute]}
            yield {**same, **begun, "valid_from": after["last_seen_at"], "seq": after["seen_seq"]}
