"""Keys and joins of the snapshot's tables and views, for people and for other tools; DuckDB has no constraints."""

from dataclasses import dataclass

ITEM = ("account_id", "surface", "media_id")


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


ACCOUNT = Join("accounts", ("account_id",))
# The catalogue's rows have the empty text for an account.
ANY_ACCOUNT = Join("accounts", ("account_id",), always=False)
OF_ITEM = (Join("media", ITEM), ACCOUNT)
OF_POST = (Join("media", ("account_id", "media_id")), ACCOUNT)

CHILD = Relation((*ITEM, "position"), OF_ITEM)
"""Every table of children: media_children, and one for each other array of objects that items carry."""
