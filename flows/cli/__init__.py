"""The command line."""

# Shells report a process that was ended by a signal as this plus the signal's number.
SIGNALLED = 128
