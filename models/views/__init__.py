"""The analysts' views, one .sql file each.

The comment at its head says what the view answers; the one behind a column of its SELECT says what the column is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import takewhile


@dataclass(frozen=True, slots=True)
class View:
    """A view of the snapshot: `comment` is what it answers, `columns` what each is, `select` the query behind it."""

    name: str
    comment: str
    columns: Mapping[str, str]
    select: str


# In the order of their making: a view may read those before it.
_ORDER = (
    "freshness",
    "expired_accounts",
    "posting_cadence",
    "stale_accounts",
    "engagement_by_day",
    "post_growth",
    "stories_by_day",
    "post_performance",
    "best_hour",
    "best_hour_by_account",
)

# The last word of a select-list's line is the column's name: `a.status,`, `count(*) AS posts`.
_COLUMN = re.compile(r"(\w+),?  -- (.+)$", re.MULTILINE)


def _read(name: str) -> View:
    text = files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    head = list(takewhile(lambda line: line.startswith("-- "), text.splitlines(keepends=True)))
    comment = " ".join(line.removeprefix("-- ").strip() for line in head)
    query = text[len("".join(head)) :].strip()
    return View(name, comment, dict(_COLUMN.findall(query)), re.sub(r"  -- .+$", "", query, flags=re.MULTILINE))


@cache
def views() -> tuple[View, ...]:
    """Return the views in the order in which they can be made."""
    return tuple(_read(name) for name in _ORDER)
