"""Keys and joins of the snapshot's tables and views, for people and for other tools; DuckDB has no constraints."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_ITEM = ("account_id", "surface", "media_id")


@dataclass(frozen=True, slots=True)
class Join:
    """Columns by which a table is joined with another one, where they have the same names.

    `always`: each row has its counterpart there.
    """

    table: str
    columns: tuple[str, ...]
    always: bool = True


@dataclass(frozen=True, slots=True)
class Relation:
    """What makes a row one of its kind, and where its columns lead.

    `nullable` are columns of the key that may be NULL. With `is_unique` False rows of equal key are possible: an item
    that stands twice on a page, with different content, has two versions of one instant.
    """

    key: tuple[str, ...] = ()
    joins: tuple[Join, ...] = ()
    nullable: tuple[str, ...] = ()
    is_unique: bool = True


_ACCOUNT = Join("accounts", ("account_id",))
# The catalogue's rows have the empty text for an account.
_ANY_ACCOUNT = Join("accounts", ("account_id",), always=False)
_OF_ITEM = (Join("media", _ITEM), _ACCOUNT)
_OF_POST = (Join("media", ("account_id", "media_id")), _ACCOUNT)

CHILD = Relation((*_ITEM, "position"), _OF_ITEM)
"""Every table of children: media_children, and one for each other array of objects that items carry."""

RELATIONS: Mapping[str, Relation] = MappingProxyType(
    {
        "accounts": Relation(("account_id",)),
        "account_status_history": Relation(("account_id", "valid_from"), (_ACCOUNT,), is_unique=False),
        "media": Relation(_ITEM, (_ACCOUNT,)),
        "media_superseded": Relation((*_ITEM, "valid_from"), _OF_ITEM, is_unique=False),
        "media_metrics": Relation((*_ITEM, "metric", "observed_at"), _OF_ITEM, is_unique=False),
        "media_children": CHILD,
        "fields": Relation(("resource", "path")),
        "quarantine": Relation((), (Join("runs", ("run_id",), always=False), _ANY_ACCOUNT)),
        "runs": Relation(("run_id",)),
        "run_outcomes": Relation(
            ("run_id", "resource", "account_id", "surface"), (Join("runs", ("run_id",)), _ANY_ACCOUNT)
        ),
        "run_warnings": Relation(("run_id", "code"), (Join("runs", ("run_id",)),)),
        "completed_scans": Relation(("resource", "account_id", "surface"), (_ANY_ACCOUNT,)),
        "gaps": Relation(("account_id", "surface"), (_ACCOUNT,)),
        "published": Relation(("snapshot_at",)),
        "freshness": Relation(("account_id", "surface"), (_ACCOUNT,)),
        "expired_accounts": Relation(("account_id",), (_ACCOUNT,)),
        "media_history": Relation((*_ITEM, "valid_from"), _OF_ITEM, is_unique=False),
        "posting_cadence": Relation(("account_id",), (_ACCOUNT,)),
        "stale_accounts": Relation(("account_id",), (_ACCOUNT,)),
        "engagement_by_day": Relation(("account_id", "day"), (_ACCOUNT,)),
        "post_growth": Relation(("account_id", "media_id", "metric"), _OF_POST),
        "stories_by_day": Relation(("account_id", "day"), (_ACCOUNT,)),
        "post_performance": Relation(("account_id", "media_id"), _OF_POST),
        "best_hour": Relation(("weekday", "hour")),
        "best_hour_by_account": Relation(("account_id", "weekday", "hour"), (_ACCOUNT,), nullable=("weekday", "hour")),
    }
)
