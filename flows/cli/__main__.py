"""The command line as a process of its own: `gramhouse`, or `python -m flows.cli`."""

import sys


def run() -> None:
    """Run what was typed, and exit with its code."""
    # DuckDB imports pandas, where it is installed, to see whether a value is one of its: a second nobody needs.
    sys.modules.setdefault("pandas", None)  # type: ignore[arg-type]
    from flows.cli.app import main

    main()


if __name__ == "__main__":
    run()
