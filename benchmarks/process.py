"""One process measured whole: wall time, CPU of it and of its children, and the most memory they held at once."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class Ended:
    """What a process left: its exit code, what it wrote on both streams, and what it spent (seconds, megabytes)."""

    code: int
    output: str
    errors: str
    wall: float
    cpu: float
    peak_mb: float


def _children(pid: int) -> list[int]:
    found = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_children(int(child))]
    except OSError:
        pass  # It ended while it was looked at.
    return found


def _pss_mb(pid: int) -> float:
    """Return a process's memory, what it shares with others counted in parts; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


class Running:
    """A process under way, alone in its group, so that killing it kills its children too."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        # Files, and not pipes: a process that says much must not wait for the one that measures it.
        self._message = tempfile.TemporaryDirectory(prefix="said-")
        self._streams = [Path(self._message.name) / name for name in ("output", "errors")]
        self._family_mb = 0.0
        self._over = threading.Event()
        self._began = time.perf_counter()
        with self._streams[0].open("wb") as output, self._streams[1].open("wb") as errors:
            self._child = subprocess.Popen(
                list(command), env=env, cwd=folder, stdout=output, stderr=errors, start_new_session=True
            )
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.returncode is None:
            self.kill()
            self.wait()

    def _look(self) -> None:
        # The kernel keeps the peak of each process, not of several together; one alone is left in peace.
        while not self._over.wait(_LOOK_EVERY):
            if family := _children(self._child.pid):
                self._family_mb = max(self._family_mb, sum(map(_pss_mb, (self._child.pid, *family))))

    def is_over(self) -> bool:
        """Say whether it has ended by itself; it is still to be waited for."""
        return os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill(self) -> None:
        """Kill it and its children as a power cut would."""
        os.killpg(self._child.pid, signal.SIGKILL)

    def wait(self) -> Ended:
        """Wait for its end; call it once."""
        _, status, usage = os.wait4(self._child.pid, 0)
        wall = time.perf_counter() - self._began
        self._child.returncode = os.waitstatus_to_exitcode(status)
        self._over.set()
        self._watch.join()
        output, errors = (stream.read_text(encoding="utf-8", errors="replace") for stream in self._streams)
        self._message.cleanup()
        # Until it has become another program, a new process counts its parent's memory as its own: what measures
        # must be small.
        peak = max(usage.ru_maxrss / 1024, self._family_mb)
        return Ended(self._child.returncode, output, errors, wall, usage.ru_utime + usage.ru_stime, peak)


def run(command: Sequence[str], env: Mapping[str, str], folder: Path) -> Ended:
    """Run a command to its end."""
    with Running(command, env, folder) as running:
        return running.wait()
