"""The files that gramhouse keeps: which of them belong together, and with which service.

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
