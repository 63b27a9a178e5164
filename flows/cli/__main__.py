"""`python -m flows.cli`: the command line without its script."""

from flows.cli.app import main

main()
