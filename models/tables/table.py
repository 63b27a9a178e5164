"""What a declaration of a table consists of, and the SQL that creates the table."""

from dataclasses import dataclass

# Long, distinct texts: zstd needs half of the space of the compression that DuckDB would choose, and less CPU time.
_PACKED = frozenset({"payload", "permalink", "media_url"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column with DuckDB's name of its type."""

    name: str
    type: str
    comment: str
    nullable: bool = True

    @property
    def definition(self) -> str:
        """The column in CREATE TABLE."""
        null = "" if self.nullable else " NOT NULL"
        packed = " USING COMPRESSION zstd" if self.name in _PACKED else ""
        return f'"{self.name}" {self.type}{null}{packed}'


@dataclass(frozen=True, slots=True)
class Table:
    """A table and its columns in order.

    `sorted_by` is the order of its rows in a compacted file.
    """

    name: str
    columns: tuple[Column, ...]
    comment: str
    schema: str = "main"
    sorted_by: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name, with the schema unless that is `main`."""
        return self.name if self.schema == "main" else f"{self.schema}.{self.name}"

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns in order."""
        return tuple(column.name for column in self.columns)

    @property
    def create(self) -> str:
        """The statement that creates it, without comments."""
        return f"CREATE TABLE {self.full_name} ({', '.join(column.definition for column in self.columns)})"


def by_full_name(*tables: Table) -> dict[str, Table]:
    """Return the tables by their full names, in alphabetical order."""
    return {table.full_name: table for table in sorted(tables, key=lambda each: each.full_name)}
