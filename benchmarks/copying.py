"""A plain copy of a file, safe on the disk: what the bytes alone cost.

python -m benchmarks.copying FROM TO
"""

import json
import os
import shutil
import sys
from pathlib import Path


def main() -> None:
    """Copy, and print how many bytes."""
    source, target = map(Path, sys.argv[1:])
    with source.open("rb") as read, target.open("wb") as written:
        # Through memory, as a program that writes a file for the first time: a clone of a file would write nothing.
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())
    print(json.dumps({"bytes": target.stat().st_size}))


if __name__ == "__main__":
    main()
