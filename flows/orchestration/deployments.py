"""The plans of `gramhouse up` as Prefect deployments, and as the lines of deployments/prefect.yaml."""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
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
        message = f"{name} is not a flow"
        raise TypeError(message)
    return found


def _schedule(plan: Plan, settings: Settings) -> Mapping[str, Any]:
    if plan.when is None:
        return {}
    return {"schedule": Cron(getattr(settings, plan.when), timezone=settings.time_zone)}


async def _deployment(plan: Plan, settings: Settings) -> RunnerDeployment:
    busy_wait = settings.busy_wait if "busy_wait" in settings.model_fields_set else PATIENCE
    # By module, not by file, so that an installed package runs whichever folder `up` was started in.
    return await _flow(plan.flow).ato_deployment(
        name=plan.name,
        description=plan.description,
        tags=[TAG],
        parameters={"options": plan.run_options(busy_wait)},
        enforce_parameter_schema=True,
        entrypoint_type=EntrypointType.MODULE_PATH,
        **_schedule(plan, settings),
    )


async def deployments(settings: Settings) -> list[RunnerDeployment]:
    """Return all deployments, in the order in which they are shown. They are not applied yet."""
    return [await _deployment(plan, settings) for plan in PLANS]


_BEGIN = "\ndeployments:\n"


def _as_yaml(plan: Plan, settings: Settings) -> dict[str, Any]:
    schedule = plan.when and {
        "slug": plan.name,
        "cron": getattr(settings, plan.when),
        "timezone": settings.time_zone,
    }
    return {
        "name": plan.name,
        "description": plan.description,
        # By module, not by file, so that the installed package runs in every folder and container.
        "entrypoint": plan.flow.replace(":", "."),
        "parameters": {"options": plan.run_options(PATIENCE)},
        "schedules": [schedule] if schedule else [],
    }


def _lines(settings: Settings) -> Iterator[str]:
    for plan in PLANS:
        text = yaml.safe_dump(_as_yaml(plan, settings), sort_keys=False, width=110)
        yield "\n".join(["  - <<: *code", *(f"    {line}" for line in text.splitlines())])


def with_deployments(text: str, settings: Settings) -> str:
    """Return the text of a prefect.yaml with the deployments of these settings.

    Raises ValueError if the text has no `deployments:`.
    """
    before, begin, _ = text.partition(_BEGIN)
    if not begin:
        message = "it has no line `deployments:`"
        raise ValueError(message)
    return before + begin + "\n\n".join(_lines(settings)) + "\n"


def main() -> None:
    """Rewrite the file named by the first argument."""
    path = Path(sys.argv[1])
    path.write_text(with_deployments(path.read_text(encoding="utf-8"), Settings()), encoding="utf-8")


if __name__ == "__main__":
    main()
