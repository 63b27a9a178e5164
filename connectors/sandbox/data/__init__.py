"""What the sandbox serves: accounts, media and their changes over time."""
