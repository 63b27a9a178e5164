"""The data that the sandbox serves: accounts, media and their changes over time."""
