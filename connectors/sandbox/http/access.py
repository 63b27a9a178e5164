"""What a request may see: the keys and their accounts (API 5), cursors and rate limits (API 8)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from connectors.sandbox.data.catalogue import Grant
from connectors.sandbox.data.identity import Draw
from connectors.sandbox.http.replies import Resource
from connectors.sandbox.settings import RateLimit

DEMO_KEY = "sandbox-demo-key"
NO_SCOPE_KEY = "sandbox-no-scope-key"
ONE_ACCOUNT_KEY = "sandbox-one-account-key"
NO_ACCOUNT_KEY = "sandbox-no-account-key"

_SEAL_BYTES = 11


@dataclass(frozen=True, slots=True)
class Credential:
    """A key's name, whether it may list media, and the positions of its accounts, in order; None: all accounts."""

    name: str
    lists_media: bool = True
    positions: Grant = None


# The format of the API's keys is not documented (API 5.10).
_KEYS: Mapping[str, Credential] = {
    DEMO_KEY: Credential("demo"),
    NO_SCOPE_KEY: Credential("no-scope", lists_media=False),
    ONE_ACCOUNT_KEY: Credential("one-account", positions=(0,)),
    NO_ACCOUNT_KEY: Credential("no-account", positions=()),
}


def find_credential(authorization: bytes) -> Credential | None:
    """Return the credential for ``Bearer <API_KEY>``, or None if it is not accepted (API 5.7)."""
    scheme, _, secret = authorization.decode("latin-1").partition(" ")
    return _KEYS.get(secret.strip()) if scheme.lower() == "bearer" else None


class Cursors:
    """Issues and reads cursors: authenticated, and bound to the resource they were issued for."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def issue(self, resource: Resource, anchor: int) -> str:
        """Return the cursor that continues a resource after an anchor. Clients must percent-encode its ``=``."""
        return f"{self._draw.tag(f'{resource} {anchor}', _SEAL_BYTES).hex()}={anchor}"

    def read(self, text: str, resource: Resource) -> int | None:
        """Return the anchor of a cursor, or None if it is not valid for this resource."""
        try:
            anchor = int(text.partition("=")[2])
        except ValueError:
            return None
        # The comparison also refuses other spellings of the number.
        return anchor if self.issue(resource, anchor) == text else None


class RateLimiter:
    """Counts requests in windows that begin with a tenant scope's first request.

    ``limits`` maps the kind of scope to its limit; None: no limit. Scopes of the kind ``account_catalog`` belong to a
    key, those of the kind ``selected_account`` to a key and an account.
    """

    def __init__(self, limits: Mapping[str, RateLimit | None], clock: Callable[[], float]) -> None:
        self.limits = dict(limits)
        self._clock = clock
        self._windows: dict[tuple[str, str, int], tuple[float, int]] = {}

    def admit(self, kind: str, key: str, position: int) -> int | None:
        """Count a request; return None if it is allowed, otherwise the seconds to wait, rounded up."""
        limit, scope = self.limits[kind], (kind, key, position)
        if limit is None:
            return None
        now = self._clock()
        ends, count = self._windows.get(scope, (now, 0))
        if now >= ends:
            ends, count = now + limit.seconds, 0
        if count >= limit.requests:
            return max(1, ceil(ends - now))
        self._windows[scope] = (ends, count + 1)
        return None

    def configure(self, limits: Mapping[str, RateLimit | None]) -> None:
        """Change the given limits and reset all windows."""
        self.limits |= limits
        self._windows.clear()
