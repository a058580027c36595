"""Targets as data, and what this machine says of itself."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest
from irc_compiler.ir.errors import UsageError, VerificationError
from irc_compiler.ir.limits.host_memory import memory_limit
from irc_compiler.plan.target import ISAS, Target, generic_target
from irc_compiler.runtime.driver.thread_pool import default_threads
from irc_compiler.runtime.jit import host_features as host
from irc_compiler.runtime.jit.llvm_binding import target_machine
from irc_compiler.runtime.machine import cpus
from irc_compiler.runtime.machine import detect as machine


@pytest.mark.parametrize("isa", list(ISAS))
def test_json_round_trip_and_key(isa):
    target = generic_target(isa)
    assert Target.from_json(target.to_json()) == target
    assert hash(Target.from_json(target.to_json())) == hash(target)
    assert target.key() == generic_target(isa).key() and len(target.key()) == 16
    assert dataclasses.replace(target, l2=target.l2 * 2).key() != target.key()


def test_lanes_and_features():
    target = generic_target("avx512")
    assert [target.lanes(b) for b in (8, 16, 32, 64, 1024)] == [64, 32, 16, 8, 1]
    assert generic_target("plain").lanes(32) == 4
    assert target.has("avx512f") and not target.has("avx512bf16")
    assert [generic_target(i).fma for i in ISAS] == [True, True, True, False]


def _forge(**changes):
    return json.dumps(json.loads(generic_target("avx2").to_json()) | changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        "[" * 100_000,
        _forge(extra=1),
        _forge(isa="sse9"),
        _forge(isa=["avx2"]),
        _forge(arch="aarch64"),
        _forge(vector_bits=512),
        _forge(registers=1 << 80),
        _forge(cores=0),
        _forge(cores=True),
        _forge(l1=-1),
        _forge(l2=1.5),
        _forge(l3=1 << 60),
        _forge(cpu_features="avx2"),
        _forge(cpu_features=["avx2"]),
        _forge(cpu_features=[*generic_target("avx2").cpu_features, "x,+y"]),
        _forge(cpu_features=[*generic_target("avx2").cpu_features, "zz\n"]),
        _forge(cpu_features=[*generic_target("avx2").cpu_features, 7]),
        _forge(cpu_features=list(reversed(generic_target("avx2").cpu_features))),
        _forge(cpu_features=["avx2"] * 1000),
    ],
)
def test_hostile_json_is_refused(text):
    with pytest.raises(VerificationError):
        Target.from_json(text)


def test_host_target_is_cached_and_forced():
    for isa in host.available_isas():
        target = machine.host_target(isa)
        assert target is machine.host_target(isa)
        assert target.isa == isa and ISAS[isa].required <= set(target.cpu_features)
    assert not machine.host_target("plain").has("avx")
    if "avx2" in host.available_isas():
        assert not any(f.startswith("avx512") for f in machine.host_target("avx2").cpu_features)


def test_environment_forces_isa(monkeypatch):
    monkeypatch.setenv("IRC_ISA", "plain")
    assert machine.host_target().isa == "plain"
    monkeypatch.setenv("IRC_ISA", "neon" if host.host_arch() == "x86_64" else "avx2")
    with pytest.raises(UsageError, match="instruction set"):
        machine.host_target()
    monkeypatch.setenv("IRC_ISA", "")
    assert machine.host_target().isa == host.available_isas()[0]


def test_every_feature_is_known_to_llvm(capfd):
    for isa in host.available_isas():
        target_machine(machine.host_target(isa))
    target_machine(generic_target("neon"))
    assert "not a recognized" not in capfd.readouterr().err


@pytest.mark.slow
def test_target_does_not_load_llvm():
    modules = ("plan.target", "runtime.machine.detect", "runtime.jit.llvm", "runtime.vecmath.table")
    code = "import sys, " + ", ".join(f"irc_compiler.{m}" for m in modules)
    code += "; sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0


def _write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def _cache(index, kind, level, size):
    stem = f"cpu0/cache/index{index}"
    return {f"{stem}/type": kind, f"{stem}/level": level, f"{stem}/size": size}


def test_cache_sizes(tmp_path):
    files = _cache(0, "Data\n", "1\n", "48K\n") | _cache(1, "Instruction", "1", "32K")
    files |= _cache(2, "Unified", "2", "2M")
    found = machine.cache_sizes(_write(tmp_path, files))
    assert (found[1], found[2]) == (48 << 10, 2 << 20)


def test_nonsense_cache_sizes_are_replaced(tmp_path):
    files = _cache(0, "Data", "1", "0K") | _cache(2, "Unified", "2", "junk")
    files |= _cache(3, "Unified", "3", "999999999G")
    found = machine.cache_sizes(_write(tmp_path, files))
    assert found[1] == 32 << 10 and 64 << 10 <= found[2] and found[3] == 8 << 20


def test_cgroup_v2_limits_of_all_levels(tmp_path):
    files = {"cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}
    files |= {"a/b/cpu.max": "300000 100000\n"}
    files |= {"a/memory.max": "1048576\n", "a/b/memory.max": "max\n", "me": "0::/a/b\n"}
    root = _write(tmp_path, files)
    assert cpus.cpu_quota(root, root / "me") == 1.5
    assert memory_limit(root, root / "me") == 1 << 20


def test_cgroup_v1_limits(tmp_path):
    files = {"cpu/x/cpu.cfs_quota_us": "200000", "cpu/x/cpu.cfs_period_us": "100000"}
    files |= {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}
    files |= {"memory/y/memory.limit_in_bytes": "4096"}
    files |= {"me": "3:cpu,cpuacct:/x\n2:memory:/y\n"}
    root = _write(tmp_path, files)
    assert cpus.cpu_quota(root, root / "me") == 2.0
    assert memory_limit(root, root / "me") == 4096


def test_no_cgroup_no_limit(tmp_path):
    assert cpus.cpu_quota(tmp_path, tmp_path / "none") is None
    assert memory_limit(tmp_path, tmp_path / "none") > 1 << 20


def test_usable_cores_follow_quota_and_affinity(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    for quota, cores in ((None, 4), (0.5, 1), (1.5, 2), (2.0, 2), (64.0, 4)):
        monkeypatch.setattr(cpus, "cpu_quota", lambda quota=quota: quota)
        assert cpus.usable_cores() == cores
        assert default_threads() == cores


ON_ONE_CPU = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import irc_compiler as irc
from irc_compiler import ops
x = ops.parameter("x", [4])
print(irc.compile_model(ops.model({"y": x + x})).session.num_threads)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="not run: no CPU affinity on this system"
)
def test_a_model_uses_no_more_threads_than_the_process_may():
    words = [sys.executable, "-c", ON_ONE_CPU]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
