"""The tables of the warehouse as `tables.sql` declares them: names, types, descriptions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

_SQL = files(__package__).joinpath("tables.sql").read_text(encoding="utf-8")

_TABLE = re.compile(
    r"(?P<comment>(?:-- .+\n)+?)(?:-- order: (?P<order>.+)\n)?"
    r"(?P<create>CREATE TABLE (?P<name>[\w.]+) \(\n(?: {4}.+\n)+\));"
)
_COLUMN = re.compile(r"^    (?P<name>\w+) (?P<type>[\w\[\]]+).*?  -- (?P<comment>.+(?:\n {5,}-- .+)*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Table:
    """A declared table: its name with the schema, its description, and the statement that creates it.

    `types` and `comments` have DuckDB's type and the description of each column. `order` is the order of its rows in a
    compacted file, empty if any will do.
    """

    name: str
    comment: str
    order: str
    types: Mapping[str, str]
    comments: Mapping[str, str]
    create: str


def _plain(comment: str) -> str:
    return re.sub(r"\s*-- ", " ", comment).strip()


def _table(found: re.Match[str]) -> Table:
    columns = list(_COLUMN.finditer(found["create"]))
    types = {column["name"]: column["type"] for column in columns}
    comments = {column["name"]: _plain(column["comment"]) for column in columns}
    return Table(found["name"], _plain(found["comment"]), found["order"] or "", types, comments, found["create"])


TABLES: Mapping[str, Table] = {found["name"]: _table(found) for found in _TABLE.finditer(_SQL)}
"""All declared tables by their names with the schema."""

ITEM_TABLES = tuple(name.removeprefix("core.") for name in TABLES if f"{name}_superseded" in TABLES)
"""The tables of feeds' items; each has one with earlier versions (`_superseded`) and one with counts (`_metrics`)."""


def of_all_items(columns: str, suffix: str = "") -> str:
    """Return the query for columns of the items of all feeds, or with `_superseded` of the earlier versions."""
    return " UNION ALL ".join(f"SELECT {columns} FROM core.{table}{suffix}" for table in ITEM_TABLES)  # noqa: S608
