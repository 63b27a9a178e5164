"""The work of `gramhouse up`: serves the deployments of prefect.yaml, and creates the alerts of automations.yaml."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import resources
from socket import gethostname
from typing import TYPE_CHECKING, Any
from uuid import UUID

import yaml
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import ConcurrencyLimitConfig
from prefect.deployments.runner import RunnerDeployment
from prefect.events import emit_event
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound
from prefect.flows import load_flow_from_entrypoint
from prefect.runner import Runner
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

from flows.config.errors import SettingsError
from flows.config.settings import Settings
from flows.orchestration.credentials import ApiCredentials

if TYPE_CHECKING:
    from prefect import Flow

# The event from which a missing run is counted until the first one has ended.
WATCH_BEGAN = "gramhouse.watch.began"

# The fields of a deployment in the file that are passed on as they are.
_FIELDS = ("name", "description", "tags", "parameters", "enforce_parameter_schema")

# Seconds between polls. The server is on this machine, usually for us alone, so it may be polled often.
_ASK_EVERY = 3.0

# One nightly run, one of what is due, and a few backfills that wait for the writer lock.
_RUNS_AT_ONCE = 8


def read_described(file: str) -> Any:  # noqa: ANN401 - any YAML
    """Return what a file of the package `deployments` describes."""
    return yaml.safe_load(resources.files("deployments").joinpath(file).read_text(encoding="utf-8"))


async def deployments(settings: Settings) -> list[RunnerDeployment]:
    """Return all deployments with the schedules of the settings, in the order of the file. They are not applied yet."""
    crons, made = settings.schedules(), []
    for each in read_described("prefect.yaml")["deployments"]:
        limit, cron = each.get("concurrency_limit"), crons.get(each["name"])
        flow: Flow[..., Any] = load_flow_from_entrypoint(each["entrypoint"], use_placeholder_flow=False)
        deployment = await flow.ato_deployment(
            **{field: each[field] for field in _FIELDS},
            schedule=Cron(cron, timezone=settings.time_zone) if cron else None,
            concurrency_limit=ConcurrencyLimitConfig(**limit) if limit else None,
            # By module, not by file, so that an installed package runs whichever folder `up` was started in.
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        made.append(deployment)
    return made


async def _pause_as_left(client: PrefectClient, wanted: RunnerDeployment) -> None:
    """Let a deployment, or its schedules, stay paused that a user paused in the UI: serving would resume them."""
    with suppress(ObjectNotFound):
        present = await client.read_deployment_by_name(f"{wanted.flow_name}/{wanted.name}")
        wanted.paused = present.paused
        for schedule in wanted.schedules or ():
            schedule.active = not present.schedules or any(each.active for each in present.schedules)


async def _find_block(client: PrefectClient, wanted: str) -> UUID:
    slug, _, name = wanted.partition("/")
    with suppress(ObjectNotFound):
        found = await client.read_block_document_by_name(name, slug, include_secrets=False)
        if found.block_schema is not None and "notify" in found.block_schema.capabilities:
            return found.id
    raise SettingsError(
        f"GRAMHOUSE_NOTIFY: there is no block {wanted!r} that can send notifications. Fix: create it in the Prefect UI"
        " (Blocks), and write its type and name, such as slack-webhook/on-call."
    )


async def create_alerts(client: PrefectClient, notify: Sequence[str]) -> list[str]:
    """Create the automations of the file that the server does not have by name; return the names of new ones.

    Present ones belong to the operator, who may have changed them, and are never touched. Without a block to `notify`,
    those that notify are left out. Raises SettingsError if a block cannot be used, before anything is created.
    """
    blocks, created = [str(await _find_block(client, each)) for each in dict.fromkeys(notify)], []
    for each in read_described("automations.yaml"):
        actions: list[dict[str, Any]] = []
        for action in each["actions"]:
            if action["type"] == "send-notification":
                subject = action["subject"].replace("HOST", gethostname())
                actions += [{**action, "subject": subject, "block_document_id": block} for block in blocks]
            else:
                actions.append(action)
        if actions and not await client.read_automations_by_name(each["name"]):
            await client.create_automation(AutomationCore.model_validate({**each, "actions": actions}))
            created.append(each["name"])
    if created:
        about = {"prefect.resource.id": "gramhouse.watch", "gramhouse.scope": "everything"}
        emit_event(event=WATCH_BEGAN, resource=about)
    return created


async def serve(
    settings: Settings, ready: Callable[[Sequence[str], Sequence[str]], None], take_signals: Callable[[], None]
) -> None:
    """Serve the deployments until this is cancelled; runs under way then crash, and an automation repeats them.

    `ready` is called with the names of the deployments, and with warnings for the user; `take_signals` when Prefect has
    set its own signal handler. Raises what Prefect's runner raises after its server did not answer for a few polls.
    """
    notes = []
    # Schedules stay active when this ends: a run that was missed starts late, once.
    runner = Runner(name="gramhouse", limit=_RUNS_AT_ONCE, query_seconds=_ASK_EVERY, pause_on_shutdown=False)
    async with get_client() as client:
        try:
            await create_alerts(client, settings.notify)
        except SettingsError as error:
            # The user can still create the block, for which the server must continue to run.
            notes.append(str(error))
        # Makes the UI show the form of this block type.
        await ApiCredentials.register_type_and_schema(client=client)
        served = await deployments(settings)
        for each in served:
            await _pause_as_left(client, each)
            await runner.aadd_deployment(each)
    ready([each.name for each in served], notes)
    serving = asyncio.create_task(runner.start())
    # Until it has set its own handler, which would cancel the runs: nothing starts a cancelled run again.
    await asyncio.sleep(0)
    take_signals()
    await serving
