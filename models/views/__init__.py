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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from importlib.resources import files
from itertools import takewhile
from typing import NamedTuple

from models.feeds import SURFACES

MEDIA, CHILDREN = "media", "media_children"


class Join(NamedTuple):
    """Columns that join a view with the view `table`; they have the same names in both.

    `always`: every row has a matching row in `table`.
    """

    table: str
    columns: tuple[str, ...]
    always: bool


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

    A table macro is called with a time, its parameter `t`.
    """

    name: str
    relation: Relation
    comment: str
    columns: Mapping[str, str]
    select: str
    is_macro: bool = False

    @property
    def reads(self) -> list[str]:
        """Return the names after FROM and JOIN: other views, and parts of the query."""
        return re.findall(r"\b(?:FROM|JOIN) (\w+)\b(?!\.)", self.select)


_TAG = re.compile(r"-- (key|join)(, not [\w ]+)?: (.+)")

# The last word before the comment is the column's name: `a.status,  -- active`, `count(*) AS posts  -- All posts.`
_COLUMN = re.compile(r"(\w+),?  -- (.+(?:\n {5,}-- .+)*)$", re.MULTILINE)
_COMMENT = re.compile(r"\s+-- .+$", re.MULTILINE)


def _read(folder: str, *, is_macro: bool = False) -> Iterable[View]:
    for path in sorted(files(__package__).joinpath(folder).iterdir(), key=lambda path: path.name):
        if not path.name.endswith(".sql"):
            continue
        lines = path.read_text("utf-8").replace("{surfaces}", str([*SURFACES])).splitlines()
        head = [*takewhile(lambda line: line.startswith("-- "), lines)]
        query = "\n".join(lines[len(head) :])
        tags = [found.groups() for line in head if (found := _TAG.fullmatch(line))]
        keys = [name for tag, _, names in tags if tag == "key" for name in names.split(", ")]
        joins = [(*what.split(" by "), not note) for tag, note, what in tags if tag == "join"]
        relation = Relation(
            tuple(name.removesuffix(" or NULL") for name in keys),
            tuple(Join(table, tuple(columns.split(", ")), always) for table, columns, always in joins),
            tuple(name.removesuffix(" or NULL") for name in keys if name.endswith(" or NULL")),
            is_unique=not any(note for tag, note, _ in tags if tag == "key"),
        )
        comment = " ".join(line.removeprefix("-- ") for line in head if not _TAG.fullmatch(line))
        columns = {column: re.sub(r"\n +-- ", " ", about) for column, about in _COLUMN.findall(query)}
        yield View(path.name.removesuffix(".sql"), relation, comment, columns, _COMMENT.sub("", query), is_macro)


@cache
def views() -> Mapping[str, View]:
    """Return the views by name, in the order in which they can be created: each after those that it reads."""
    found = {view.name: view for view in _read(".")}
    order = TopologicalSorter({name: [each for each in view.reads if each in found] for name, view in found.items()})
    return {name: found[name] for name in order.static_order()}


@cache
def macros() -> Mapping[str, View]:
    """Return the table macros by name; they may read all views."""
    return {view.name: view for view in _read("macros", is_macro=True)}


# Columns of items that no view has, and what statements of merge and rebuild call their own, beside those of fields.
_INTERNAL = """
overflow content_hash payload_hash raw_landed raw_position first_run_seq seen_seq present_seq missed_at confirmed_by
content changed
n row seq landed began_seq received_at position members counts before is_content is_same_id is_missed is_removed
"""


def own_columns(resource: str) -> set[str]:
    """Return the column names of the items, or of their children, that columns of fields must not use."""
    names = (resource, f"{resource}_superseded", f"{resource}_history")
    found = {column for name in names if name in views() for column in views()[name].columns}
    return found if resource == CHILDREN else found.union(_INTERNAL.split())


# In the order in which they are decided: a reel is a video too, and a carousel has images and videos. Words in lower
# case and without other characters than letters.
_KINDS = {
    "reel": "reel reels clip clips",
    "carousel": "carousel carouselalbum carouselcontainer album sidecar graphsidecar",
    "video": "video graphvideo igtv",
    "image": "image graphimage photo picture",
}

# Fields that tell reels from other videos, or the type where no candidate of `media_type` does.
KIND_PATHS = (
    "/media_product_type", "/mediaProductType", "/product_type", "/productType", "/media/product_type",
    "/media/productType", "/__typename",
)  # fmt: skip


def kind_of(columns: Iterable[str]) -> str:
    """Return the SQL expression for an item's kind, from expressions for the words that name it; NULL if none does."""
    said = [f"regexp_replace(lower({column}::VARCHAR), '[^a-z]', '', 'g')" for column in columns]
    # Not IN: DuckDB joins each row to a long list of values, also for a query that does not read the kind.
    cases = [
        f"WHEN {' OR '.join(f'list_contains({words.split()}, {word})' for word in said)} THEN '{kind}'"
        for kind, words in _KINDS.items()
    ]
    return f"CASE {' '.join(cases)} END"
