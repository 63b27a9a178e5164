"""The deployments of `gramhouse up`. deployments/prefect.yaml has the same ones for work pools."""

from typing import TYPE_CHECKING, Any

from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.flows import load_flow_from_entrypoint
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

from flows.config.settings import Settings

if TYPE_CHECKING:
    from prefect import Flow

# How long runs that are due at the same time wait for each other, in seconds.
_BUSY_WAIT = 6 * 3600

# Of several runs that were missed while nothing served the deployment, one starts, and Prefect cancels the others.
_ONE_AT_A_TIME = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)


async def deployments(settings: Settings) -> list[RunnerDeployment]:
    """Return all deployments, in the order in which they are shown. They are not applied yet."""
    wait = {"busy_wait": settings.busy_wait if "busy_wait" in settings.model_fields_set else _BUSY_WAIT}
    nightly, stories = (Cron(cron, timezone=settings.time_zone) for cron in (settings.nightly, settings.stories))
    on_request: dict[str, Any] = {}
    plans = (
        (
            "nightly",
            "flows.sync.sync",
            "Syncs everything the API key can see into the warehouse and publishes a snapshot.",
            {"expert": wait},
            {"schedule": nightly, "concurrency_limit": _ONE_AT_A_TIME},
        ),
        (
            "stories",
            "flows.sync.sync",
            "Scans stories only. They expire after 24 hours, so this runs several times a day.",
            {"surfaces": ["stories"], "expert": wait},
            {"schedule": stories, "concurrency_limit": _ONE_AT_A_TIME},
        ),
        (
            "backfill",
            "flows.backfill.backfill",
            "Scans the partitions you choose again from their first page. Runs on request.",
            {"expert": wait},
            on_request,
        ),
        (
            "publish",
            "flows.publish.publish",
            "Merges landed pages and publishes a new snapshot, without API requests. Runs on request.",
            wait,
            on_request,
        ),
    )
    made = []
    for name, entrypoint, description, options, more in plans:
        flow: Flow[..., Any] = load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False)
        made.append(
            await flow.ato_deployment(
                name=name,
                description=description,
                tags=["gramhouse"],
                parameters={"options": options},
                enforce_parameter_schema=True,
                # By module, not by file, so that an installed package runs whichever folder `up` was started in.
                entrypoint_type=EntrypointType.MODULE_PATH,
                **more,
            )
        )
    return made
