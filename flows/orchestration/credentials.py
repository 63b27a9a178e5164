"""The API's address and key in a Prefect block."""

from collections.abc import Mapping
from typing import cast

from prefect.blocks.core import Block
from pydantic import Field, SecretStr

from connectors.source.base_url import check_api_key
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load


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
    name = settings.credentials.removeprefix(f"{ApiCredentials.get_block_type_slug()}/")
    try:
        block = cast("ApiCredentials", await ApiCredentials.aload(name))
    except ValueError as error:
        raise SettingsError(
            f"GRAMHOUSE_CREDENTIALS: there is no block {name!r} of the type"
            f" {ApiCredentials.get_block_type_slug()}. Fix:"
            " create it in the Prefect UI (Blocks), or remove the setting."
        ) from error
    where = f"GRAMHOUSE_CREDENTIALS: the block {name!r}"
    try:
        settings = load(**{**chosen, "base_url": chosen.get("base_url") or block.base_url, "api_key": block.api_key})
        check_api_key(settings.api_key or block.api_key)
    except SettingsError as error:
        raise SettingsError(f"{where} has an invalid {str(error).removeprefix('--')}") from None
    except ValueError as error:
        raise SettingsError(f"{where}: {error}. Fix: set it to the key alone, as the service displayed it.") from None
    return settings
