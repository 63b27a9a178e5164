"""Keys and joins of the snapshot's tables and views, for users and other tools; the file has no constraints."""

from dataclasses import dataclass

ITEM = ("account_id", "surface", "media_id")


@dataclass(frozen=True, slots=True)
class Join:
    """Columns that join a table with `table`; they have the same names in both.

    `always`: every row has a matching row in `table`.
    """

    table: str
    columns: tuple[str, ...]
    always: bool = True


@dataclass(frozen=True, slots=True)
class Relation:
    """The key and the joins of a table or view.

    `nullable` are columns of the key that may be NULL. If `is_unique` is False, rows with equal keys are possible: an
    item that occurs twice on a page, with different content, has two versions with the same time.
    """

    key: tuple[str, ...] = ()
    joins: tuple[Join, ...] = ()
    nullable: tuple[str, ...] = ()
    is_unique: bool = True


ACCOUNT = Join("accounts", ("account_id",))
# In rows of the catalogue, account_id is an empty string.
ANY_ACCOUNT = Join("accounts", ("account_id",), always=False)
OF_ITEM = (Join("media", ITEM), ACCOUNT)
OF_POST = (Join("media", ("account_id", "media_id")), ACCOUNT)

CHILD = Relation((*ITEM, "position"), OF_ITEM)
"""Every table of children: media_children, and one for each other array of objects that items carry."""
