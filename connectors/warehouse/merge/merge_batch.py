"""The temporary tables and views of one merge: created under a name, passed on by that name, dropped at the end."""

from dataclasses import dataclass
from typing import Any

from connectors.warehouse.ingest.registered import ArrowTables
from connectors.warehouse.storage.connection import Connection, value


@dataclass(frozen=True, slots=True)
class MediaItems:
    """Relations with the media items of a batch.

    `sightings` are all items of its pages, and `stored` the rows of their partitions. `found` are the items that were
    decoded, `to_compare` those of them that may be unchanged, `changed_keys` the order keys of observations that differ
    from the item's previous one, and `rejected_payloads` the texts of items without a valid id; None if there are none.
    """

    sightings: str
    stored: str
    found: str | None = None
    to_compare: str | None = None
    changed_keys: str | None = None
    rejected_payloads: str | None = None


@dataclass(frozen=True, slots=True)
class ComparedItems:
    """Relations with the items of a merge that may be unchanged.

    `decoded` are their values, `hashes` the hashes of their content and counts by `order_key`, `stored_hashes` those of
    stored rows by `stored`, the rowid. `changed_keys` are the order keys of observations that differ from the item's
    previous one, `changed_items` the decoded values of these.
    """

    decoded: str
    hashes: str
    stored_hashes: str
    changed_keys: str
    changed_items: str


class MergeBatch:
    """Owns the relations of one merge, in the open transaction.

    In the SQL that its methods execute, `{name}` stands for the keyword argument `name`: the name of a relation, or an
    SQL expression.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.db = connection.db
        self.arrow = ArrowTables(connection.db)
        self._kinds: dict[str, str] = {}

    def table(self, name: str, query: str, /, **inputs: object) -> str:
        """Create or replace a table with the rows of a query; return its name."""
        return self._create("TABLE", name, f"AS {query.format(**inputs)}")

    def copy(self, name: str, rows: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        """Create or replace a table with the rows of an Arrow table: DuckDB takes 0.7 ms for each read of one."""
        self.db.register("arrow_rows", rows)
        self.table(name, "FROM arrow_rows")
        self.db.unregister("arrow_rows")

    def empty(self, name: str, columns: str) -> str:
        """Create or replace a table without rows; `columns` are their names and types. Return its name."""
        return self._create("TABLE", name, f"({columns})")

    def view(self, name: str, query: str, /, **inputs: object) -> str:
        """Create or replace a view of a query; return its name."""
        return self._create("VIEW", name, f"AS {query.format(**inputs)}")

    def _create(self, kind: str, name: str, definition: str) -> str:
        self.db.execute(f"CREATE OR REPLACE TEMP {kind} {name} {definition}")
        self._kinds[name] = kind
        return name

    def run(self, *statements: str, **inputs: object) -> None:
        """Execute statements, one after the other."""
        for statement in statements:
            self.db.execute(statement.format(**inputs))

    def rows(self, query: str, /, **inputs: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.db.execute(query.format(**inputs)).fetchall()

    def value(self, query: str, /, **inputs: object) -> Any:  # noqa: ANN401 - a value of any type
        """Return the first value of a query's first row."""
        return value(self.db, query.format(**inputs))

    def is_any(self, relation: str) -> bool:
        """Return whether a relation has rows."""
        return bool(value(self.db, f"SELECT EXISTS (FROM {relation})"))

    def release(self) -> None:
        """Drop all relations: temporary ones stay in memory until the connection is closed."""
        drops = [f"DROP {kind} temp.{name}" for name, kind in self._kinds.items()]
        # In one call: one by one, such small statements take longer.
        self.db.execute(";\n".join(drops))
        self._kinds.clear()
        self.arrow.drop()
