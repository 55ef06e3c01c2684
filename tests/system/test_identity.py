"""Which boot this is, and where files go."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from handset.system.identity import boot_id, boot_words, runtime_directory, state_directory


def test_one_boot_has_one_id_for_every_process() -> None:
    code = "from handset.system.identity import boot_id; print(boot_id())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert uuid.UUID(other.stdout.strip()) == boot_id()


def test_the_two_words_are_the_whole_id() -> None:
    boot = uuid.UUID("01234567-89ab-cdef-fedc-ba9876543210")
    assert boot_words(boot) == (0x0123456789ABCDEF, 0xFEDCBA9876543210)


def test_the_service_manager_names_the_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/one:/run/two")
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/one:/var/lib/two")
    assert runtime_directory() == Path("/run/one")
    assert state_directory() == Path("/var/lib/one")


def test_without_one_they_are_the_user_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RUNTIME_DIRECTORY", "STATE_DIRECTORY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert runtime_directory() == tmp_path / "kelter-handset"
    assert state_directory() == tmp_path / ".local/state/kelter-handset"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert state_directory() == tmp_path / "state/kelter-handset"


@pytest.mark.parametrize("named", [None, "/no/such/directory"])
def test_without_a_user_s_directory_it_is_shared_memory(
    monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    if named is not None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", named)
    assert runtime_directory().parent == Path("/dev/shm")
