"""`gramhouse init` and `gramhouse config`: the file of settings, and what is set where."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli.options import AsJson
from flows.cli.output.terminal import DONE, clean, out, print_json, print_result
from flows.config.errors import SettingsError
from flows.config.setting_sources import CONFIG, limits, number_range, origin
from flows.config.settings import Settings, load

_WIDTH = 100


def _lines() -> Iterator[str]:
    yield "# Remove the # before a line to set it. The variable GRAMHOUSE_<NAME> precedes its line."
    for name, field in Settings.model_fields.items():
        text = f"{field.description}{f' A number {number_range(field)}.' if limits(field) else ''}"
        default = "" if field.default is None else f" {json.dumps(field.default, default=str)}"
        yield "\n" + textwrap.fill(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")
        yield "# [mapping]" if name == "mapping" else f"# {name} ={default}"


def init(*, as_json: AsJson = False) -> None:
    """Write a gramhouse.toml in which every setting is explained.

    All lines are comments, so nothing changes before you edit it. A file that exists is never overwritten. Only its
    owner can read it.
    """
    if CONFIG.exists():
        raise SettingsError(f"{CONFIG} exists already. Fix: edit it; `gramhouse config` shows what is set.") from None
    load()
    CONFIG.touch(mode=0o600)
    CONFIG.write_text("\n".join(_lines()) + "\n", encoding="utf-8")
    wrote = f"{DONE} Wrote {CONFIG}. Next: set base_url and api_key_file in it, then run `gramhouse doctor`."
    print_result({"file": str(CONFIG)}, [wrote], as_json=as_json)


def config(*, as_json: AsJson = False) -> None:
    """Print each setting with its value and where it is set; the key is masked."""
    settings = load()
    values = settings.model_dump(mode="json")
    found = [
        {"setting": name, "value": value, "origin": origin(name) if name in settings.model_fields_set else "default"}
        for name, value in values.items()
    ]
    if as_json:
        print_json({"settings": found})
        return
    width = max(map(len, values))
    for row in found:
        value = row["value"] if isinstance(row["value"], str) else json.dumps(row["value"], ensure_ascii=False)
        shown = "" if row["value"] is None else clean(value)
        place = "" if row["origin"] == "default" else f"  [dim]({clean(row['origin'])})[/]"
        out.print(f"[bold]{row['setting']:<{width}}[/]  {shown}{place}", soft_wrap=True)


def install_completion(
    *,
    shell: Annotated[
        Literal["zsh", "bash", "fish", "powershell"] | None, Parameter(help="Default: that of this terminal.")
    ] = None,
    output: Annotated[Path | None, Parameter(("--output", "-o"), help="Default: where the shell looks for it.")] = None,
) -> None:
    """Install shell completion for this application."""
    from cyclopts.completion.install import create_install_completion_command

    from flows.cli.app import build_app

    create_install_completion_command(build_app().install_completion, add_to_startup=True)(shell=shell, output=output)
