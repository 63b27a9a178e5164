"""API keys: their scopes and the accounts they can access (API 5)."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field

from connectors.sandbox.contract import KEY_SCOPES, KeyScope
from connectors.sandbox.data.catalogue import Catalogue, Grant

DEMO_KEY = "sandbox-demo-key"
NO_SCOPE_KEY = "sandbox-no-scope-key"
ONE_ACCOUNT_KEY = "sandbox-one-account-key"
NO_ACCOUNT_KEY = "sandbox-no-account-key"


@dataclass(frozen=True, slots=True)
class Credential:
    """A key's name, its scopes, and the positions of its accounts in the catalogue, in order; None: all accounts."""

    name: str
    scopes: tuple[str, ...] = KEY_SCOPES
    positions: Grant = None

    def reaches(self, position: int) -> bool:
        """Return whether the account at a position is granted to this key."""
        return self.positions is None or position in self.positions


_BUILT_IN = {
    DEMO_KEY: Credential("demo"),
    NO_SCOPE_KEY: Credential("no-scope", scopes=()),
    ONE_ACCOUNT_KEY: Credential("one-account", positions=(0,)),
    NO_ACCOUNT_KEY: Credential("no-account", positions=()),
}


class KeyRequest(BaseModel, frozen=True, extra="forbid"):
    """The properties of a new key (API 5.3); ``accounts`` is a number for the first N, or ids and usernames."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    scopes: tuple[KeyScope, ...] = KEY_SCOPES
    accounts: Annotated[int, Field(ge=0, strict=True)] | tuple[str, ...] | None = None

    def credential(self, catalogue: Catalogue, day: int) -> Credential:
        """Return the credential, with its accounts looked up in the catalogue of this day.

        Accounts that have left can be granted. Raises ValueError for an account that was never listed, and if there are
        fewer than N accounts.
        """
        if self.accounts is None:
            return Credential(self.name, self.scopes)
        if isinstance(self.accounts, int):
            listed = zip(catalogue.accounts(day), range(self.accounts), strict=False)
            positions = {account.position for account, _ in listed}
            if len(positions) < self.accounts:
                raise ValueError(
                    f"key {self.name!r}: {self.accounts} accounts wanted, the catalogue has {len(positions)}"
                )
        else:
            found = catalogue.positions(self.accounts, day)
            if unknown := [account for account in self.accounts if account not in found]:
                raise ValueError(f"key {self.name!r}: no account has the id or username {unknown[0]!r}")
            positions = set(found.values())
        return Credential(self.name, self.scopes, tuple(sorted(positions)))


class Keyring:
    """The keys that the server accepts. ``issued`` maps every name to its credential, including revoked ones."""

    def __init__(self) -> None:
        self.issued: dict[str, Credential] = {}
        self._by_secret: dict[bytes, Credential] = {}
        for secret, credential in _BUILT_IN.items():
            self.add(secret, credential)

    def add(self, secret: str, credential: Credential) -> None:
        """Add a key. Raises ValueError if its name was used before."""
        if credential.name in self.issued:
            raise ValueError(f"a key named {credential.name!r} was issued before; choose another name")
        self.issued[credential.name] = self._by_secret[secret.encode()] = credential

    def revoke(self, name: str) -> Credential:
        """Revoke a key and delete its secret. Raises KeyError for an unknown name."""
        credential = self.issued[name]
        self._by_secret = {secret: one for secret, one in self._by_secret.items() if one is not credential}
        return credential

    def is_revoked(self, credential: Credential) -> bool:
        """Return whether a key was revoked."""
        return credential not in self._by_secret.values()

    def find(self, authorization: bytes | None) -> Credential | None:
        """Return the credential for ``Bearer <API_KEY>``, or None if it is not accepted (API 5.7)."""
        if authorization is None or authorization[:7].lower() != b"bearer ":
            return None
        return self._by_secret.get(authorization[7:].strip())
