"""Lines for the person who started a command: on the terminal, and in the log of a flow run."""

import logging

notices = logging.getLogger("gramhouse")
