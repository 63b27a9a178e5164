"""Copy a file and fsync the copy: the baseline of commands that write a file of the same size.

python -m benchmarks.candidates.copy_file SOURCE TARGET
"""

import os
import shutil
import sys
from pathlib import Path


def main() -> None:
    """Copy the file."""
    source, target = map(Path, sys.argv[1:])
    with source.open("rb") as read, target.open("wb") as written:
        # Copied through memory: a reflink (copy-on-write clone) would write no data.
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())


if __name__ == "__main__":
    main()
