"""Runs a process and measures it: wall time, and CPU time and peak memory including its children."""

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

_POLL_INTERVAL = 0.1


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """Exit code and output of a process, and its resource usage (seconds, megabytes)."""

    exit_code: int
    stdout: str
    stderr: str
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
        pass  # The process exited in the meantime.
    return found


def _pss_mb(pid: int) -> float:
    """Return a process's proportional set size (shared pages divided among their users); 0 if it has exited."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


class MeasuredProcess:
    """A running process in its own process group, so that killing it kills its children too."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        # Files instead of pipes: a full pipe would block the process.
        self._output_folder = tempfile.TemporaryDirectory(prefix="output-")
        self._streams = [Path(self._output_folder.name) / name for name in ("stdout", "stderr")]
        self._group_peak_mb = 0.0
        self._exited = threading.Event()
        self._started = time.perf_counter()
        with self._streams[0].open("wb") as stdout, self._streams[1].open("wb") as stderr:
            self._child = subprocess.Popen(
                list(command), env=env, cwd=folder, stdout=stdout, stderr=stderr, start_new_session=True
            )
        self._poller = threading.Thread(target=self._poll_memory, daemon=True)
        self._poller.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.returncode is None:
            self.kill()
            self.wait()

    def _poll_memory(self) -> None:
        # The kernel records the peak of each process, but not of a group. A process without children is not polled.
        while not self._exited.wait(_POLL_INTERVAL):
            if children := _children(self._child.pid):
                self._group_peak_mb = max(self._group_peak_mb, sum(map(_pss_mb, (self._child.pid, *children))))

    def has_exited(self) -> bool:
        """Return whether the process has exited; call `wait` in either case."""
        return os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill(self) -> None:
        """Send SIGKILL to the process and its children."""
        os.killpg(self._child.pid, signal.SIGKILL)

    def wait(self) -> ProcessResult:
        """Wait until the process exits; call it once."""
        _, status, usage = os.wait4(self._child.pid, 0)
        wall = time.perf_counter() - self._started
        self._child.returncode = os.waitstatus_to_exitcode(status)
        self._exited.set()
        self._poller.join()
        stdout, stderr = (stream.read_text(encoding="utf-8", errors="replace") for stream in self._streams)
        self._output_folder.cleanup()
        # ru_maxrss of a new process includes its parent's memory until exec, so the measuring process must be small.
        peak = max(usage.ru_maxrss / 1024, self._group_peak_mb)
        return ProcessResult(self._child.returncode, stdout, stderr, wall, usage.ru_utime + usage.ru_stime, peak)


def run(command: Sequence[str], env: Mapping[str, str], folder: Path) -> ProcessResult:
    """Run a command until it exits."""
    with MeasuredProcess(command, env, folder) as process:
        return process.wait()
