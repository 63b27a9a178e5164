"""The analysts' views, one .sql file each.

The comment at the top of a file is the description of the view; the comment after a selected column describes it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import takewhile

from models.tables.relations import ACCOUNT, OF_POST, Relation


@dataclass(frozen=True, slots=True)
class View:
    """A view of the snapshot: its description, the description of each column by name, and its query."""

    name: str
    relation: Relation
    comment: str
    columns: Mapping[str, str]
    select: str


# In order of creation: a view may read those before it.
_RELATIONS = {
    "freshness": Relation(("account_id", "surface"), (ACCOUNT,)),
    "expired_accounts": Relation(("account_id",), (ACCOUNT,)),
    "posting_cadence": Relation(("account_id",), (ACCOUNT,)),
    "stale_accounts": Relation(("account_id",), (ACCOUNT,)),
    "engagement_by_day": Relation(("account_id", "day"), (ACCOUNT,)),
    "post_growth": Relation(("account_id", "media_id", "metric"), OF_POST),
    "stories_by_day": Relation(("account_id", "day"), (ACCOUNT,)),
    "post_performance": Relation(("account_id", "media_id"), OF_POST),
    "best_hour": Relation(("weekday", "hour")),
    "best_hour_by_account": Relation(("account_id", "weekday", "hour"), (ACCOUNT,), nullable=("weekday", "hour")),
}

# The last word of a select-list's line is the column's name: `a.status,`, `count(*) AS posts`.
_COLUMN = re.compile(r"(\w+),?  -- (.+)$", re.MULTILINE)


def _read(name: str, relation: Relation) -> View:
    text = files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    head = list(takewhile(lambda line: line.startswith("-- "), text.splitlines(keepends=True)))
    comment = " ".join(line.removeprefix("-- ").strip() for line in head)
    query = text[len("".join(head)) :].strip()
    return View(
        name, relation, comment, dict(_COLUMN.findall(query)), re.sub(r"  -- .+$", "", query, flags=re.MULTILINE)
    )


@cache
def views() -> tuple[View, ...]:
    """Return the views in the order in which they must be created."""
    return tuple(_read(name, relation) for name, relation in _RELATIONS.items())
