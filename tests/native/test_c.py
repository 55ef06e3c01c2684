"""The C tests: plain, under the sanitizers, as aarch64; and with faults planted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builds import NATIVE, ChangedSource, build_c_tests, cache, checked, run

SCALE = {"suite": "1", "long": "10", "campaign": "100"}[os.environ.get("HANDSET_TIER", "suite")]

pytestmark = pytest.mark.timeout(3600)


def ctest(tree: Path) -> str:
    return checked(
        "ctest", "--test-dir", tree, "--output-on-failure", "--no-tests=error", timeout=3000
    )


@pytest.mark.parametrize("sanitize", ["", "thread", "address,undefined"])
def test_c_tests(sanitize: str) -> None:
    tree = cache("c-" + (sanitize.replace(",", "-") or "plain"))
    build_c_tests(NATIVE, tree, f"-DHANDSET_SANITIZE={sanitize}", f"-DHANDSET_TEST_SCALE={SCALE}")
    assert "100% tests passed" in ctest(tree)


@pytest.mark.long
def test_c_tests_as_aarch64(needs) -> None:
    needs(aarch64_linux_gnu_gcc="gcc-aarch64-linux-gnu", qemu_aarch64_static="qemu-user-static")
    tree = cache("c-aarch64")
    build_c_tests(
        NATIVE,
        tree,
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        "-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc",
        "-DCMAKE_EXE_LINKER_FLAGS=-static",
        "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64-static",
        "-DHANDSET_TEST_SCALE=3",
    )
    assert "100% tests passed" in ctest(tree)


FAULTS = {
    "the cut counted at the request": (
        "playout_render.c",
        "a.cursor = c->read + faded;",
        "a.cursor = c->read;",
    ),
    "the fade reaches into the next run": (
        "playout_render.c",
        "lesser(q->config.fade, lesser(fence - c->read, to_bound(q)))",
        "lesser(q->config.fade, fence - c->read)",
    ),
    "the pause reaches into the next run": (
        "playout_render.c",
        "c->target == 0 && (!ramping(q) || to_bound(q) == 0)",
        "c->target == 0 && !ramping(q)",
    ),
    "an answer dropped when there is no room": (
        "playout_render.c",
        "KH_ANSWER_FREE_LOAD) == KH_N(KH_ANSWERS)) return 1;",
        "KH_ANSWER_FREE_LOAD) == KH_N(KH_ANSWERS)) return c->answered = request, 0;",
    ),
    "a fade after a pause": (
        "playout_render.c",
        "if (!c->sounding || c->fade_left != 0) return 0;",
        "if (c->fade_left != 0) return 0;",
    ),
    "starved at the end of a run": (
        "playout_render.c",
        "&& to_bound(q) != 0 ? KH_STARVED",
        "? KH_STARVED",
    ),
    "ducked frames not counted": ("playout_render.c", "    c->counts.ducked += n;\n", ""),
    "a stale write accepted": (
        "playout_control.c",
        "if (generation != c->clears) return KH_STALE;",
        "",
    ),
    "an old pause dismissed": (
        "playout_control.c",
        "number != q->control.pauses || ",
        "(void)number, ",
    ),
    "a pause that outlives a clear": (
        "playout_control.c",
        "  c->mode = KH_PLAY;\n  c->pauses++;\n  c->after_clear = 1;",
        "  c->pauses++;\n  c->after_clear = 1;",
    ),
    "written while no clear slot is free": (
        "playout_control.c",
        "if (answers_owed(q)) return 0;",
        "",
    ),
    "a torn snapshot taken": (
        "slots.h",
        "if (KH_LOAD(slot->begin, KH_RELAXED) == number) return number;",
        "return number;",
    ),
    "a half-overwritten answer recovered": (
        "recover.c",
        "kept = KH_N(KH_ANSWERS) - 1u;",
        "kept = KH_N(KH_ANSWERS);",
    ),
    "a gap forgotten": ("capture.c", "  miss(c, n - k, KH_GAP_READER);\n", ""),
    "a gap rounded down": (
        "capture.c",
        "c->config.rate + 500000) / 1000000",
        "c->config.rate) / 1000000",
    ),
    "the volume before the notices": (
        "playout_render.c",
        "    mix_notices(q, out, n, top);\n    apply_volume(q, out, n);",
        "    apply_volume(q, out, n);\n    mix_notices(q, out, n, top);",
    ),
    "a volume without a ramp": (
        "playout_render.c",
        "    c->volume_ramp = 0;\n",
        "    c->volume_ramp = q->config.fade;\n",
    ),
    "a volume that starts its ramp anew from where it aimed": (
        "playout_render.c",
        "c->volume_from = c->volume;",
        "c->volume_from = c->volume_target;",
    ),
    "flushed notices not counted": (
        "playout_render.c",
        "    c->counts.notice_flushed += fence - c->notice_read;\n",
        "",
    ),
    "a flush without a fade": ("playout_render.c", "    if (c->notice_sounding)\n", "    if (0)\n"),
    "a flush fades what has not begun": (
        "playout_render.c",
        "    if (c->notice_sounding)\n",
        "    if (1)\n",
    ),
    "a flush's fade cut off by the block": (
        "playout_render.c",
        "q->curve[(done + i) * q->config.fade / n]",
        "q->curve[done + i]",
    ),
    "the place of a notice by the block": (
        "playout_render.c",
        "mix(q, out + at, k, top + at, 0);",
        "mix(q, out + at, k, top + n - k, 0);",
    ),
    "a notice numbered without what was flushed": (
        "playout_render.c",
        "c->counts.notice_frame = c->counts.notice_handed + c->counts.notice_flushed;",
        "c->counts.notice_frame = c->counts.notice_handed;",
    ),
    "a sum that wraps": (
        "playout_render.c",
        "out[i] = (int16_t)(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);",
        "out[i] = (int16_t)sum;",
    ),
    "the volume of one channel": (
        "playout_render.c",
        "    apply_volume(q, out, n);\n    spread(out, n, q->config.channels);",
        "    spread(out, n, q->config.channels);\n    apply_volume(q, out, n);",
    ),
    "a volume above all": (
        "playout_control.c",
        "(uint64_t)(gain < KH_UNITY ? gain : KH_UNITY)",
        "(uint64_t)gain",
    ),
    "an older layout recovered": (
        "recover.c",
        "KH_LOAD(s->version, KH_RELAXED) != KH_LAYOUT_VERSION",
        "KH_LOAD(s->version, KH_RELAXED) > KH_LAYOUT_VERSION",
    ),
    "a flagged restart that has to be long": (
        "capture.c",
        "  if ((flags & KH_UNDERFLOW) && c->time.blocks > KH_FLAGGED_ON_END) c->anew = 1;\n",
        "",
    ),
    "every flagged block a restart": (
        "capture.c",
        "(flags & KH_UNDERFLOW) && c->time.blocks > KH_FLAGGED_ON_END",
        "flags & KH_UNDERFLOW",
    ),
    "a restart forgotten for want of a time": (
        "capture.c",
        "    s->nominal_times++;\n",
        "    s->nominal_times++;\n    c->anew = 0;\n",
    ),
    "a late block moves the time map": ("timemap.h", "ns < kh_point_at(m, m->current, frame)", "1"),
}


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> ChangedSource:
    return ChangedSource(tmp_path_factory.mktemp("faults") / "native")


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_found(fault: str, changed: ChangedSource) -> None:
    with changed.fault(*FAULTS[fault]):
        tree = build_c_tests(changed.root, changed.root.parent / "build")
        found = run("ctest", "--test-dir", tree, "--stop-on-failure", "-E", "stress")
    assert "Failed" in found.stdout, f"no C test notices: {fault}"
