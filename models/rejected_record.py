"""A record of a page that cannot become a row."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that goes to quarantine: its position on the page, from 0, why, and its JSON text.

    Without a position it is the whole page.

    Where nothing is wrong but an account's status, which is unknown (API 3), `unknown_status` holds it and `account_id`
    the account's id.
    """

    position: int | None
    reason: str
    payload: str
    account_id: str | None = None
    unknown_status: str | None = None
