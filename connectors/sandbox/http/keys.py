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

    ``accounts`` holds ids (uuid strings) or positions in the catalogue (ints, 0 is the first account);
    ``None`` grants every account there is and ever will be. Without a ``name`` it gets a numbered one.
    """

    secret: str = field(repr=False)
    scopes: frozenset[str] = frozenset(KEY_SCOPES)
    accounts: frozenset[str | int] | None = None
    name: str | None = None


BUILT_IN = (
    Key(DEMO_KEY, name="demo"),
    Key(NO_SCOPE_KEY, scopes=frozenset(), name="no-scope"),
    Key(ONE_ACCOUNT_KEY, accounts=frozenset({0}), name="one-account"),
    Key(NO_ACCOUNT_KEY, accounts=frozenset(), name="no-account"),
)


@dataclass(frozen=True, slots=True)
class Credential:
    """A key, known to the catalogue: ``positions`` in order, None for all; ``granted`` the same as a set."""

    name: str
    scopes: frozenset[str]
    positions: tuple[int, ...] | None
    granted: frozenset[int] | None

    def reaches(self, position: int) -> bool:
        """Tell whether the account at a position is granted to this key."""
        return self.granted is None or position in self.granted


class Keyring:
    """The keys a server accepts, found by the value of the Authorization header.

    ``place`` turns an account id into its position in the catalogue, -1 when no account has it.
    ``issued`` maps every name to its credential, the revoked ones included; it holds no secret.
    """

    def __init__(self, keys: Iterable[Key], position: Callable[[str], int]) -> None:
        self.issued: dict[str, Credential] = {}
        self._by_secret: dict[bytes, Credential] = {}
        self._position = position
        for key in keys:
            self.add(key)

    def add(self, key: Key) -> Credential:
        """Accept a key from now on; raises ValueError when its name was issued before."""
        name = key.name or f"key-{len(self.issued)}"
        if name in self.issued:
            message = f"a key named {name!r} was issued before; choose another name"
            raise ValueError(message)
        granted = None
        if key.accounts is not None:
            granted = frozenset(a if isinstance(a, int) else self._position(a) for a in key.accounts) - {-1}
        positions = None if granted is None else tuple(sorted(granted))
        credential = Credential(name, key.scopes, positions, granted)
        self.issued[name] = self._by_secret[key.secret.encode()] = credential
        return credential

    def revoke(self, name: str) -> Credential:
        """Refuse a key from now on, and forget its secret; raises KeyError for a name that was never issued."""
        credential = self.issued[name]
        self._by_secret = {secret: one for secret, one in self._by_secret.items() if one is not credential}
        return credential

    def is_revoked(self, credential: Credential) -> bool:
        """Tell whether a key that was issued is accepted no more."""
        return all(one is not credential for one in self._by_secret.values())

    def find(self, authorization: bytes | None) -> Credential | None:
        """Return the key behind ``Bearer <API_KEY>``, or None when it cannot be accepted (API 5.7)."""
        if authorization is None or authorization[:7].lower() != b"bearer ":
            return None
        return self._by_secret.get(authorization[7:].strip())
