"""Installed packages are those pinned by name and version, and come from a registry only."""

import re
import tomllib
from importlib.metadata import distributions, version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[0-9][A-Za-z0-9.+!]*)")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[a-z,]+\])?")

# These come with Python or the build pins, or are this project.
_NOT_OURS = {"pip", "gramhouse", "wheel", "virtualenv", "setuptools"}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _lines() -> list[str]:
    return (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def _pins() -> dict[str, str]:
    found = [PIN.fullmatch(line) for line in _lines()]
    return {_canonical(pin["name"]): pin["version"] for pin in found if pin}


def _declared() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    return [*project["build-system"]["requires"], *project["project"]["dependencies"], *(d for e in extras for d in e)]


def test_every_pin_is_one_version_of_one_name() -> None:
    odd = [line for line in _lines() if not PIN.fullmatch(line)]
    assert odd == []
    assert len(_pins()) == len(_lines())


def test_nothing_comes_from_an_address() -> None:
    for declared in _declared():
        assert not {"@", "/", "\\"} & set(declared.split(";")[0]), declared
        assert NAME.match(declared)


def test_everything_declared_is_bounded_and_pinned() -> None:
    pins = _pins()
    for declared in _declared():
        found = NAME.match(declared)
        assert found
        assert ">=" in declared, declared
        assert _canonical(found[0].split("[")[0]) in pins, declared


def test_all_installed_packages_have_their_pinned_version() -> None:
    installed = {_canonical(found.name): found.version for found in distributions()}
    ours = {name: version for name, version in installed.items() if name not in _NOT_OURS}
    assert len(ours) > 50
    assert ours.items() - _pins().items() == set()


def test_installed_packages_are_compatible() -> None:
    """As `pip check` does, which takes seconds."""
    for package in distributions():
        for needed in map(Requirement, package.requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert needed.specifier.contains(version(needed.name), prereleases=True), (package.name, needed)


def test_containers_and_hooks_take_no_floating_version() -> None:
    dockerfile = (ROOT / "deployments" / "Dockerfile").read_text(encoding="utf-8")
    images = re.findall(r"^FROM (\S+)", dockerfile, flags=re.MULTILINE)
    assert images
    assert not [image for image in images if image.endswith(":latest") or (":" not in image and "." in image)]
    assert "constraints.txt" in dockerfile
    assert not re.search(r"curl[^\n]*\|\s*(ba)?sh", dockerfile)
