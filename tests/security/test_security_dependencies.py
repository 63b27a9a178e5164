"""Installed packages are those pinned by name and version, and come from a registry only."""

import re
import tomllib
from importlib.metadata import distributions, version
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[0-9][A-Za-z0-9.+!]*)")
PINS = {canonicalize_name(pin["name"]): pin["version"] for pin in map(PIN.fullmatch, LINES) if pin}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = chain(*PROJECT["project"]["optional-dependencies"].values())
DECLARED = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"], *EXTRAS]
# These come with Python or the build pins, or are this project.
NOT_OURS = {"pip", "gramhouse", "wheel", "virtualenv", "setuptools"}


def test_every_pin_is_one_version_of_one_name() -> None:
    assert [line for line in LINES if not PIN.fullmatch(line)] == []
    assert len(PINS) == len(LINES)


def test_everything_declared_is_bounded_pinned_and_comes_from_no_address() -> None:
    for declared in map(Requirement, DECLARED):
        assert declared.url is None
        assert ">=" in str(declared.specifier), declared
        assert canonicalize_name(declared.name) in PINS, declared


def test_all_installed_packages_have_their_pinned_version() -> None:
    installed = {canonicalize_name(found.name): found.version for found in distributions()}
    ours = {name: version for name, version in installed.items() if name not in NOT_OURS}
    assert len(ours) > 50
    assert ours.items() - PINS.items() == set()


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
