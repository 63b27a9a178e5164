"""Accounts that `gramhouse forget` erased: recognized by a salted hash, because their ids are not stored."""

import re
from dataclasses import dataclass, replace
from hashlib import blake2b

from pydantic_core import to_json

from models.api import UUID, Account, AccountPage
from models.page_commit import RejectedRecord

FORGOTTEN = "forgotten"


def mark_of(account_id: str, salt: str) -> str:
    """Return the mark of an account: a hash of the salt and its id, a UUID in any case (API 2)."""
    digest = blake2b(account_id.lower().encode(), key=salt.encode(), digest_size=16).hexdigest()
    return f"{FORGOTTEN}-{digest}"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The marks of the accounts that were erased, and the salt of their hashes, which is empty if there are none."""

    salt: str = ""
    marks: frozenset[str] = frozenset()

    def marks_in(self, text: str) -> set[str]:
        """Return the marks of the erased accounts whose ids a text contains."""
        return {mark_of(found[0], self.salt) for found in re.finditer(UUID, text)} & self.marks


def without_forgotten(page: AccountPage, forgotten: Forgotten) -> tuple[AccountPage, set[str]]:
    """Return a page (API 4.1) without the records of erased accounts, and the marks of these accounts.

    A rejected record is left out if its text contains such an id.
    """
    valid, rejected = iter(page.accounts), {record.position: record for record in page.rejected}
    read: list[Account | RejectedRecord] = [rejected.get(position) or next(valid) for position in range(page.items)]
    marks = [forgotten.marks_in(one.id if isinstance(one, Account) else one.payload) for one in read]
    if not any(marks):
        return page, set()
    kept = [(one, raw) for one, raw, found in zip(read, page.records, marks, strict=True) if not found]
    records = tuple(raw for _, raw in kept)
    without = replace(
        page,
        accounts=tuple(one for one, _ in kept if isinstance(one, Account)),
        rejected=tuple(
            replace(one, position=position) for position, (one, _) in enumerate(kept) if isinstance(one, RejectedRecord)
        ),
        received=b'{"items":[' + b",".join(records) + b'],"next_cursor":' + to_json(page.next_cursor) + b"}",
        records=records,
    )
    return without, set().union(*marks)
