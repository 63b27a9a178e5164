"""Keys that an object names twice: JSON leaves open which counts, and two readers may take different ones."""

import json


def _names(pairs: list[tuple[str, object]]) -> list[str]:
    return [name for name, _ in pairs]


def repeats_a_key(text: bytes) -> bool:
    """Say whether the outermost object of a JSON text names a key twice; raises ValueError when it is no JSON."""
    names = json.loads(text, object_pairs_hook=_names, parse_int=str, parse_float=str, parse_constant=str)
    return isinstance(names, list) and len(names) != len(set(names))
