"""API keys: what a credential may do and which accounts it reaches (API 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connectors.sandbox.contract import KEY_SCOPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DEMO_KEY = "sandbox-demo-key"
NO_SCOPE_KEY = "sandbox-no-scope-key"
ONE_ACCOUNT_KEY = "sandbox-one-account-key"
NO_ACCOUNT_KEY = "sandbox-no-account-key"


@dataclass(frozen=True, slots=True)
class Key:
    """A credential: its secret, its scopes, and its accounts.

    ``accounts`` holds ids (uuid strings) or places in the catalogue (ints, 0 is the first account);
    ``None`` grants every account there is and ever will be.
    """

    secret: str = field(repr=False)
    scopes: frozenset[str] = frozenset(KEY_SCOPES)
    accounts: frozenset[str | int] | None = None


BUILT_IN = (
    Key(DEMO_KEY),
    Key(NO_SCOPE_KEY, scopes=frozenset()),
    Key(ONE_ACCOUNT_KEY, accounts=frozenset({0})),
    Key(NO_ACCOUNT_KEY, accounts=frozenset()),
)


@dataclass(frozen=True, slots=True)
class Credential:
    """A key, known to the catalogue: ``places`` in order, None for all; ``granted`` the same as a set."""

    name: str
    scopes: frozenset[str]
    places: tuple[int, ...] | None
    granted: frozenset[int] | None

    def reaches(self, place: int) -> bool:
        """Tell whether the account at a place is granted to this key."""
        return self.granted is None or place in self.granted


class Keyring:
    """The keys a server accepts, found by the value of the Authorization header.

    ``place`` turns an account id into its place in the catalogue, -1 when no account has it.
    """

    def __init__(self, keys: Iterable[Key], place: Callable[[str], int]) -> None:
        self._by_secret: dict[bytes, Credential] = {}
        for number, key in enumerate(keys):
            granted = None
            if key.accounts is not None:
                granted = frozenset(a if isinstance(a, int) else place(a) for a in key.accounts) - {-1}
            places = None if granted is None else tuple(sorted(granted))
            self._by_secret[key.secret.encode()] = Credential(f"key-{number}", key.scopes, places, granted)

    def find(self, authorization: bytes | None) -> Credential | None:
        """Return the key behind ``Bearer <API_KEY>``, or None when it cannot be accepted (API 5.7)."""
        if authorization is None or authorization[:7].lower() != b"bearer ":
            return None
        return self._by_secret.get(authorization[7:].strip())
