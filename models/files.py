"""The files that gramhouse keeps: which of them belong together, and with which service; and their errors.

The state and the warehouse share a token. It is random, and new with each opening. With a file that was restored or
copied alone, pages would be fetched twice, or landing numbers be taken that rows have already.
"""

from dataclasses import dataclass

NEW = ""
"""The token of a file that was never opened for writing."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a file says about itself.

    `seq` is the last landing number: of the state, the last one that was taken, of the warehouse, the last one that is
    merged. `before` is the token that a file had before, while the other file may still have it. Of the state alone:
    `salt`, of the hashes of hidden values, and `base_url`, the service that the data comes from; None before any page.
    """

    token: str
    seq: int
    before: str | None = None
    salt: str = ""
    base_url: str | None = None


def find_mismatch(state: Identity, warehouse: Identity) -> str | None:
    """Return which file does not belong to the other one, in words with the fix; None if they belong together.

    A process that was killed between writing the two tokens leaves a warehouse whose token before is the state's.
    """
    if state.token in (warehouse.token, warehouse.before) and warehouse.seq <= state.seq:
        return None
    fix = "restore both from one backup"
    if state.token == NEW:
        return f"{{state}} is missing, but {{warehouse}} was written with one. Fix: restore it, or {fix}."
    if warehouse.token == NEW:
        return (
            "{warehouse} is missing, but {state} was written with one. Fix: restore it (is its disk mounted?), or"
            " move {state} away to begin with an empty warehouse."
        )
    return (
        f"{{state}} and {{warehouse}} do not belong together: one of them was restored or copied alone. Fix: {fix}."
        " Nothing was changed."
    )


def service_refusal(bound: str | None, base_url: str) -> str | None:
    """Return why data that came from an address is not continued from another one; None if it is the same.

    Addresses are normalized by `connectors.source.network.check_base_url`.
    """
    if bound in {None, base_url}:
        return None
    return (
        f"This warehouse was filled from {bound}, but the configured address is {base_url}. Fix: set"
        " GRAMHOUSE_BASE_URL back, use another warehouse, or accept the new address with `gramhouse sync --rebind`."
    )


class WarehouseError(Exception):
    """A problem of the warehouse, or of the files that belong to it, that a person can fix."""


class WarehouseUnusable(WarehouseError):  # noqa: N818 - a state of the file, not a bug
    """The warehouse, its state or its raw store cannot be opened, read or written, or does not belong here."""


class WarehouseBusy(WarehouseError):  # noqa: N818 - a state of the file, not a bug
    """Another process holds the file."""


class SnapshotHides(WarehouseUnusable):
    """The snapshot is not replaced, because the next one would show what it hides."""


class OtherService(WarehouseError):  # noqa: N818
    """The warehouse was filled from another service address than the one configured."""


class SnapshotMissing(WarehouseError):  # noqa: N818
    """No snapshot has been published yet."""


class SnapshotUnreadable(WarehouseError):  # noqa: N818
    """A query of gramhouse fails in the snapshot."""

    def __init__(self, why: Exception | str) -> None:
        what = "This version of gramhouse cannot read the snapshot. DuckDB says"
        super().__init__(f"{what}: {first_line(why)}. Fix: publish a new one with `gramhouse publish`.")


class QueryError(Exception):
    """A user's query failed or was refused; no problem of a file."""


def first_line(error: Exception | str) -> str:
    """Return the first line of an error's text without its full stop, or the error's type if it has no text."""
    text = str(error).strip()
    return (text.splitlines()[0] if text else type(error).__name__).rstrip(".!")
