"""The analysts' file: the public schema `main`, in which everything except for `published` is a view.

In `info`, `relation` is a table's key and joins, and `versions_of` the table whose rows it has versions of.
"""

from sqlalchemy import MetaData, Table

from models.tables.columns import (
    COVERED_FROM,
    FULL_SHARE,
    ITEM_ORDER,
    ORDER_BROKEN_BY,
    RECENT_AT,
    REMOVALS_UNDECIDED_SINCE,
    account,
    account_id,
    account_life,
    child,
    field,
    flag,
    instant,
    media_child,
    media_content,
    media_id,
    metric,
    outcome,
    partition,
    quarantined,
    removal,
    run,
    run_counts,
    run_warning,
    seconds,
    share,
    status,
    status_period,
    surface,
    text,
    version,
    version_content,
    whole,
)
from models.tables.relations import ACCOUNT, ANY_ACCOUNT, CHILD, ITEM, OF_ITEM, Join, Relation

SNAPSHOT = MetaData()

accounts = Table(
    "accounts",
    SNAPSHOT,
    *account(),
    instant("token_expired_since", "When a sync first saw the token expired; NULL while it is active."),
    *account_life(),
    instant("missing_since", "When a complete catalogue first missed it, while its removal awaits confirmation."),
    info={"relation": Relation(("account_id",))},
    comment="Accounts, one row each, as the API last listed them.",
)

account_status_history = Table(
    "account_status_history",
    SNAPSHOT,
    account_id(),
    status(),
    *status_period(),
    info={"relation": Relation(("account_id", "valid_from"), (ACCOUNT,), is_unique=False)},
    comment="Every status an account has had, one row per period.",
)

media = Table(
    "media",
    SNAPSHOT,
    account_id(),
    surface(),
    media_id(),
    text("ig_username", "The account's present name on the social network."),
    *media_content(),
    instant("first_seen_at", "When a sync first saw it.", nullable=False),
    instant("last_seen_at", "When a scan last saw it.", nullable=False),
    instant("changed_at", "When its content or a count last changed.", nullable=False),
    instant("content_changed_at", "When its content, without counts, last changed.", nullable=False),
    *removal(),
    info={"relation": Relation(ITEM, (ACCOUNT,))},
    comment="Media items as last seen, one row each; what is gone stays, marked in removed_at. After these columns "
    "comes one for every other field the items carry.",
)

media_superseded = Table(
    "media_superseded",
    SNAPSHOT,
    account_id(),
    surface(),
    media_id(),
    *version(),
    info={"relation": Relation((*ITEM, "valid_from"), OF_ITEM, is_unique=False), "versions_of": "media"},
    comment="Versions of items' content that another has followed; media_history has the present one, too. After these "
    "columns comes one for every other field of content.",
)

media_history = Table(
    "media_history",
    SNAPSHOT,
    account_id(),
    surface(),
    media_id(),
    instant("valid_from", "When a sync first saw this version.", nullable=False),
    instant("valid_to", "When a sync first saw the next one; NULL for the present version."),
    *version_content(),
    info={"relation": Relation((*ITEM, "valid_from"), OF_ITEM, is_unique=False), "versions_of": "media"},
    comment="Every version of every item's content, one row each, the present one included: valid_to is NULL there. "
    "A version has its values as last written. Counts are in media_metrics; of children, only the present "
    "ones are kept, in their own tables. After these columns comes one for every other field of content that the items "
    "carry, as in media.",
)

media_metrics = Table(
    "media_metrics",
    SNAPSHOT,
    account_id(),
    surface(),
    media_id(),
    *metric(),
    info={"relation": Relation((*ITEM, "metric", "observed_at"), OF_ITEM, is_unique=False)},
    comment="Every count of an item, one row per change.",
)

media_children = Table(
    "media_children",
    SNAPSHOT,
    *child(),
    *media_child(),
    info={"relation": CHILD},
    comment="Children of media items (the pictures of a carousel), one row each; after these columns comes one for "
    "every other field they carry.",
)

fields = Table(
    "fields",
    SNAPSHOT,
    *field(),
    info={"relation": Relation(("resource", "path"))},
    comment="Every field received that the contract does not know, and the column that holds it.",
)

quarantine = Table(
    "quarantine",
    SNAPSHOT,
    *quarantined(),
    info={"relation": Relation((), (Join("runs", ("run_id",), always=False), ANY_ACCOUNT))},
    comment="Records that could not become rows, one row each, with the request that first brought them.",
)

runs = Table(
    "runs",
    SNAPSHOT,
    *run(*run_counts()),
    info={"relation": Relation(("run_id",))},
    comment="Runs, one row each; and one of kind totals for those no longer listed, so that sums are of all runs.",
)

run_outcomes = Table(
    "run_outcomes",
    SNAPSHOT,
    *outcome(),
    info={
        "relation": Relation(("run_id", "resource", "account_id", "surface"), (Join("runs", ("run_id",)), ANY_ACCOUNT))
    },
    comment="The outcomes of partitions in runs, one row each. Of runs older than 7 days and than the last 30 runs, a"
    " success is only listed where it differs from the partition's outcome before.",
)

run_warnings = Table(
    "run_warnings",
    SNAPSHOT,
    *run_warning(),
    info={"relation": Relation(("run_id", "code"), (Join("runs", ("run_id",)),))},
    comment="What a person should know of a run beyond the outcomes of its partitions.",
)

completed_scans = Table(
    "completed_scans",
    SNAPSHOT,
    *partition(),
    instant("complete_at", "When the last full scan received its last page.", nullable=False),
    instant("removals_undecided_since", REMOVALS_UNDECIDED_SINCE),
    instant("recent_at", RECENT_AT),
    instant("covered_from", COVERED_FROM),
    whole("pages", "Pages of the last full scan; NULL where an older version made it."),
    whole("items", "Records on those pages."),
    text("item_order", ITEM_ORDER),
    text("order_broken_by", ORDER_BROKEN_BY),
    share("full_share", FULL_SHARE),
    flag("needs_full", "Whether removals are pending that only a full scan decides."),
    info={"relation": Relation(("resource", "account_id", "surface"), (ANY_ACCOUNT,))},
    comment="When each partition was last scanned to its end, and how far since then.",
)

gaps = Table(
    "gaps",
    SNAPSHOT,
    account_id(),
    text("surface", "posts or stories.", nullable=False),
    instant("since", "When the scan began that did not reach what was known.", nullable=False),
    text("cursor", "Cursor of the page that it would ask for next; NULL where the API refused it."),
    whole("pages", "Pages it landed."),
    instant("read_down_to", "When the last post that it received was published; NULL for stories."),
    instant("known_from", "When the newest item was published that a closed scan has seen; NULL for none."),
    text("reason", "Why it ended: an error code, or interrupted.", nullable=False),
    info={"relation": Relation(("account_id", "surface"), (ACCOUNT,))},
    comment="Scans of media that ended before they reached the last page, or known territory: what was published "
    "between known_from and read_down_to may be missing. The next scan reads it.",
)

published = Table(
    "published",
    SNAPSHOT,
    instant("snapshot_at", "When this snapshot was made, UTC.", nullable=False),
    text("version", "The gramhouse that made it.", nullable=False),
    seconds("stale_after", "GRAMHOUSE_STALE_AFTER: what was scanned longer ago is stale; seconds.", nullable=False),
    text("warehouse_id", "The warehouse it was published from: that one's id, the same in each of its snapshots."),
    seconds("full_refresh_every", "GRAMHOUSE_FULL_REFRESH_EVERY, in seconds.", nullable=False),
    info={"relation": Relation(("snapshot_at",))},
    comment="What this file is: one row.",
)
