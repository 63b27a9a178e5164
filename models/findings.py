"""A finding: something that a person should know about a run or the data."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

TOKEN_EXPIRED = "token_expired"  # noqa: S105 - a code, not a password


class Severity(StrEnum):
    """Whether a finding requires an action of the operator: yes, perhaps, or not."""

    ACTION = "action"
    WARNING = "warning"
    INFORMATION = "information"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: `text` is the cause, `fix` what to do about it, both without a full stop; `accounts` are usernames.

    `code` is a word for programs, and `count` the number of what it is about. An account without a name, and the
    account catalogue, are not among `accounts`. Texts from the API are included as they are: the output that shows a
    finding makes them harmless.
    """

    code: str
    severity: Severity
    text: str
    fix: str = ""
    accounts: tuple[str, ...] = ()
    count: int = 1

    def sentence(self, named: int = 5) -> str:
        """Return the cause, the names of up to `named` accounts, and the fix."""
        names = f" ({several(self.accounts, named)})" if self.accounts else ""
        return f"{self.text}{names}.{f' Fix: {self.fix}.' if self.fix else ''}"


def several(names: Sequence[str], named: int = 5) -> str:
    """Return the first names, and the number of the rest: `anna, ben and 28 more`."""
    more = f" and {len(names) - named:,} more" if len(names) > named else ""
    return ", ".join(names[:named]) + more
