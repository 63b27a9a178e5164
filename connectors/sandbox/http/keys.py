"""API keys: their scopes and the accounts they can access (API 5)."""

import secrets
from dataclasses import dataclass
from itertools import islice
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
            positions = {account.position for account in islice(catalogue.accounts(day), self.accounts)}
            if (found := len(positions)) < self.accounts:
                raise ValueError(f"key {self.name!r}: {self.accounts} accounts wanted, the catalogue has {found}")
        else:
            known = catalogue.positions(self.accounts, day)
            if unknown := [account for account in self.accounts if account not in known]:
                raise ValueError(f"key {self.name!r}: no account has the id or username {unknown[0]!r}")
            positions = set(known.values())
        return Credential(self.name, self.scopes, tuple(sorted(positions)))


class Keyring:
    """The keys that the server accepts. ``issued`` maps every name to its credential, including revoked ones."""

    def __init__(self) -> None:
        self._by_secret = dict(_BUILT_IN)
        self.issued = {credential.name: credential for credential in _BUILT_IN.values()}

    def create(self, credential: Credential) -> str:
        """Create a key, and return its secret (API 5.3). Raises ValueError if its name was used before."""
        if credential.name in self.issued:
            raise ValueError(f"a key named {credential.name!r} was issued before; choose another name")
        # The format of the API's keys is not documented (API 5.10), so the sandbox has its own.
        secret = f"sandbox-{secrets.token_hex(16)}"
        self.issued[credential.name] = self._by_secret[secret] = credential
        return secret

    def revoke(self, name: str) -> Credential:
        """Revoke a key and delete its secret. Raises KeyError for an unknown name."""
        credential = self.issued[name]
        self._by_secret = {secret: one for secret, one in self._by_secret.items() if one is not credential}
        return credential

    def is_revoked(self, credential: Credential) -> bool:
        """Return whether a key was revoked."""
        return credential not in self._by_secret.values()

    def find(self, authorization: bytes) -> Credential | None:
        """Return the credential for ``Bearer <API_KEY>``, or None if it is not accepted (API 5.7)."""
        scheme, _, secret = authorization.decode("latin-1").partition(" ")
        return self._by_secret.get(secret.strip()) if scheme.lower() == "bearer" else None
