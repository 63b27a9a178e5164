"""What becomes of an account each time that the catalogue lists it. No IO.

Of the records that one catalogue has of an account the first one counts.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from connectors.warehouse.merge.reading import ListedAccount


class Account(NamedTuple):
    """An account: a row of core.accounts."""

    account_id: str
    listed_as: str
    ig_username: str
    public_id: str
    status: str
    status_since: datetime
    first_seen_at: datetime
    run_seq: int
    seen_seq: int
    present_seq: int
    last_seen_at: datetime
    missed_at: datetime | None = None
    confirmed_by: int | None = None
    removed_at: datetime | None = None
    removal: str | None = None


def list_account(before: Account | None, listed: ListedAccount) -> Account | None:
    """Return an account after a record of it; None if there is only a malformed one.

    A malformed record, or another one of the same catalogue, says that the account is listed, and nothing else.
    """
    page, said = listed.page, listed.said
    at = page.received_at
    if before is None:
        return said and Account(listed.account_id, *said, at, at, page.run_seq, page.seq, page.seq, at)
    listed_as, ig_username, public_id, status = said if said and not is_repeated(before, listed) else before[1:5]
    is_returned = before.removed_at is not None
    return Account(
        before.account_id,
        listed_as,
        ig_username,
        public_id,
        status,
        at if is_returned or status != before.status else before.status_since,
        before.first_seen_at,
        page.run_seq,
        page.seq,
        page.seq if is_returned else before.present_seq,
        at,
    )


def is_repeated(before: Account, listed: ListedAccount) -> bool:
    """Return whether the catalogue has listed the account before."""
    return before.seen_seq >= listed.page.began_seq


def begin_periods(before: Account | None, after: Account) -> Iterator[dict[str, Any]]:
    """Yield the rows of core.account_periods for the status and the name that begin when an account is listed."""
    for attribute in ("status", "ig_username"):
        value = getattr(after, attribute)
        is_returned = before is not None and before.removed_at is not None and attribute == "status"
        if before is None or value != getattr(before, attribute) or is_returned:
            yield {
                "account_id": after.account_id,
                "attribute": attribute,
                "value": value,
                "valid_from": after.last_seen_at,
                "seq": after.seen_seq,
                "run_seq": after.run_seq,
            }
