"""Syncs of one warehouse in a new process: `python -m tests.soak.child_process FOLDER URL RUNS`."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from pydantic import TypeAdapter

from tests.e2e.processes import SandboxProcess
from tests.soak.rig import BadRun, soak
from tests.soak.samples import Sample

_SAMPLES = TypeAdapter(list[Sample])
_ROOT = Path(__file__).parents[2]


def soak_apart(folder: Path, service: SandboxProcess, *, runs: int) -> list[Sample]:
    """Sync `runs` times in one new process; return a sample of each run, or raise BadRun.

    Other tests have filled the heap of this process, and what it holds resident depends on them.
    """
    command = [sys.executable, "-m", "tests.soak.child_process", str(folder), service.url, str(runs)]
    # With a heap for each thread, resident memory varies by megabytes with the timing of threads. Arrow starts the
    # second of its threads when two tasks wait at once.
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, check=False)
    if process.returncode:
        raise BadRun(process.stderr.decode())
    return _SAMPLES.validate_json(process.stdout)


def main(folder: str, url: str, runs: str) -> None:
    """Sync and print the samples."""
    samples = list[Sample]()
    asyncio.run(soak(Path(folder), SandboxProcess(url), runs=int(runs), every=1, watch=samples.append))
    sys.stdout.buffer.write(_SAMPLES.dump_json(samples))


if __name__ == "__main__":
    main(*sys.argv[1:])
