"""The analysts' file: the public schema `main`, in which everything except for `published` is a view."""

from models.tables.columns import (
    FULL_SHARE,
    account,
    account_id,
    account_life,
    child,
    completed_scan,
    field,
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
from models.tables.table import Table, by_full_name

accounts = Table(
    "accounts",
    (
        *account(),
        instant(
            "token_expired_since", "When a sync first saw the token expired; NULL if the status is not token_expired."
        ),
        *account_life(),
        instant(
            "missing_since",
            "When a complete scan of the catalogue first missed it, if its removal awaits confirmation.",
        ),
    ),
    relation=Relation(("account_id",)),
    comment="Accounts, one row each, as the API last listed them.",
)

account_status_history = Table(
    "account_status_history",
    (
        account_id(),
        status(),
        *status_period(),
    ),
    relation=Relation(("account_id", "valid_from"), (ACCOUNT,), is_unique=False),
    comment="Every status an account has had, one row per period.",
)

media = Table(
    "media",
    (
        account_id(),
        surface(),
        media_id(),
        text("ig_username", "The account's current name on the social network."),
        *media_content(),
        instant("first_seen_at", "When a sync first saw it.", nullable=False),
        instant("last_seen_at", "When a scan last saw it.", nullable=False),
        instant("changed_at", "When its content or a count last changed.", nullable=False),
        instant("content_changed_at", "When its content, without counts, last changed.", nullable=False),
        *removal(),
    ),
    relation=Relation(ITEM, (ACCOUNT,)),
    comment="Media items as last seen, one row each. Removed items are kept, with removed_at set. These columns are "
    "followed by those inferred from other fields of the items.",
)

media_superseded = Table(
    "media_superseded",
    (
        account_id(),
        surface(),
        media_id(),
        *version(),
    ),
    relation=Relation((*ITEM, "valid_from"), OF_ITEM, is_unique=False),
    versions_of="media",
    comment="Earlier versions of the content of items, one row each; media_history also has the current versions. "
    "These columns are followed by those inferred from other fields of content.",
)

media_history = Table(
    "media_history",
    (
        account_id(),
        surface(),
        media_id(),
        instant("valid_from", "When a sync first saw this version.", nullable=False),
        instant("valid_to", "When a sync first saw the next version; NULL for the current one."),
        *version_content(),
    ),
    relation=Relation((*ITEM, "valid_from"), OF_ITEM, is_unique=False),
    versions_of="media",
    comment="Every version of the content of every item, one row each; valid_to is NULL for the current version. "
    "A version has the values last stored for it. Counts are in media_metrics. Of children, only the current ones are "
    "kept, in separate tables. These columns are followed by those inferred from other fields of content.",
)

media_metrics = Table(
    "media_metrics",
    (
        account_id(),
        surface(),
        media_id(),
        *metric(),
    ),
    relation=Relation((*ITEM, "metric", "observed_at"), OF_ITEM, is_unique=False),
    comment="Counts of media items over time, one row for each change of a count.",
)

media_children = Table(
    "media_children",
    (
        *child(),
        *media_child(),
    ),
    relation=CHILD,
    comment="Children of media items (such as the pictures of a carousel), one row each. These columns are followed by "
    "those inferred from other fields of the children.",
)

fields = Table(
    "fields",
    field(),
    relation=Relation(("resource", "path")),
    comment="Every field received that the API's contract does not specify, and the column that holds it.",
)

quarantine = Table(
    "quarantine",
    quarantined(),
    relation=Relation((), (Join("runs", ("run_id",), always=False), ANY_ACCOUNT)),
    comment="Records that could not become rows, one row each, with the response that first contained them.",
)

runs = Table(
    "runs",
    run(*run_counts()),
    relation=Relation(("run_id",)),
    comment="Runs, one row each; and a row of kind totals for runs no longer listed, so that sums include all runs.",
)

run_outcomes = Table(
    "run_outcomes",
    outcome(),
    relation=Relation(("run_id", "resource", "account_id", "surface"), (Join("runs", ("run_id",)), ANY_ACCOUNT)),
    comment="The outcomes of partitions in runs, one row each. Of runs that are older than 7 days and not among the"
    " last 30, a successful outcome is kept only if it is the partition's last, or differs from the previous one in"
    " that month.",
)

run_warnings = Table(
    "run_warnings",
    run_warning(),
    relation=Relation(("run_id", "code"), (Join("runs", ("run_id",)),)),
    comment="Warnings of runs, one row each, in addition to the outcomes of partitions.",
)

completed_scans = Table(
    "completed_scans",
    (
        *partition(),
        instant("complete_at", "When the last full scan received its last page.", nullable=False),
        *completed_scan(),
        share("full_share", FULL_SHARE),
        whole(
            "items_missing", "Items that the last closed scans did not list, and another one must confirm as removed."
        ),
    ),
    relation=Relation(("resource", "account_id", "surface"), (ANY_ACCOUNT,)),
    comment="The last full scan of each partition, and the last recent scan after it; one row per partition.",
)

gaps = Table(
    "gaps",
    (
        account_id(),
        text("surface", "posts or stories.", nullable=False),
        instant("since", "When the scan began that left the gap.", nullable=False),
        text("cursor", "Cursor of the page that it would request next; NULL if the API refused it."),
        whole("pages", "Pages it landed."),
        instant("read_down_to", "Publication time of the last post that it received; NULL for stories."),
        instant(
            "known_from", "Publication time of the newest item that a closed scan has seen; NULL if there is none."
        ),
        text("reason", "Why it ended: an error code, or interrupted.", nullable=False),
    ),
    relation=Relation(("account_id", "surface"), (ACCOUNT,)),
    comment="Scans of media that ended before they reached the last page or items that a closed scan has seen: items "
    "published between known_from and read_down_to may be missing. The next scan reads them.",
)

published = Table(
    "published",
    (
        instant("snapshot_at", "When this snapshot was published, UTC.", nullable=False),
        text("version", "The version of gramhouse that published it.", nullable=False),
        seconds(
            "stale_after", "GRAMHOUSE_STALE_AFTER in seconds: media not scanned for longer are stale.", nullable=False
        ),
        text("warehouse_id", "Id of the warehouse that published it; the same in all of its snapshots."),
        seconds("full_refresh_every", "GRAMHOUSE_FULL_REFRESH_EVERY, in seconds.", nullable=False),
    ),
    relation=Relation(("snapshot_at",)),
    comment="Properties of this snapshot: one row.",
)

SNAPSHOT = by_full_name(
    accounts,
    account_status_history,
    media,
    media_superseded,
    media_history,
    media_metrics,
    media_children,
    fields,
    quarantine,
    runs,
    run_outcomes,
    run_warnings,
    completed_scans,
    gaps,
    published,
)
