"""Requests for a new key: its name, scopes and accounts, from JSON or from the command line (API 5.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.sandbox.contract import KEY_SCOPES
from connectors.sandbox.http.keys import Key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connectors.sandbox.data.catalogue import Catalogue

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ALL = "all"
_WORDS = {_ALL: KEY_SCOPES, "none": ()}


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """The properties of a key; ``accounts`` is None for all, a number for the first N, or ids and usernames.

    Raises ValueError for an invalid name, an unknown scope, or a negative number.
    """

    name: str
    scopes: tuple[str, ...] = KEY_SCOPES
    accounts: int | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            message = f"{self.name!r} is not a key name: use 1 to 64 letters, digits, '.', '_' or '-'"
            raise ValueError(message)
        for scope in self.scopes:
            if scope not in KEY_SCOPES:
                message = f"unknown scope {scope!r}; the scopes are {', '.join(KEY_SCOPES)}"
                raise ValueError(message)
        if isinstance(self.accounts, int) and self.accounts < 0:
            message = f"the number of accounts must be at least 0, not {self.accounts}"
            raise ValueError(message)

    def key(self, secret: str, catalogue: Catalogue, day: int) -> Key:
        """Return the key, with its accounts looked up in the catalogue of this day.

        Accounts that have left can be granted. Raises ValueError for an account that was never listed, and if there are
        fewer than N accounts.
        """
        positions = None if self.accounts is None else self._positions(self.accounts, catalogue, day)
        return Key(secret, frozenset(self.scopes), positions, self.name)

    def _positions(self, accounts: int | tuple[str, ...], catalogue: Catalogue, day: int) -> frozenset[int]:
        if isinstance(accounts, int):
            first = [account.position for account, _ in zip(catalogue.accounts(day), range(accounts), strict=False)]
            if len(first) < accounts:
                message = f"key {self.name!r}: {accounts} accounts wanted, the catalogue has {len(first)}"
                raise ValueError(message)
            return frozenset(first)
        found = catalogue.positions(accounts, day)
        for account in accounts:
            if account not in found:
                message = f"key {self.name!r}: no account has the id or username {account!r}"
                raise ValueError(message)
        return frozenset(found.values())


def request_from_text(text: str) -> KeyRequest:
    """Parse ``NAME[/SCOPES[/ACCOUNTS]]``. Raises ValueError.

    SCOPES is ``all``, ``none`` or a comma-separated list; ACCOUNTS is ``all``, a number N for the first N, or a
    comma-separated list of ids and usernames.
    """
    parts = text.split("/")
    if len(parts) > 3 or not all(parts) or not _NAME.fullmatch(parts[0]):
        message = f"{text!r} is not a key: write NAME/SCOPES/ACCOUNTS, such as reader/automations:read/30"
        raise ValueError(message)
    name, scopes, accounts = [*parts, _ALL, _ALL][:3]
    chosen = _WORDS[scopes] if scopes in _WORDS else tuple(scopes.split(","))
    if accounts == _ALL:
        return KeyRequest(name, chosen)
    return KeyRequest(name, chosen, int(accounts) if accounts.isdecimal() else tuple(accounts.split(",")))


def request_from_json(document: Mapping[str, object]) -> KeyRequest:
    """Parse ``{"name", "scopes", "accounts"}``; missing or null scopes or accounts grant all.

    Raises ValueError for an unknown field, TypeError for a value of the wrong type.
    """
    given = {name: value for name, value in document.items() if value is not None}
    if unknown := given.keys() - {"name", "scopes", "accounts"}:
        message = f"unknown in key: {', '.join(sorted(unknown))}"
        raise ValueError(message)
    name, scopes, accounts = given.get("name"), given.get("scopes", KEY_SCOPES), given.get("accounts")
    if not isinstance(name, str):
        message = "a key needs a name, a string"
        raise TypeError(message)
    if isinstance(accounts, int) and not isinstance(accounts, bool):
        return KeyRequest(name, _texts("scopes", scopes), accounts)
    return KeyRequest(name, _texts("scopes", scopes), None if accounts is None else _texts("accounts", accounts))


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return tuple(value)
    message = f"{name} must be an array of strings{', or a whole number' if name == 'accounts' else ''}, not {value!r}"
    raise TypeError(message)
