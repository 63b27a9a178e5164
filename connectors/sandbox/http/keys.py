"""The API keys that the sandbox accepts: their scopes and the accounts they can access (API 5)."""

from collections.abc import Mapping
from dataclasses import dataclass

from connectors.sandbox.contract import KEY_SCOPES
from connectors.sandbox.data.catalogue import Grant

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


# The format of the API's keys is not documented (API 5.10).
_KEYS: Mapping[str, Credential] = {
    DEMO_KEY: Credential("demo"),
    NO_SCOPE_KEY: Credential("no-scope", scopes=()),
    ONE_ACCOUNT_KEY: Credential("one-account", positions=(0,)),
    NO_ACCOUNT_KEY: Credential("no-account", positions=()),
}


def find_credential(authorization: bytes) -> Credential | None:
    """Return the credential for ``Bearer <API_KEY>``, or None if it is not accepted (API 5.7)."""
    scheme, _, secret = authorization.decode("latin-1").partition(" ")
    return _KEYS.get(secret.strip()) if scheme.lower() == "bearer" else None
