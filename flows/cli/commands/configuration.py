"""`gramhouse init` and `gramhouse config`: the file of settings, and what is set where."""

import json
import textwrap
from collections.abc import Iterator

from flows.cli.options import Output
from flows.cli.table import listing
from flows.cli.terminal import DONE, Answer
from flows.config.environment import CONFIG, origin
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load

_WIDTH = 100


def _lines() -> Iterator[str]:
    yield "# Remove the # before a line to set it. The variable GRAMHOUSE_<NAME> precedes its line."
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f" {json.dumps(field.default, default=str)}"
        yield "\n" + textwrap.fill(str(field.description), _WIDTH, initial_indent="# ", subsequent_indent="# ")
        yield "# [mapping]" if name == "mapping" else f"# {name} ={default}"


def init(*, output: Output = Output()) -> Answer:
    """Write a gramhouse.toml in which every setting is explained.

    All lines are comments, so nothing changes before you edit it. A file that exists is never overwritten. Only its
    owner can read it.
    """
    if CONFIG.exists():
        raise SettingsError(f"{CONFIG} exists already. Fix: edit it; `gramhouse config` shows what is set.")
    load()
    CONFIG.touch(mode=0o600)
    CONFIG.write_text("\n".join(_lines()) + "\n", encoding="utf-8")
    wrote = f"{DONE} Wrote {CONFIG}. Next: set base_url and api_key_file in it, then run `gramhouse doctor`."
    return Answer({"file": str(CONFIG)}, [wrote])


def config(*, output: Output = Output()) -> Answer:
    """Print each setting with its value and where it is set; the key is masked."""
    settings = load()
    found = [
        {"setting": name, "value": value, "origin": origin(name) if name in settings.model_fields_set else "default"}
        for name, value in settings.model_dump(mode="json").items()
    ]
    shown = []
    for each in found:
        value = each["value"]
        shown.append(each | {"value": value if isinstance(value, str | None) else json.dumps(value)})
    return Answer({"settings": found}, listing(shown, "setting value origin", prose="value"))
