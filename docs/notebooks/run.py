# ruff: noqa: INP001 - a script next to its notebook
"""Runs the cells of first-look.ipynb without Jupyter, and saves its charts: `make docs`.

    python docs/notebooks/run.py FOLDER [--frames polars pandas]

The path of the snapshot is in GRAMHOUSE_SNAPSHOT. The text before a chart's cell links to the chart's file, which
determines the file name.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

NOTEBOOK = Path(__file__).with_name("first-look.ipynb")
_FRAMES = {"polars": ".pl()", "pandas": ".df()"}


def cells() -> list[tuple[str, str]]:
    """Return the kind and the text of each cell."""
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return [(cell["cell_type"], "".join(cell["source"])) for cell in document["cells"]]


def run(folder: Path, frames: str) -> None:
    """Run all cells in order and in one namespace, as a notebook does. Save the charts in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    namespace: dict[str, Any] = {}
    name = ""
    for number, (kind, text) in enumerate(cells(), 1):
        if kind == "markdown":
            found = re.search(r"\]\(([\w-]+\.png)\)", text)
            name = found[1] if found else ""
            continue
        program = compile(text.replace(".pl()", _FRAMES[frames]), f"cell {number}", "exec")
        exec(program, namespace)  # noqa: S102 - a notebook consists of code to execute
        if name:
            plt.gcf().savefig(folder / name, dpi=110, metadata={"Software": None})
            plt.close("all")


def main() -> None:
    """Run the notebook."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", choices=_FRAMES, default=["polars"], nargs="+")
    chosen = parser.parse_args()
    # A backend that writes files and needs no display.
    plt.switch_backend("agg")
    for frames in chosen.frames:
        run(chosen.folder, frames)


if __name__ == "__main__":
    sys.exit(main())
