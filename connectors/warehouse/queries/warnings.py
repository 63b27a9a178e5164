"""What a person should know about a run beyond its outcomes, as merged."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.items import read_registry
from connectors.warehouse.storage.quoting import quoted
from connectors.warehouse.storage.statements import statements
from models.mapping import Mapping as MediaMapping
from models.views import MEDIA

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class MissingAccounts:
    """Known accounts that the last complete catalogue did not list; about `undecided` of them it decided nothing."""

    missing: int
    known: int
    undecided: int
    is_empty: bool
    names: Sequence[str]


def find_missing_accounts(db: DuckDBPyConnection) -> MissingAccounts:
    """Return which known accounts are missing from the catalogue."""
    [(missing, known, undecided, is_empty, names)] = db.execute(_SQL["missing_accounts"]).fetchall()
    return MissingAccounts(missing, known, undecided, bool(is_empty), names or ())


def read_scan_findings(db: DuckDBPyConnection) -> Mapping[str, Sequence[str]]:
    """Return the accounts, or their names, with records that contradict each other, by finding."""
    return dict(db.execute(_SQL["findings"]).fetchall())


def read_names(db: DuckDBPyConnection, account_ids: Collection[str]) -> Sequence[str]:
    """Return the names of accounts."""
    return [name for (name,) in db.execute(_SQL["names"], [list(account_ids)]).fetchall()]


def find_lone_change(db: DuckDBPyConnection, run_seqs: Collection[int], *, accounts: int) -> str | None:
    """Return the column, or the path of the field, that alone changed most items in each of these runs.

    Each listed this number of accounts.
    """
    found = db.execute(_SQL["changed_alone"], [list(run_seqs), accounts]).fetchone()
    return None if found is None else found[0]


def count_unread_values(db: DuckDBPyConnection, mapping: MediaMapping) -> Mapping[str, int]:
    """Return how many listed items have a value for a mapped column that is not of its type, by column.

    The column is NULL then, and the value is that of a field.
    """
    registry = read_registry(db)
    counts = Counter[str]()
    for column in mapping.columns:
        held = [registry[MEDIA, path].column_name for path in column.paths if (MEDIA, path) in registry]
        if names := [quoted(name) for name in held if name is not None]:
            has_one = " OR ".join(f"{name} IS NOT NULL" for name in names)
            query = _SQL["not_read"].format(column=quoted(column.column), has_one=has_one)
            [(items,)] = db.execute(query).fetchall()
            counts[column.column] += items
    return +counts
