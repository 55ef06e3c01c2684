"""Fixtures of the native tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def needs() -> Callable[..., None]:
    """Skips, with the Debian package that is missing."""

    def check(**packages: str) -> None:
        for program, package in packages.items():
            name = program.replace("_", "-")
            if shutil.which(name) is None:
                pytest.skip(f"{name} is missing; Debian package {package}")

    return check
