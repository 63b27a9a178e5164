"""Registers Arrow tables with DuckDB; a table replaces an earlier one of the same name in the transaction."""

from dataclasses import dataclass
from typing import Any

from duckdb import DuckDBPyConnection


@dataclass(slots=True)
class _Source:
    table: Any

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class ArrowTables:
    """Tables that replace one another by name.

    DuckDB keeps a reference to every registered object until the transaction ends. Therefore tables with the same name
    and schema share one registered object, and only the last of them stays in memory.
    """

    def __init__(self, db: DuckDBPyConnection) -> None:
        self._db = db
        self._sources: dict[str, _Source] = {}

    def put(self, name: str, table: Any) -> str:  # noqa: ANN401 - pyarrow has no types
        """Register a table with DuckDB under this name; return the name. No other code may register the same name."""
        source = self._sources.get(name)
        if source is not None and source.table.schema == table.schema:
            source.table = table
        else:
            if source is not None:
                source.table = source.table.schema.empty_table()
            self._sources[name] = _Source(table)
            self._db.register(name, self._sources[name])
        return name

    def clear(self) -> None:
        """Empty all tables."""
        for source in self._sources.values():
            source.table = source.table.schema.empty_table()

    def drop(self) -> None:
        """Empty all tables, and remove their names from DuckDB."""
        self.clear()
        for name in self._sources:
            self._db.unregister(name)
        self._sources.clear()
