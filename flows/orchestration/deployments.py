"""The deployments of deployments/prefect.yaml, as `gramhouse up` serves them."""

from importlib import resources
from typing import TYPE_CHECKING, Any

import yaml
from prefect.client.schemas.objects import ConcurrencyLimitConfig
from prefect.deployments.runner import RunnerDeployment
from prefect.flows import load_flow_from_entrypoint
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

from flows.config.settings import Settings

if TYPE_CHECKING:
    from prefect import Flow

_FIELDS = ("name", "description", "tags", "parameters", "enforce_parameter_schema")


async def deployments(settings: Settings) -> list[RunnerDeployment]:
    """Return all deployments with the schedules of the settings, in the order of the file. They are not applied yet."""
    text = resources.files("deployments").joinpath("prefect.yaml").read_text(encoding="utf-8")
    crons = {"nightly": settings.nightly, "stories": settings.stories}
    made = []
    for each in yaml.safe_load(text)["deployments"]:
        options, limit, cron = each["parameters"]["options"], each.get("concurrency_limit"), crons.get(each["name"])
        if "busy_wait" in settings.model_fields_set:
            options.get("expert", options)["busy_wait"] = settings.busy_wait
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
