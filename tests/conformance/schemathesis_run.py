"""Runs schemathesis against the sandbox, with its own checks of every exchange."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import schemathesis
from schemathesis import engine
from schemathesis.engine import events
from schemathesis.engine.recorder import Interaction, ScenarioRecorder

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.serve import in_thread
from tests.conformance.contract_examples import ACCOUNTS, MEDIA
from tests.conformance.description import description

LONG = int(os.environ.get("CONFORMANCE_EXAMPLES", "0"))
_SHORT = 12

# OpenAPI cannot describe which opaque cursors are valid, and the API has no 405: tests/sandbox has both.
_NOT_ASKED = ("positive_data_acceptance", "unsupported_method")


@dataclass
class Found:
    """The result: failures, and the number of exchanges by method, operation and status."""

    complaints: list[str] = field(default_factory=list)
    seen: Counter[tuple[str, str | None, int]] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    followed: int = 0

    @property
    def exchanges(self) -> int:
        """The number of requests."""
        return self.seen.total()


def _config(url: str, key: str) -> schemathesis.Config:
    result: dict[str, Any] = {
        "base-url": url,
        "continue-on-failure": True,
        "generation": {"max-examples": LONG or _SHORT, "deterministic": not LONG, "database": "none"},
        "cache": {"enabled": False},
        "checks": {name: {"enabled": False} for name in _NOT_ASKED},
        # Check the whole page, however long it is.
        "output": {"truncation": {"max-recorded-payload-size": 0}},
        "phases": {"coverage": {"generate-duplicate-query-parameters": True}},
    }
    if not LONG:
        result["seed"] = 1
    result["headers"] = {"Authorization": f"Bearer {key}"}
    return schemathesis.Config.from_dict(result)


_CURSOR = "$response.body#/next_cursor"
_SAME_ACCOUNT = {"accountId": "$request.path.accountId"}
_SAME = {**_SAME_ACCOUNT, "surface": "$request.query.surface"}
_LISTED = {"accountId": "$response.body#/items/0/id"}

# How a scan continues (API 8, rule 2), and where its cursor is invalid (rule 4), for each operation.
_LINKS: dict[str, dict[str, tuple[str, dict[str, str]]]] = {
    ACCOUNTS: {"next": (ACCOUNTS, {}), "of another": (MEDIA, _LISTED)},
    MEDIA: {"next": (MEDIA, _SAME), "of another": (ACCOUNTS, {}), "of another surface": (MEDIA, _SAME_ACCOUNT)},
}


def _linked(described: dict[str, Any]) -> dict[str, Any]:
    """Add OpenAPI links, so that real cursors are followed."""
    for path in described["paths"].values():
        operation = path["get"]
        operation["responses"]["200"]["links"] = {
            name: {"operationId": to, "parameters": {**parameters, "cursor": _CURSOR}}
            for name, (to, parameters) in _LINKS[operation["operationId"]].items()
        }
    return described


def examine(sandbox: Sandbox, key: str) -> Found:
    """Send all requests that schemathesis generates from the description, with this key."""
    found = Found()
    with in_thread(sandbox) as url:
        schema = schemathesis.openapi.from_dict(_linked(description()), config=_config(url, key))
        for event in engine.from_schema(schema).execute():
            if isinstance(event, events.ScenarioFinished):
                found.complaints += _message(event.recorder, found)
                for interaction in event.recorder.interactions.values():
                    _count(interaction, found)
            elif isinstance(event, events.NonFatalError):
                found.complaints.append(f"{event.label}: {event.value!r}")
            elif isinstance(event, events.FatalError):
                raise event.exception
    return found


def _message(recorder: ScenarioRecorder, found: Found) -> Iterator[str]:
    for case, checks in recorder.checks.items():
        for check in checks:
            found.checks[check.name] += 1
            if check.failure_info is not None:
                target = recorder.interactions[case].request.uri if case in recorder.interactions else case
                yield f"{check.name}: {check.failure_info.failure.message} ({target})"


def _count(interaction: Interaction, found: Found) -> None:
    request, response = interaction.request, interaction.response
    if response is None:
        found.complaints.append(f"no answer to {request.method} {request.uri}")
        return
    path = urlsplit(request.uri).path
    operation = ACCOUNTS if path == "/api/v1/accounts" else MEDIA if path.endswith("/media") else None
    found.seen[request.method, operation, response.status_code] += 1
    found.followed += response.status_code == 200 and "cursor=" in request.uri
