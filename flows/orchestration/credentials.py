"""The API's address and key in a Prefect block."""

from collections.abc import Mapping
from typing import cast

from prefect.blocks.core import Block
from pydantic import Field, SecretStr

from connectors.source.network import check_api_key
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from models.files import first_line


class ApiCredentials(Block):
    """The address of the service, and the API key for it."""

    _block_type_name = "gramhouse API credentials"
    _block_type_slug = "gramhouse-api-credentials"
    _description = "Address and API key of the service that gramhouse syncs from."

    base_url: str = Field(title="Address", description="For example https://api.example.com, with or without /api/v1.")
    api_key: SecretStr = Field(title="API key")


async def load_with_credentials(chosen: Mapping[str, object]) -> Settings:
    """Read the settings as `load` does, with address and key from their credentials block, if they name one.

    Raises SettingsError; no line of it contains the key.
    """
    settings = load(**chosen)
    if settings.credentials is None:
        return settings
    slug = ApiCredentials.get_block_type_slug()
    name = settings.credentials.removeprefix(f"{slug}/")
    try:
        block = cast("ApiCredentials", await ApiCredentials.aload(name))
        check_api_key(block.api_key)
        return load(**{**chosen, "base_url": chosen.get("base_url") or block.base_url, "api_key": block.api_key})
    except (ValueError, SettingsError) as error:
        raise SettingsError(
            f"GRAMHOUSE_CREDENTIALS: the block {name!r} of the type {slug} cannot be used: {first_line(error)}. Fix:"
            " create or correct it in the Prefect UI (Blocks), or remove the setting."
        ) from error
