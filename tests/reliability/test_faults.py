"""Killed, interrupted, without room or rights: files are whole or absent, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from support.reliability.scripts import run_script

from tests.reliability.conftest import Load

KILL_EXPORT = """
nets = [irc.compile_model(DIGITS, shapes={"image": [n, None]}) for n in (3, 4)]
target = Path("net.irc")
rng, found = random.Random(1), {3: 0, 4: 0}
nets[0].export(target)
started = time.perf_counter()
nets[0].export(target)
span = time.perf_counter() - started
killed = 0
for moment in range(COUNT):
    before = target.stat().st_ino
    child = os.fork()
    if not child:
        while True:
            for n in (moment, moment + 1):
                nets[n % 2].export(target)
                if moment < 2:
                    signal.pause()
    # The first two moments come after one whole export, of either net.
    while moment < 2 and target.stat().st_ino == before:
        pass
    time.sleep(rng.uniform(0, 4 * span) if moment > 1 else 0)
    os.kill(child, signal.SIGKILL)
    killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    net = irc.compile_model(target)
    size = net.inputs[0].shape[0]
    x = np.resize(X, (size, 64))
    assert (net(x)[0] == nets[size - 3](x)[0]).all()
    found[size] += 1
left = [p.name for p in Path(".").iterdir() if p.name not in ("net.irc", "cache")]
assert all(n.startswith(".net.irc.") and n.endswith(".tmp") for n in left), left
print(json.dumps({"killed": killed, "whole": sum(found.values()), "both": all(found.values())}))
"""


@pytest.mark.slow
def test_killed_while_writing_an_artefact(load: Load, tmp_path: Path) -> None:
    found = run_script(KILL_EXPORT.replace("COUNT", str(load.moments)), tmp_path)
    assert found == {"killed": load.moments, "whole": load.moments, "both": True}


KILL_CONVERT = """
from irc_compiler import ops

def model(n):
    # Of other sizes, so that the weights of one at the places of the other are wrong answers.
    x = ops.parameter("x", ["N", 40 + n])
    return ops.model({"y": ops.matmul(x, np.full((40 + n, 300), n, np.float32))})

models, target = [model(1), model(2)], Path("net.xml")
rng, found, killed = random.Random(3), [0, 0, 0], 0
irc.save_model(models[0], target)
for moment in range(COUNT):
    child = os.fork()
    if not child:
        while True:
            for n in (moment, moment + 1):
                irc.save_model(models[n % 2], target)
    time.sleep(rng.uniform(0.002, 0.05))
    os.kill(child, signal.SIGKILL)
    killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    if not target.exists():
        found[0] += 1
        continue
    net = irc.compile_model(target, num_threads=1)
    rows = net.inputs[0].shape[1]
    assert (net(np.ones((1, rows), np.float32))[0] == rows * (rows - 40)).all()
    found[rows - 40] += 1
left = [p.name for p in Path(".").iterdir() if p.name not in ("net.xml", "net.bin", "cache")]
assert all(n.startswith(".net.") and n.endswith(".tmp") for n in left), left
print(json.dumps({"killed": killed, "found": found}))
"""


@pytest.mark.slow
def test_killed_while_writing_a_model(load: Load, tmp_path: Path) -> None:
    """.xml and .bin are of one model, or there is no .xml."""
    found = run_script(KILL_CONVERT.replace("COUNT", str(load.moments)), tmp_path)
    print(found)
    assert found["killed"] == load.moments == sum(found["found"]) and any(found["found"][1:])


@pytest.mark.parametrize("call", ["unlink", "replace"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2])
def test_killed_between_two_files(call: str, when: str, nth: int, tmp_path: Path) -> None:
    """Dead just before or after each change of the folder: never one old file besides a new one."""
    from irc_compiler.compiler.export import files

    targets = [tmp_path / "m.bin", tmp_path / "m.xml"]
    for target in targets:
        target.write_bytes(b"old")
    child = os.fork()
    if not child:
        real, count = getattr(os, call), [0]

        def killed(*args: Any, **options: Any) -> None:
            count[0] += 1
            if count[0] == nth and when == "before":
                os._exit(9)
            real(*args, **options)
            if count[0] == nth:
                os._exit(9)

        setattr(os, call, killed)
        with files.replace_files(*targets) as streams:
            for stream in streams:
                stream.write(b"new")
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == (0 if (call, nth) == ("unlink", 2) else 9)
    there = [t.read_bytes() for t in targets if t.exists()]
    assert len(set(there)) == 1 and (len(there) == 2 or not targets[1].exists())


KILL_CACHE = """
from irc_compiler.runtime.jit.disk_cache import DiskCache
cache = DiskCache(Path("cache"))
assert cache.prepare()
payloads = {f"{n:064x}": random.Random(n).randbytes(200_000) for n in range(20)}
rng, killed, entries = random.Random(2), 0, 0
for moment in range(COUNT):
    child = os.fork()
    if not child:
        while True:
            for key, payload in payloads.items():
                cache.put(key, payload)
    time.sleep(rng.uniform(0.001, 0.02))
    while not (moment or cache.entries()):
        time.sleep(0.001)  # the first has one whole entry at least
    os.kill(child, signal.SIGKILL)
    killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    for entry in cache.entries():
        assert cache.get(entry.key) == payloads[entry.key]
        entries += 1
left = [p for p in Path("cache").iterdir() if p.name.startswith(".new-")]
for path in left:
    os.utime(path, (1, 1))  # as it is some minutes later
cache.put("ab" * 32, b"x")
rest = [p.name for p in Path("cache").iterdir() if p.name.startswith(".new-")]
print(json.dumps({"killed": killed, "entries": entries, "rest": rest}))
"""


@pytest.mark.slow
def test_killed_while_writing_the_cache(load: Load, tmp_path: Path) -> None:
    """No broken entry is ever read, and what the dead left behind is swept up later."""
    found = run_script(KILL_CACHE.replace("COUNT", str(load.moments)), tmp_path)
    assert found["killed"] == load.moments and found["entries"] > 0 and found["rest"] == []


NO_ROOM = """
import resource
net = irc.compile_model(DIGITS)
net.export("net.irc")
before = Path("net.irc").read_bytes()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
errors = []
for write in (lambda: net.export("net.irc"), lambda: irc.save_model(net.model, "net.xml")):
    try:
        write()
    except irc.Error as error:
        errors.append(str(error).split("\\n")[0])
os.environ["IRC_CACHE_DIR"] = "cold"  # nothing fits into it: a comfort less
irc.runtime.jit.program._loaded.clear()  # or nothing would be compiled
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 8000))
again = irc.compile_model(DIGITS, num_threads=1)
same = bool((again(X)[0] == net(X)[0]).all()) and again.stats().compiled > 0
codes = {}
for verb, *words in COMMANDS:
    with contextlib.redirect_stderr(io.StringIO()) as told:
        code = main([verb, DIGITS, *words])
    codes[" ".join([verb, *words])] = (code, told.getvalue().partition("\\n")[0])
left = sorted(p.name for p in Path(".").iterdir() if p.name != "cache")
whole = Path("net.irc").read_bytes() == before
cold = [p.name for p in Path("cold").iterdir()]
found = {"errors": errors, "same": same, "left": left, "whole": whole, "cold": cold}
print(json.dumps(found | {"codes": codes}))
"""
COMMANDS = [
    ["convert", "-o", "c.xml"], ["compile", "-o", "c.irc"],
    ["run", "--input", "image=x.npy", "-o", "o.npy"],
    ["run", "--input", "image=x.npy", "-o", "o.npz"],
    ["profile", "--runs", "1", "--trace", "t.json"], ["profile", "--runs", "1", "--xml", "p.xml"],
    ["graph", "-o", "g.html"], ["graph", "-o", "g.svg"], ["graph", "-o", "g.dot"],
]  # fmt: skip


@pytest.mark.slow
def test_no_room_on_the_disk(tmp_path: Path) -> None:
    """By the limit of a file's size, which fails as a full disk does: in the middle of writing."""
    np.save(tmp_path / "x.npy", np.zeros((9, 64), np.float32))
    commands = [
        f"import contextlib, io\nfrom irc_compiler.cli.main import main\nCOMMANDS = {COMMANDS!r}\n"
    ]
    found = run_script("".join([*commands, NO_ROOM]), tmp_path)
    assert found["errors"] == ["the file cannot be written"] * 2
    assert len(found["codes"]) == len(COMMANDS)
    for code, said in found["codes"].values():
        assert (code, said) == (5, "irc: error: the file cannot be written"), found["codes"]
    assert found["left"] == ["cold", "net.irc", "x.npy"] and found["whole"] and found["same"]
    assert found["cold"] == []


READ_ONLY = """
import irc_compiler.compiler.lowering, irc_compiler.runtime.execution.session
import irc_compiler.runtime.jit.llvm, irc_compiler.cli.main
import irc_compiler.compiler.export.xml, irc_compiler.runtime.artifact.writer
import irc_compiler.compiler.frontends.onnx.reader
net = irc.compile_model(DIGITS)
model = Path(DIGITS).read_bytes()
if os.getuid() == 0:
    os.chown("cache", 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)
errors = []
for write in (lambda: net.export("net.irc"), lambda: irc.save_model(net.model, "net.xml")):
    try:
        write()
    except irc.Error as error:
        errors.append((error.what, error.got, error.exit_code))
same = []
for folder in ("cache", "cache/new"):  # one's own, and one that cannot be made
    os.environ["IRC_CACHE_DIR"] = folder
    irc.runtime.jit.program._loaded.clear()  # or nothing would be compiled
    again = irc.compile_model(model, num_threads=1)
    same.append(bool((again(X)[0] == net(X)[0]).all()) and again.stats().compiled > 0)
print(json.dumps({"errors": errors, "same": all(same)}))
"""


@pytest.mark.slow
def test_a_read_only_folder(tmp_path: Path) -> None:
    """The cache there is no cache; writing there is a clear error."""
    (tmp_path / "cache").mkdir()
    tmp_path.chmod(0o555)
    (tmp_path / "cache").chmod(0o500)
    for parent in tmp_path.parents[:2]:
        parent.chmod(parent.stat().st_mode | 0o055)  # pytest's folders are private
    try:
        found = run_script(READ_ONLY, tmp_path)
    finally:
        tmp_path.chmod(0o755)
    assert found["errors"] == [["the file cannot be written", "Permission denied", 5]] * 2
    assert found["same"] and [p.name for p in tmp_path.iterdir()] == ["cache"]


def big_model(path: Path) -> None:
    """Some megabytes, so that compiling and writing take a while."""
    from irc_compiler import ops

    rng = np.random.default_rng(0)
    x = ops.parameter("x", ["N", 512])
    for _ in range(6):
        x = ops.relu(ops.matmul(x, rng.standard_normal((512, 512)).astype(np.float32)))
    irc.save_model(ops.model({"y": x}), path)


# Options next to the model, and the files that come of them.
LARGE_COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "compile": (["-o", "out.irc"], ["out.irc"]),
    "convert": (["-o", "out.xml"], ["out.xml", "out.bin"]),
    "graph": (["-o", "out.html"], ["out.html"]),
    "run": (["--input", "x=big.npy", "-o", "out.npz"], ["out.npz"]),
    "profile": (["--trace", "out.json", "--xml", "out.xml"], ["out.json", "out.xml"]),
    "compare": (["--layers"], []),
}


@pytest.mark.slow
@pytest.mark.extended(when=lambda params: params["verb"] not in ("compile", "run"))
@pytest.mark.parametrize("verb", LARGE_COMMANDS)
def test_interrupted_without_litter(verb: str, load: Load, tmp_path: Path) -> None:
    big_model(tmp_path / "big.xml")
    np.save(tmp_path / "big.npy", np.ones((4, 512), np.float32))
    options, names = LARGE_COMMANDS[verb]
    # A shell starts what runs in the background with SIGINT ignored, and children inherit that.
    driver = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from irc_compiler.cli.entry import entry; print('ready', flush=True);"
        f"sys.argv = {['irc', verb, 'big.xml', '-q', *options]!r}; entry()"
    )
    codes: list[int] = []
    duration = float("inf")
    for moment in range(load.interrupts + 2):
        cache = tmp_path / f"cache{moment}"
        process = subprocess.Popen(
            [sys.executable, "-c", driver],
            cwd=tmp_path,
            env={**os.environ, "IRC_CACHE_DIR": str(cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        started = time.perf_counter()
        if moment:
            # The first run goes to its end and says how long there is to interrupt the others;
            # the second is interrupted at once, however fast the machine has become meanwhile.
            time.sleep(duration * (moment - 1) / (load.interrupts + 1))
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
        if process.returncode == 0:
            duration = min(duration, time.perf_counter() - started)
        codes.append(process.returncode)
        assert process.returncode in (0, 130, -signal.SIGINT), errors[-2000:]
        if process.returncode == 130:
            assert errors == "irc: interrupted\n"
        left = {p.name for p in tmp_path.iterdir() if not p.name.startswith(("cache", "big."))}
        assert left <= set(names), left
        assert not cache.exists() or not [p for p in cache.iterdir() if p.name.startswith(".")]
    assert codes[0] == 0 and 130 in codes


@pytest.mark.parametrize("call", ["open", "fdopen", "fsync", "unlink", "replace"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2])
def test_interrupted_inside_a_write(
    call: str, when: str, nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C just before or after each step that the system takes for the two files of a model:
    both are the old ones or both the new ones, whole, and nothing lies next to them."""
    from irc_compiler.compiler.export import files

    targets = [tmp_path / "m.bin", tmp_path / "m.xml"]
    for target in targets:
        target.write_bytes(b"old")
    real, count = getattr(os, call), [0]

    def interrupted(*args: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] == nth and when == "before":
            raise KeyboardInterrupt
        found = real(*args, **options)
        if count[0] == nth:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(os, call, interrupted)
    once = (call, nth) == ("unlink", 2)  # there is one such call
    raised = contextlib.nullcontext() if once else pytest.raises(KeyboardInterrupt)
    with raised, files.replace_files(*targets) as streams:
        for stream in streams:
            stream.write(b"new" * 100_000)
    monkeypatch.undo()
    assert {p.name for p in tmp_path.iterdir()} == {"m.xml", "m.bin"}
    found = {t.read_bytes() for t in targets}
    assert len(found) == 1 and found <= {b"old", b"new" * 100_000}
