"""The oracle: what users must see, computed from what was delivered and what landed. It imports nothing of gramhouse."""
