"""Machine code in an artefact runs where the user says so, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.cli.main import main
from irc_compiler.runtime.artifact.code import pack_images, unpack_images
from irc_compiler.runtime.jit import program
from irc_compiler.runtime.jit.host_features import available_isas
from support.artifacts import Parts, X, alike, kernels, refused, with_other_code


def test_code_is_stored_only_when_asked_for(tiny_artifact: bytes, with_code: bytes) -> None:
    assert b'"code"' not in tiny_artifact and len(kernels(with_code)) > 0
    assert not irc.CompiledModel.load(tiny_artifact).has_stored_code
    assert irc.CompiledModel.load(with_code).has_stored_code


def test_untrusted_code_is_made_again(
    cold: Path, with_code: bytes, tiny_net: irc.CompiledModel
) -> None:
    net = irc.CompiledModel.load(with_code)
    assert net.program.compiled == len(kernels(with_code))
    assert alike(net(X), tiny_net(X))
    # What LLVM made is in the user's own cache from now on, and nothing is compiled again.
    program._loaded.clear()
    assert irc.CompiledModel.load(with_code).program.compiled == 0


def test_trusted_code_runs_and_stays_with_its_program(
    cold: Path, with_code: bytes, tiny_net: irc.CompiledModel
) -> None:
    net = irc.CompiledModel.load(with_code, trust_code=True)
    assert net.program.compiled == 0 and alike(net(X), tiny_net(X))
    # Neither the cache nor another program of this process gets it.
    cached = {p.name for p in cold.iterdir()} if cold.exists() else set()
    assert not {k for k, _, _ in kernels(with_code)} & cached
    assert irc.CompiledModel.load(with_code).program.compiled == len(kernels(with_code))


def test_without_trust_the_code_is_not_even_read(
    cold: Path, with_code: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("stored code was read")

    monkeypatch.setattr(irc.runtime.artifact.reader, "unpack_images", never)
    monkeypatch.setattr(irc.runtime.artifact.reader.Artifact, "read_code", never)
    forged = with_other_code(with_code, lambda _: b"\x00" * 8 + b"no object code")
    assert irc.CompiledModel.load(forged).program.compiled == len(kernels(forged))


def test_the_users_own_code_goes_before_the_files(
    cold: Path, with_code: bytes, tiny_net: irc.CompiledModel
) -> None:
    """What the private cache holds is used, trust or not: forged code would end the process."""
    irc.CompiledModel.load(with_code)
    program._loaded.clear()
    forged = with_other_code(with_code, lambda _: b"\x00" * 8 + b"no object code")
    net = irc.CompiledModel.load(forged, trust_code=True)
    assert net.program.compiled == 0 and alike(net(X), tiny_net(X))


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_code_for_other_features_is_not_found(
    isa: str, cold: Path, with_code: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the plan nor its code is for this Target: both are made again."""
    if isa not in available_isas()[1:]:
        pytest.skip(f"not run: {isa} is the best that this machine has, or it has none")
    monkeypatch.setenv("IRC_ISA", isa)
    net = irc.CompiledModel.load(with_code, trust_code=True)
    assert net.program.compiled > 0 and not net.has_stored_code


def test_code_of_other_generators_is_not_found(
    cold: Path, with_code: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_generators", lambda: "another irc, another LLVM")
    net = irc.CompiledModel.load(with_code, trust_code=True)
    assert net.program.compiled == len(kernels(with_code))


def test_tampered_code(cold: Path, with_code: bytes) -> None:
    flipped = with_other_code(with_code, lambda d: d[:-1] + bytes([d[-1] ^ 1]), digests=False)
    with pytest.raises(irc.ArtifactError, match="stored code is broken") as caught:
        irc.CompiledModel.load(flipped, trust_code=True)
    assert "(code" in str(caught.value)
    damaged = bytearray(with_code)
    _, offset, size = next(s for s in Parts(with_code).manifest["sections"] if s[0] == "code")
    damaged[offset + size // 2] ^= 1
    refused(bytes(damaged), "damaged")


@pytest.mark.parametrize(
    "table",
    [
        7,
        [["x" * 64, 1, ""]],
        [["0" * 64, -1, ""]],
        [["0" * 64, 1 << 62, ""]],
        [["0" * 64, 0, ""]],
        [],
        None,
    ],
)
def test_a_broken_table_of_code(table: Any, with_code: bytes) -> None:
    parts = Parts(with_code)
    parts.manifest["plans"][0]["kernels"] = table
    broken = parts.seal(json.dumps(parts.manifest).encode())
    with pytest.raises(irc.ArtifactError, match="stored code is broken"):
        irc.CompiledModel.load(broken, trust_code=True)
    parts.manifest["plans"][0]["code"] = 0
    refused(parts.seal(json.dumps(parts.manifest).encode()), "code is wrong")


def test_packing() -> None:
    images = {f"{n:064x}": bytes([n]) * n for n in range(4)}
    assert unpack_images(*pack_images(images)) == images


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    digits = Path(__file__).resolve().parents[3] / "samples" / "digits" / "digits.onnx"
    assert main(["compile", str(digits), "--with-code", "-o", "m.irc"]) == 0
    np.save("x.npy", np.zeros((2, 64), np.float32))
    run = ["run", "m.irc", "--input", "image=x.npy", "-v"]
    capsys.readouterr()
    assert main(run) == 0
    assert "machine code is not used" in capsys.readouterr().err
    assert main([*run, "--trust-code"]) == 0
    assert "machine code is trusted" in capsys.readouterr().err
