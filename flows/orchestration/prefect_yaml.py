"""Writes the deployments of deployments/prefect.yaml from the plans of `gramhouse up`.

    python -m flows.orchestration.prefect_yaml deployments/prefect.yaml     # `make prefect-yaml`

What stands before `deployments:` (the pool, its variables, comments) is written by hand and stays.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from flows.config.settings import Settings
from flows.orchestration.schedules import PATIENCE, PLANS, Plan

_BEGIN = "\ndeployments:\n"


def _deployment(plan: Plan, settings: Settings) -> dict[str, Any]:
    schedule = plan.when and {
        "slug": plan.name,
        "cron": getattr(settings, plan.when),
        "timezone": settings.time_zone,
    }
    return {
        "name": plan.name,
        "description": plan.description,
        # By module and not by file: it is the installed package that runs, in whichever folder and container.
        "entrypoint": plan.flow.replace(":", "."),
        "parameters": {"options": plan.run_options(PATIENCE)},
        "schedules": [schedule] if schedule else [],
    }


def _lines(settings: Settings) -> Iterator[str]:
    for plan in PLANS:
        text = yaml.safe_dump(_deployment(plan, settings), sort_keys=False, width=110)
        yield "\n".join(["  - <<: *code", *(f"    {line}" for line in text.splitlines())])


def with_deployments(text: str, settings: Settings) -> str:
    """Return the text of a prefect.yaml with the deployments of these settings; ValueError where it has none."""
    before, begin, _ = text.partition(_BEGIN)
    if not begin:
        message = "it has no line `deployments:`"
        raise ValueError(message)
    return before + begin + "\n\n".join(_lines(settings)) + "\n"


def main() -> None:
    """Rewrite the file that is named."""
    path = Path(sys.argv[1])
    path.write_text(with_deployments(path.read_text(encoding="utf-8"), Settings()), encoding="utf-8")


if __name__ == "__main__":
    main()
