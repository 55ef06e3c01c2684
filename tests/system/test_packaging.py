"""The wheel: what it is called, what is in it, and where it can be installed.

The long tier installs it on Debian 13 (its Python and libraries are not those that it was
built with) and builds it anew for the Raspberry Pi's processor, emulated. Those roots have
no network; what pip needs there, the machine's own pip has fetched before.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = PROJECT["project"]["version"]
SOURCES = ("pyproject.toml", "LICENSE", "README.md", "handset", "native")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a root file system needs root")
needs_mmdebstrap = pytest.mark.skipif(
    shutil.which("mmdebstrap") is None, reason="no mmdebstrap: image/setup long installs it"
)

# Imports every module named on its standard input, none of them from a checkout, and calls
# into the C code: prints how many there were.
IMPORT_ALL = """
import importlib, sys, time
modules = sys.stdin.read().split()
for module in modules:
    importlib.import_module(module)
import aiortc, numpy, sounddevice
from handset._native import lib
before = time.monotonic_ns()
assert before <= lib.kh_now_ns() <= time.monotonic_ns()
print(len(modules))
"""


def run(*command: str | Path, given: str | None = None, **environment: str | Path) -> str:
    """Runs a command and returns its standard output; shows everything when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        input=given or "",
        env=os.environ | {name: str(value) for name, value in environment.items()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def copy_sources(to: Path) -> Path:
    """The sources as a package builder sees them, so that the checkout's build is left alone."""
    to.mkdir()
    for name in SOURCES:
        if (CHECKOUT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(CHECKOUT / name, to / name, ignore=ignored)
        else:
            shutil.copy(CHECKOUT / name, to)
    return to


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def modules(wheel: Path) -> list[str]:
    """Every module of a wheel but the ones that run a program when they are imported."""
    paths = (PurePosixPath(name) for name in contents(wheel) if name.endswith(".py"))
    names = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths}
    return sorted(name for name in names if not name.endswith(".__main__"))


def unexpected(names: set[str]) -> set[str]:
    """Names that no wheel of the project should hold."""

    def belongs(name: PurePosixPath) -> bool:
        if name.parts[0].endswith(".dist-info"):
            return True
        built = {".c", ".h", ".cpp", ".o", ".a", ".pyc", ".txt", ".cmake"}
        return name.parts[0] == "handset" and "tests" not in name.parts and name.suffix not in built

    return {name for name in names if not belongs(PurePosixPath(name))}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", made, copy_sources(made / "sources"))
    (path,) = made.glob("*.whl")
    return path


def test_one_wheel_serves_every_python_from_3_11(wheel: Path) -> None:
    assert wheel.name == (f"kelter_handset-{VERSION}-cp311-abi3-linux_{platform.machine()}.whl")


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = contents(wheel)
    in_checkout = {
        str(path.relative_to(CHECKOUT))
        for path in (CHECKOUT / "handset").rglob("*")
        if path.is_file() and path.suffix != ".so" and "__pycache__" not in path.parts
    }
    assert in_checkout <= names
    assert "handset/_native.abi3.so" in names
    assert "handset/py.typed" in names
    assert f"kelter_handset-{VERSION}.dist-info/licenses/LICENSE" in names
    assert unexpected(names) == set()


@pytest.mark.parametrize(
    "stray",
    ["native/ring.c", "handset/ring.h", "tests/test_ring.py", "handset/tests/x.py", "README.md"],
)
def test_a_stray_file_would_be_noticed(stray: str) -> None:
    licence = "kelter_handset-1.dist-info/entry_points.txt"
    assert unexpected({"handset/cli.py", licence, stray}) == {stray}


@pytest.mark.skipif(
    not Path("/usr/include/alsa/asoundlib.h").exists(), reason="no ALSA headers: libasound2-dev"
)
def test_the_virtual_card_ships_where_alsa_is(wheel: Path) -> None:
    assert {
        "handset/fakes/libasound_module_pcm_kelter.so",
        "handset/fakes/kelter-vcard-keeper",
    } <= contents(wheel)


def foreign_symbols(wheel: Path) -> dict[str, list[str]]:
    """For each shared object of a wheel, what it takes from Python beyond 3.11's stable ABI."""
    audit = (sys.executable, "-m", "abi3audit", "--report", str(wheel))
    # Its exit status says whether it found any; the report says which.
    said = subprocess.run(audit, capture_output=True, text=True, check=False).stdout
    (report,) = json.loads(said)["specs"].values()
    found = {}
    for extension in report["wheel"]:
        result = extension["result"]
        assert result["baseline"] == "3.11"
        found[extension["name"]] = [*result["non_abi3_symbols"], *result["future_abi3_objects"]]
    return found


def test_the_extension_keeps_to_the_stable_abi(wheel: Path) -> None:
    assert foreign_symbols(wheel)["_native.abi3.so"] == []


def test_a_symbol_outside_the_stable_abi_would_be_noticed(tmp_path: Path) -> None:
    source = tmp_path / "planted.c"
    source.write_text("int _PyUnicode_Ready(void *);\nint f(void *p) {return _PyUnicode_Ready(p);}")
    run("cc", "-shared", "-fPIC", "-o", tmp_path / "planted.abi3.so", source)
    planted = tmp_path / "planted-1-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(planted, "w") as archive:
        archive.write(tmp_path / "planted.abi3.so", "planted/planted.abi3.so")
    assert foreign_symbols(planted) == {"planted.abi3.so": ["_PyUnicode_Ready"]}


def test_the_installed_wheel_imports_and_names_its_version(wheel: Path, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--no-deps", "--no-index")
    run(*pip, "--target", tmp_path / "site", wheel)
    where = "import handset; print(handset.__file__)"
    python = (sys.executable, "-P", "-c")
    assert run(*python, where, PYTHONPATH=tmp_path / "site").startswith(str(tmp_path))
    named = modules(wheel)
    counted = run(*python, IMPORT_ALL, given="\n".join(named), PYTHONPATH=tmp_path / "site")
    assert int(counted) == len(named)
    program = tmp_path / "site" / "bin" / "handset"
    assert VERSION in run(program, "--version", PYTHONPATH=tmp_path / "site")


DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}


def emulating(machine: str) -> list[Path]:
    """What goes before a command for another processor than this one."""
    return [] if machine == platform.machine() else [CHECKOUT / "image" / "emulated"]


def debian_root(suite: str, machine: str, *packages: str) -> Path:
    """A root file system, kept between runs."""
    make = CHECKOUT / "image" / "root"
    return Path(run(*emulating(machine), make, suite, DEBIAN[machine], *packages).strip())


def fetch(requirements: list[str], python: str, machine: str, to: Path) -> None:
    """Wheels for another Python or processor, by this machine's own pip and its settings.

    pip reads conditions such as ``python_version < "3.13"`` for the Python that it runs under;
    the older one here only asks for more than the newer needs.
    """
    # pip takes a wheel for an older C library only when that one is named.
    libraries = [f"manylinux_2_{minor}_{machine}" for minor in range(17, 37)]
    platforms = [f"manylinux2014_{machine}", f"linux_{machine}", *libraries]
    run(
        *(sys.executable, "-m", "pip", "download", "--only-binary=:all:", "--dest", to),
        *("--implementation", "cp", "--python-version", python),
        *(f"--platform={name}" for name in platforms),
        *requirements,
    )


def run_inside(root: Path, machine: str, work: Path, script: str) -> str:
    """Runs a shell script in a root that it cannot write to; ``work`` is its ``/mnt``."""
    (work / "script").write_text(f"set -eu\nexport HOME=/mnt TMPDIR=/mnt/tmp\n{script}")
    (work / "tmp").mkdir(exist_ok=True)
    (work / "import_all.py").write_text(IMPORT_ALL)
    enter = """set -e
        mount --bind "$1" "$1"
        mount --bind "$2" "$1/mnt"
        mount -t proc proc "$1/proc"
        mount -o remount,bind,ro "$1"
        exec chroot "$1" /bin/sh /mnt/script"""
    environment = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8")
    isolated = ("unshare", "--mount", "--net", "--fork", "sh", "-c", enter, "sh", root, work)
    return run(*environment, *emulating(machine), *isolated)


@pytest.mark.long
@pytest.mark.timeout(900)
@needs_root
@needs_mmdebstrap
def test_the_wheel_works_on_debian_13(wheel: Path, tmp_path: Path) -> None:
    machine = platform.machine()
    root = debian_root("trixie", machine, "python3", "python3-venv", "libportaudio2")
    fetch(PROJECT["project"]["dependencies"], "3.13", machine, tmp_path / "wheels")
    shutil.copy(wheel, tmp_path / "wheels")
    (tmp_path / "modules").write_text("\n".join(modules(wheel)))
    said = run_inside(
        root,
        machine,
        tmp_path,
        """
        python3 -m venv /mnt/venv
        /mnt/venv/bin/pip install --quiet --no-index --find-links /mnt/wheels kelter-handset
        /mnt/venv/bin/python --version
        /mnt/venv/bin/python /mnt/import_all.py </mnt/modules
        /mnt/venv/bin/handset --version
        """,
    )
    python, count, version = said.splitlines()
    assert python.startswith("Python 3.13.")
    assert int(count) == len(modules(wheel))
    assert VERSION in version


@pytest.mark.long
@pytest.mark.timeout(1800)
@needs_root
@needs_mmdebstrap
@pytest.mark.skipif(
    shutil.which("qemu-aarch64-static") is None and platform.machine() != "aarch64",
    reason="no qemu-aarch64-static: image/setup long installs it",
)
def test_the_sources_build_and_run_on_the_raspberry_pis_processor(
    wheel: Path, tmp_path: Path
) -> None:
    groups = ("run", "build")
    lines = (CHECKOUT / "image" / "packages.txt").read_text().splitlines()
    listed = [line.split() for line in lines if line and not line.startswith("#")]
    root = debian_root("bookworm", "aarch64", *(name for group, name in listed if group in groups))
    needed = PROJECT["build-system"]["requires"] + PROJECT["project"]["dependencies"]
    fetch(needed, "3.11", "aarch64", tmp_path / "wheels")
    copy_sources(tmp_path / "sources")
    (tmp_path / "modules").write_text("\n".join(modules(wheel)))
    said = run_inside(
        root,
        "aarch64",
        tmp_path,
        """
        python3 -m venv /mnt/venv
        pip() { /mnt/venv/bin/pip "$@" --quiet --no-index --find-links /mnt/wheels; }
        pip wheel --no-deps --wheel-dir /mnt/made /mnt/sources
        pip install /mnt/made/*.whl
        ls /mnt/made
        /mnt/venv/bin/python /mnt/import_all.py </mnt/modules
        /mnt/venv/bin/handset --version
        """,
    )
    made, count, version = said.splitlines()
    assert made == f"kelter_handset-{VERSION}-cp311-abi3-linux_aarch64.whl"
    assert contents(tmp_path / "made" / made) == {
        name.replace("x86_64", "aarch64") for name in contents(wheel)
    }
    assert int(count) == len(modules(wheel))
    assert VERSION in version
