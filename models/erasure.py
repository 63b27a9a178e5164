"""What is being erased, a row in the state, so that an interrupted erasure can be completed; and what was. No IO.

Erased accounts are recognized by a salted hash, because their ids are not stored.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain

from pydantic_core import from_json

from models.api import UUID, Page, read_account_page

FORGOTTEN = "forgotten"
ACTIVITY = "gramhouse forget"
OPERATION = "forget"

UNFINISHED = "An account is not completely erased. Fix: run the interrupted `gramhouse forget` again."


@dataclass(frozen=True, slots=True)
class Account:
    """An account to erase: its id, and its names and public id if no other account has these too."""

    account_id: str
    names: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """Return the id and the names, in lower case."""
        return tuple(word.lower() for word in (self.account_id, *self.names))


@dataclass(frozen=True, slots=True)
class Erasure:
    """Accounts that are being erased, and the number of rows that they had, by table."""

    accounts: tuple[Account, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        """Return the ids of the accounts."""
        return [account.account_id for account in self.accounts]

    def with_removed(self, removed: Mapping[str, int]) -> "Erasure":
        """Return the erasure with numbers of rows. After a kill some rows are deleted already: the most counts."""
        return replace(self, removed=Counter(self.removed) | Counter(removed))

    def redact(self, text: str) -> str:
        """Replace ids and names in a text by the word forgotten.

        A name that may be a word of any text, such as `the` or `10`, counts only where a text shows that it is a name:
        alone, in quotes, after an @, or before what was selected of it.
        """
        for word in chain.from_iterable(one.words for one in self.accounts):
            text = _pattern(word).sub(FORGOTTEN, text)
        return text


def _pattern(word: str) -> re.Pattern[str]:
    word = re.escape(word)
    # A name may contain full stops, and be followed by one.
    ends = r"(?!\w|\.\w)"
    if re.search(r"[a-z]", word) and re.search(r"[^a-z]", word):
        return re.compile(rf"(?<![\w.]){word}{ends}", re.IGNORECASE)
    selected = rf"(?:^|(?<=, )){word}(?=(?:, [^()]*)? \([a-z, ]+\)$)"
    shown = rf"""^{word}$|(?<=@){word}{ends}|(?<=["'`]){word}(?=["'`])"""
    return re.compile(f"{shown}|{selected}", re.IGNORECASE)


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


def without_forgotten(page: Page, forgotten: Forgotten) -> Page:
    """Return a page (API 4.1) without the records of erased accounts.

    A rejected record is left out if its text contains such an id, a valid one only if it is its own: other accounts may
    mention it, and one that is left out seems to be missing.
    """
    if not (page.accounts or page.rejected):
        return page
    rejected = {record.position for record in page.rejected}
    of_whom = (raw.decode() if n in rejected else from_json(raw)["id"] for n, raw in enumerate(page.records))
    kept = [raw for raw, text in zip(page.records, of_whom, strict=True) if not forgotten.marks_in(text)]
    return replace(read_account_page(replace(page, records=kept).body), next_cursor=page.next_cursor)
