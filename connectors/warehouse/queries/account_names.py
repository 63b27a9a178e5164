"""What a person may type for an account: its id, its name (also with an @) or its public id, in upper or lower case."""

NAMES = "account_id, lower(ig_username), lower(public_id)"
"""All that names an account, as columns of `accounts`. Ids are stored in lower case."""


def as_name(typed: str) -> str:
    """Return what was typed as it is in NAMES."""
    return typed.strip().removeprefix("@").lower()
