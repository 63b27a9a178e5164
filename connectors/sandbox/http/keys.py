"""API keys: their scopes and the accounts they can access (API 5)."""

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

    ``accounts`` contains ids (UUID strings) or positions in the catalogue (integers, 0 is the first account); ``None``
    grants all current and future accounts. Without a ``name`` the key gets a numbered one.
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
    """A key with its accounts resolved: ``positions`` in order, None for all; ``granted`` is the same as a set."""

    name: str
    scopes: frozenset[str]
    positions: tuple[int, ...] | None
    granted: frozenset[int] | None

    def reaches(self, position: int) -> bool:
        """Return whether the account at a position is granted to this key."""
        return self.granted is None or position in self.granted


class Keyring:
    """The keys that the server accepts, looked up by the Authorization header.

    ``position`` returns the position of an account id in the catalogue, -1 if no account has it. ``issued`` maps every
    name to its credential, including revoked ones; it contains no secrets.
    """

    def __init__(self, keys: Iterable[Key], position: Callable[[str], int]) -> None:
        self.issued: dict[str, Credential] = {}
        self._by_secret: dict[bytes, Credential] = {}
        self._position = position
        for key in keys:
            self.add(key)

    def add(self, key: Key) -> Credential:
        """Add a key. Raises ValueError if its name was used before."""
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
        """Revoke a key and delete its secret. Raises KeyError for an unknown name."""
        credential = self.issued[name]
        self._by_secret = {secret: one for secret, one in self._by_secret.items() if one is not credential}
        return credential

    def is_revoked(self, credential: Credential) -> bool:
        """Return whether a key was revoked."""
        return all(one is not credential for one in self._by_secret.values())

    def find(self, authorization: bytes | None) -> Credential | None:
        """Return the credential for ``Bearer <API_KEY>``, or None if it is not accepted (API 5.7)."""
        if authorization is None or authorization[:7].lower() != b"bearer ":
            return None
        return self._by_secret.get(authorization[7:].strip())
