"""The analysts' tables: views of the snapshot, one .sql file each.

The comment at the top of a file describes the view, and the comment after a selected column describes the column. Lines
`-- key: ` and `-- join: ` name the view's key, and views that can be joined. The snapshot has no constraints: tests
check keys and joins. Parts in braces are filled when a snapshot is published
(`connectors/warehouse/publish/contents.py`), `{inferred}` with the columns of fields that the API's contract does not
specify. `{surfaces}` is the list of the declared feeds: views of how fresh data are leave out others.

The folder macros has tables of a time, which are called with it: `FROM media_at('2026-11-23')`.

Columns of items may have any name, but names of inferred columns begin with no underscore, except before a digit. So a
name that a query gives a column, or uses without a table's name, beside such columns begins with one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from graphlib import TopologicalSorter
from importlib.resources import files

from models.feeds import SURFACES

MEDIA, CHILDREN = "media", "media_children"


@dataclass(frozen=True, slots=True)
class Join:
    """Columns that join a view with the view `table`; they have the same names in both.

    `always`: every row has a matching row in `table`.
    """

    table: str
    columns: tuple[str, ...]
    always: bool = True


@dataclass(frozen=True, slots=True)
class Relation:
    """The key and the joins of a view.

    `nullable` are columns of the key that may be NULL. If `is_unique` is False, rows with equal keys are possible: an
    item that occurs twice on a page, with different content, has two versions with the same time.
    """

    key: tuple[str, ...] = ()
    joins: tuple[Join, ...] = ()
    nullable: tuple[str, ...] = ()
    is_unique: bool = True


@dataclass(frozen=True, slots=True)
class View:
    """A view of the snapshot: its description, the description of each column by name, and its query.

    `parameter` is that of a table macro, which is called with a value for it; None for a view.
    """

    name: str
    relation: Relation
    comment: str
    columns: Mapping[str, str]
    select: str
    parameter: str | None = None

    @property
    def reads(self) -> list[str]:
        """Return the names after FROM and JOIN: other views, and parts of the query."""
        return re.findall(r"\b(?:FROM|JOIN) (\w+)\b(?!\.)", self.select)


_HEAD = re.compile(r"\A(?:-- .*\n)*")
_TAG = re.compile(r"(?P<tag>key|join)(?P<note>, not [\w ]+)?: (?P<what>.+)")

# The last word before the comment is the column's name: `a.status,  -- active`, `count(*) AS posts  -- All posts.`
_COLUMN = re.compile(r"(\w+),?  -- (.+(?:\n {5,}-- .+)*)$", re.MULTILINE)
_COMMENT = re.compile(r"\s+-- .+$", re.MULTILINE)

# Columns of items that no view has.
_INTERNAL = frozenset(
    {
        *("overflow", "content_hash", "payload_hash", "raw_landed", "raw_position", "first_run_seq"),
        *("seen_seq", "present_seq", "missed_at", "confirmed_by", "content", "changed"),
    }
)

# What statements of the merge call their own columns, beside those of fields.
_OF_MERGES = frozenset(
    {
        *("n", "row", "seq", "began_seq", "received_at", "position", "item", "counts", "before", "content_before"),
        *("is_new", "is_content", "is_changed", "is_last", "is_same_id", "is_missed", "is_removed"),
    }
)


def _relation(tags: list[re.Match[str]]) -> Relation:
    names = [name for found in tags if found["tag"] == "key" for name in found["what"].split(", ")]
    joins = [(*found["what"].split(" by "), not found["note"]) for found in tags if found["tag"] == "join"]
    return Relation(
        tuple(name.removesuffix(" or NULL") for name in names),
        tuple(Join(table, tuple(columns.split(", ")), always) for table, columns, always in joins),
        tuple(name.removesuffix(" or NULL") for name in names if name.endswith(" or NULL")),
        is_unique=not any(found["tag"] == "key" and found["note"] for found in tags),
    )


def _read(name: str, text: str) -> View:
    query = _HEAD.sub("", text).strip().replace("{surfaces}", str(list(SURFACES)))
    lines = [line.removeprefix("-- ") for line in text.splitlines() if line.startswith("-- ")]
    tags = [found for line in lines if (found := _TAG.fullmatch(line))]
    comment = " ".join(line for line in lines if not _TAG.fullmatch(line))
    columns = {column: re.sub(r"\n +-- ", " ", about) for column, about in _COLUMN.findall(query)}
    return View(name, _relation(tags), comment, columns, _COMMENT.sub("", query))


@cache
def views() -> Mapping[str, View]:
    """Return the views by name, in the order in which they can be created: each after those that it reads."""
    texts = {path.name: path.read_text("utf-8") for path in files(__package__).iterdir() if path.name.endswith(".sql")}
    found = [_read(name.removesuffix(".sql"), text) for name, text in sorted(texts.items())]
    by_name = {view.name: view for view in found}
    order = TopologicalSorter({view.name: [one for one in view.reads if one in by_name] for view in found})
    return {name: by_name[name] for name in order.static_order()}


@cache
def macros() -> Mapping[str, View]:
    """Return the table macros by name. Each has the parameter `t`, a time, and may read all views."""
    folder = files(__package__).joinpath("macros")
    texts = {path.name.removesuffix(".sql"): path.read_text("utf-8") for path in folder.iterdir()}
    return {name: replace(_read(name, text), parameter="t") for name, text in sorted(texts.items())}


def own_columns(resource: str) -> set[str]:
    """Return the column names of the items, or of their children, that columns of fields must not use."""
    names = (resource, f"{resource}_superseded", f"{resource}_history")
    found = {column for name in names if name in views() for column in views()[name].columns}
    return found if resource == CHILDREN else found | _INTERNAL | _OF_MERGES
