"""The plans of `gramhouse up` as Prefect deployments."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from prefect import Flow
from prefect.deployments.runner import RunnerDeployment
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

from flows.config.settings import Settings
from flows.orchestration.schedules import PATIENCE, PLANS, Plan

TAG = "gramhouse"


def _flow(name: str) -> Flow[..., Any]:
    module, _, attribute = name.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, Flow):
        message = f"{name} is no flow"
        raise TypeError(message)
    return found


def _schedule(plan: Plan, settings: Settings) -> Mapping[str, Any]:
    if plan.when is None:
        return {}
    return {"schedule": Cron(getattr(settings, plan.when), timezone=settings.time_zone)}


async def _deployment(plan: Plan, settings: Settings) -> RunnerDeployment:
    # By module and not by file: an installed package then runs from whichever folder `up` was started in.
    return await _flow(plan.flow).ato_deployment(
        name=plan.name,
        description=plan.description,
        tags=[TAG],
        parameters={"options": plan.run_options(settings.busy_wait or PATIENCE)},
        enforce_parameter_schema=True,
        entrypoint_type=EntrypointType.MODULE_PATH,
        **_schedule(plan, settings),
    )


async def deployments(settings: Settings) -> list[RunnerDeployment]:
    """Return every deployment, in the order in which they are shown; none is applied yet."""
    return [await _deployment(plan, settings) for plan in PLANS]
