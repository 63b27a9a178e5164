"""Applies the automations of deployments/automations.yaml to a Prefect server."""

import asyncio
import sys
from collections.abc import Sequence
from importlib import resources
from typing import Any
from uuid import UUID

import yaml

from flows.config.errors import SettingsError, TrackerUnreachable
from flows.config.settings import Settings, load
from flows.orchestration.processes import import_prefect

if __name__ == "__main__":
    # The imports below would end in a traceback if Prefect's settings cannot be read.
    try:
        import_prefect()
    except SettingsError as error:
        sys.exit(str(error))

from prefect.client.orchestration import PrefectClient, get_client
from prefect.events import emit_event
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound

from flows.orchestration.flow_run import check_tracker

WATCH_BEGAN = "gramhouse.watch.began"

_NOTIFY = "send-notification"


def described() -> list[dict[str, Any]]:
    """Return the automations of the file, with a placeholder for the notification block."""
    text = resources.files("deployments").joinpath("automations.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load(text))


def addressed(automation: dict[str, Any], blocks: Sequence[UUID]) -> AutomationCore | None:
    """Return an automation that notifies every block, or None if it has no action left."""
    actions = []
    for action in automation["actions"]:
        if action["type"] == _NOTIFY:
            actions += [{**action, "block_document_id": block} for block in blocks]
        else:
            actions.append(action)
    return AutomationCore.model_validate({**automation, "actions": actions}) if actions else None


def _comparable_fields(automation: AutomationCore) -> dict[str, Any]:
    # `enabled` is excluded: a user may have switched the automation off in the UI. Compared as Python values, not as
    # JSON: event names are a set, and its order as a list depends on the hash seed of each process.
    return AutomationCore.model_validate(automation.model_dump()).model_dump(exclude={"enabled"})


async def _block(client: PrefectClient, wanted: str) -> UUID:
    slug, _, name = wanted.partition("/")
    if not slug or not name:
        raise SettingsError(
            f"GRAMHOUSE_NOTIFY: {wanted!r} is not a block. Fix: write its type and name, such as slack-webhook/on-call."
        )
    try:
        found = await client.read_block_document_by_name(name, slug, include_secrets=False)
    except ObjectNotFound:
        raise SettingsError(
            f"GRAMHOUSE_NOTIFY: there is no block {wanted}. Fix: create it in the Prefect UI (Blocks), or with"
            f" `prefect block create {slug}`."
        ) from None
    if found.block_schema is None or "notify" not in found.block_schema.capabilities:
        raise SettingsError(
            f"GRAMHOUSE_NOTIFY: {wanted} cannot send notifications. Fix: use a block of a type such as slack-webhook."
        )
    return found.id


async def _keep(client: PrefectClient, automation: dict[str, Any], blocks: Sequence[UUID]) -> list[str]:
    """Make the automations of a name one that equals the file's, or none; return the change, if any."""
    name, wanted = automation["name"], addressed(automation, blocks)
    # Names are not unique on a server: others may have been created manually from the same file.
    present = await client.read_automations_by_name(name)
    kept = next((each for each in present if wanted and _comparable_fields(each) == _comparable_fields(wanted)), None)
    superfluous = [each for each in present if each is not kept]
    became = "removed" if not wanted else "updated" if present else "created"
    if wanted and not kept:
        enabled = all(each.enabled for each in present)
        await client.create_automation(wanted.model_copy(update={"enabled": enabled}))
        if WATCH_BEGAN in automation["trigger"].get("after", ()):
            # Starts the timer of an automation that fires if an event does not happen.
            emit_event(
                event=WATCH_BEGAN, resource={"prefect.resource.id": "gramhouse.watch", "gramhouse.scope": "everything"}
            )
    for each in superfluous:
        await client.delete_automation(each.id)
    return [f"{name}: {became}"] if superfluous or (wanted and not kept) else []


async def apply(settings: Settings) -> list[str]:
    """Make the server's automations equal to those of the file; return one line for each change.

    Without a notification block, the automations that notify are deleted. A second call changes nothing, and an
    automation that a user switched off remains off. Raises SettingsError if a block cannot be used; the automations
    that notify are then unchanged.
    """
    changes = []
    async with get_client() as client:
        notifying = []
        for automation in described():
            if any(action["type"] == _NOTIFY for action in automation["actions"]):
                notifying.append(automation)
            else:
                changes += await _keep(client, automation, ())
        blocks = [await _block(client, wanted) for wanted in dict.fromkeys(settings.notify)]
        for automation in notifying:
            changes += await _keep(client, automation, blocks)
    return changes


if __name__ == "__main__":
    # For work pools: run it with `prefect deploy`. `gramhouse up` applies the automations itself.
    try:
        settings = load()
        asyncio.run(check_tracker())
        sys.stdout.writelines(f"{line}\n" for line in asyncio.run(apply(settings)))
    except (SettingsError, TrackerUnreachable) as error:
        sys.exit(str(error))
