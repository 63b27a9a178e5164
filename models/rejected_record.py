"""A record of a page that cannot become a row."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that goes to quarantine: its position on the page, from 0, the reason, and its JSON text.

    Without a position it is the whole page.

    `account_id` is the id of an account with a valid id and another invalid field. If that field is the status alone,
    with a value that is unknown (API 3), `unknown_status` is this value.
    """

    position: int | None
    reason: str
    payload: str
    account_id: str | None = None
    unknown_status: str | None = None
