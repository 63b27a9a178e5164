"""Describes the machine that a result was measured on."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_VERSIONS = ("aiohttp", "duckdb", "httpx", "httpx-aiohttp", "pydantic", "sqlalchemy")


def cpu_model(cpuinfo: str) -> str:
    """Return the processor's name from the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model"}:
            return value.strip()
    return platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def describe_machine() -> dict[str, object]:
    """Describe this machine; `load` is the load average of the last minute, which includes the benchmark."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": cpu_model(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
        "ram_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": _versions(),
        "load": round(os.getloadavg()[0], 1),
    }
