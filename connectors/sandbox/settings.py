"""The settings of a sandbox, as immutable values."""

from dataclasses import dataclass

from pydantic import Field
from pydantic.dataclasses import dataclass as validated

FIRST_DAY = 1_740_794_400  # 2025-03-01, 02:00 UTC


@validated(frozen=True, slots=True)
class RateLimit:
    """At most ``requests`` per window of ``seconds``, for each tenant scope (API 4, 8)."""

    requests: int = Field(ge=1)
    seconds: float = Field(gt=0, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """All settings of a sandbox. Sandboxes with equal settings serve equal bytes.

    ``accounts`` is their number on day 0, ``posts`` the mean number of posts per account on day 0, and ``stories`` that
    of stories per account on each day. All times of items are relative to ``first_day``, the time of day 0 in epoch
    seconds. Of ``change_every`` accounts, on an average day one leaves, one joins and one token expires; 0: never.
    """

    seed: int = 7
    accounts: int = 40
    posts: int = 60
    stories: int = 2
    day: int = 0
    first_day: int = FIRST_DAY
    change_every: int = 40
