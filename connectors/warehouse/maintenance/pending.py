"""What is being erased, in a file next to the warehouse, so that an interrupted erasure can be completed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from connectors.warehouse.storage.durable import replace_file, sync
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.paths import real
from connectors.warehouse.storage.quoting import literal

ACTIVITY = "gramhouse forget"


@dataclass(frozen=True, slots=True)
class Account:
    """An account to erase: its id, and its name and public id if they are stored."""

    account_id: str
    names: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """Return the id and the names, in lower case."""
        return tuple(word.lower() for word in (self.account_id, *self.names))

    @property
    def name(self) -> str:
        """Return its name, or its id."""
        return (*self.names, self.account_id)[0]


@dataclass(frozen=True, slots=True)
class Erasure:
    """Accounts that are being erased, and the number of rows that they had, by table."""

    accounts: tuple[Account, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)

    @property
    def ids(self) -> str:
        """Return the ids as an SQL list."""
        return ", ".join(literal(account.account_id) for account in self.accounts)


def pending_path(warehouse: Path) -> Path:
    """Return the path of the file with what is being erased; it does not exist if nothing is."""
    path = real(warehouse)
    return path.with_name(f"{path.name}.forget.json")


def unfinished(warehouse: Path) -> str | None:
    """Return what a person should know about an erasure that was interrupted, or None."""
    if not pending_path(warehouse).exists():
        return None
    return "An account is not completely erased. Fix: run the interrupted `gramhouse forget` again."


def pending(warehouse: Path) -> Erasure:
    """Return what an interrupted erasure has left to do. Raises WarehouseUnusable if its file cannot be read."""
    path = pending_path(warehouse)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Erasure)
    except FileNotFoundError:
        return Erasure()
    except (OSError, msgspec.MsgspecError) as error:
        raise WarehouseUnusable(
            f"{path} cannot be read: {error}. Fix: remove it, and run `gramhouse forget` with the account's id."
        ) from error


def finish(warehouse: Path) -> None:
    """Remove the file with what was erased, durably. Raises OSError."""
    path = pending_path(warehouse)
    path.unlink(missing_ok=True)
    sync(path.parent)


def save(warehouse: Path, erasure: Erasure) -> None:
    """Write what is being erased, durably. Raises OSError."""
    replace_file(pending_path(warehouse), msgspec.json.encode(erasure))
