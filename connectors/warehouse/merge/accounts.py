"""What becomes of an account each time that the catalogue lists it. No IO.

Of the records that one catalogue has of an account the last one counts, and it is compared with what was known before
that catalogue.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from connectors.warehouse.merge.reading import ListedAccount

STATUS, NAME = "status", "ig_username"
REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Period:
    """A time in which an account had a status, or a name: a row of core.account_periods."""

    account_id: str
    attribute: str
    value: str
    valid_from: datetime
    valid_to: datetime | None
    seq: int
    run_seq: int


@dataclass(frozen=True, slots=True)
class Account:
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


@dataclass(frozen=True, slots=True)
class KnownAccount:
    """An account with its periods, oldest first. `is_doubled`: the last catalogue has several records that differ."""

    account: Account
    periods: tuple[Period, ...]
    is_doubled: bool = False


def list_account(known: KnownAccount | None, listed: ListedAccount) -> KnownAccount | None:
    """Return an account after a record of it; None if there is only a malformed one.

    A malformed record says that the account is listed, and nothing else.
    """
    page = listed.page
    if listed.status is None or listed.ig_username is None or listed.public_id is None:
        if known is None:
            return None
        account = known.account
        listed = ListedAccount(account.listed_as, account.ig_username, account.public_id, account.status, page)
        return list_account(known, listed)
    before = None if known is None else known.account
    values = {STATUS: listed.status, NAME: listed.ig_username}
    periods: list[Period] = []
    for attribute, value in values.items():
        so_far = () if known is None else tuple(p for p in known.periods if p.attribute == attribute)
        periods.extend(_begin_period(so_far, attribute, value, listed))
    [since] = (period.valid_from for period in periods if period.attribute == STATUS and period.valid_to is None)
    is_listed_again = before is not None and before.seen_seq >= page.began_seq
    account = Account(
        listed.account_id,
        listed.listed_as,
        listed.ig_username,
        listed.public_id,
        listed.status,
        since,
        page.received_at if before is None else before.first_seen_at,
        page.run_seq,
        page.seq,
        page.seq if before is None or before.removed_at is not None else before.present_seq,
        page.received_at,
    )
    differs = before is not None and (before.status, before.ig_username) != (listed.status, listed.ig_username)
    return KnownAccount(account, tuple(periods), is_listed_again and differs)


def _begin_period(periods: Sequence[Period], attribute: str, value: str, listed: ListedAccount) -> Sequence[Period]:
    page = listed.page
    if periods and periods[-1].value == value:
        return periods
    if periods and periods[-1].seq >= page.began_seq and periods[-1].value != REMOVED:
        # An earlier record of the same catalogue began this period; it does not count any more.
        periods = periods[:-1]
        if periods and periods[-1].value == value:
            return [*periods[:-1], replace(periods[-1], valid_to=None)]
    ended = [replace(period, valid_to=period.valid_to or page.received_at) for period in periods]
    if periods:
        ended[-1] = replace(ended[-1], valid_to=page.received_at)
    begun = Period(listed.account_id, attribute, value, page.received_at, None, page.seq, page.run_seq)
    return [*ended, begun]
