"""Applies the automations of deployments/automations.yaml to a Prefect server."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta
from importlib import resources
from typing import Any
from uuid import UUID

import yaml
from prefect.client.orchestration import PrefectClient, get_client
from prefect.events import emit_event
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger
from prefect.exceptions import ObjectNotFound
from prefect.settings import get_current_settings

from flows.config.errors import SettingsError
from flows.config.settings import Settings, load

WATCH_BEGAN = "gramhouse.watch.began"

_NOTIFY = "send-notification"
_HEARTBEAT = "prefect.flow-run.heartbeat"
_BEATS = 6


def described() -> list[dict[str, Any]]:
    """Return the automations of the file, with a placeholder for the notification block."""
    text = resources.files("deployments").joinpath("automations.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load(text))


def notifies(automation: dict[str, Any]) -> bool:
    """Return whether an automation sends a notification."""
    return any(action["type"] == _NOTIFY for action in automation["actions"])


def addressed(automation: dict[str, Any], blocks: Sequence[UUID]) -> AutomationCore | None:
    """Return an automation that notifies every block, or None if it has no action left."""
    actions = [
        sent
        for action in automation["actions"]
        for sent in (
            [{**action, "block_document_id": block} for block in blocks] if action["type"] == _NOTIFY else [action]
        )
    ]
    return AutomationCore.model_validate({**automation, "actions": actions}) if actions else None


def patient(automation: AutomationCore, frequency: float | None) -> AutomationCore:
    """Return an automation adjusted so that it does not treat runs with this heartbeat interval (seconds) as dead."""
    trigger = automation.trigger
    if frequency is None or not isinstance(trigger, EventTrigger) or _HEARTBEAT not in trigger.after:
        return automation
    within = max(trigger.within, timedelta(seconds=_BEATS * frequency))
    return automation.model_copy(update={"trigger": trigger.model_copy(update={"within": within})})


def _comparable_fields(automation: AutomationCore) -> dict[str, Any]:
    # `enabled` is excluded: a user may have switched the automation off in the UI. Compared as Python values, not as
    # JSON: event names are a set, and its order as a list depends on the hash seed of each process.
    return AutomationCore.model_validate(automation.model_dump()).model_dump(exclude={"enabled"})


def _name_of(block: str) -> tuple[str, str]:
    slug, _, name = block.partition("/")
    if not slug or not name:
        message = (
            f"GRAMHOUSE_NOTIFY: {block!r} is not a block. Fix: write its type and name, such as slack-webhook/on-call."
        )
        raise SettingsError(message)
    return slug, name


async def _block(client: PrefectClient, wanted: str) -> UUID:
    slug, name = _name_of(wanted)
    try:
        found = await client.read_block_document_by_name(name, slug, include_secrets=False)
    except ObjectNotFound:
        message = (
            f"GRAMHOUSE_NOTIFY: there is no block {wanted}. Fix: create it in the Prefect UI (Blocks), or with"
            f" `prefect block create {slug}`."
        )
        raise SettingsError(message) from None
    if found.block_schema is None or "notify" not in found.block_schema.capabilities:
        message = (
            f"GRAMHOUSE_NOTIFY: {wanted} cannot send notifications. Fix: use a block of a type such as slack-webhook."
        )
        raise SettingsError(message)
    return found.id


async def _apply_one(client: PrefectClient, wanted: AutomationCore, present: Automation | None) -> str | None:
    if present is None:
        await client.create_automation(wanted)
        return "created"
    if _comparable_fields(present) == _comparable_fields(wanted):
        return None
    await client.update_automation(present.id, wanted.model_copy(update={"enabled": present.enabled}))
    return "updated"


def _watch(automation: AutomationCore) -> None:
    """Start the timer of an automation that fires if an event does not happen."""
    if isinstance(automation.trigger, EventTrigger) and WATCH_BEGAN in automation.trigger.after:
        emit_event(
            event=WATCH_BEGAN,
            resource={
                "prefect.resource.id": "gramhouse.watch",
                "prefect.resource.name": automation.name,
                "gramhouse.scope": "everything",
            },
        )


async def _keep(client: PrefectClient, automation: dict[str, Any], blocks: Sequence[UUID]) -> list[str]:
    name = automation["name"]
    wanted = addressed(automation, blocks)
    # Names are not unique on a server. One automation is ours; others were created manually from the same file.
    present = await client.read_automations_by_name(name)
    became = None
    if wanted is not None:
        wanted = patient(wanted, get_current_settings().flows.heartbeat_frequency)
        essence = _comparable_fields(wanted)
        present.sort(key=lambda each: _comparable_fields(each) != essence)
        became = await _apply_one(client, wanted, present[0] if present else None)
    if wanted is not None and became is not None:
        _watch(wanted)
    superfluous = present if wanted is None else present[1:]
    for each in superfluous:
        await client.delete_automation(each.id)
    if became is None and superfluous:
        became = "removed" if wanted is None else "duplicates removed"
    return [f"{name}: {became}"] if became else []


async def apply(settings: Settings) -> list[str]:
    """Make the server's automations equal to those of the file; return one line for each change.

    Without a notification block, the automations that notify are deleted. A second call changes nothing, and an
    automation that a user switched off remains off. Raises SettingsError if a block cannot be used; the automations
    that notify are then unchanged.
    """
    changes = []
    async with get_client() as client:
        for automation in described():
            if not notifies(automation):
                changes += await _keep(client, automation, ())
        blocks = [await _block(client, wanted) for wanted in dict.fromkeys(settings.notify)]
        for automation in described():
            if notifies(automation):
                changes += await _keep(client, automation, blocks)
    return changes


if __name__ == "__main__":
    # For work pools: run it with `prefect deploy`. `gramhouse up` applies the automations itself.
    for line in asyncio.run(apply(load())):
        sys.stdout.write(f"{line}\n")
