"""The code cache on disk: whole entries or none, bounded, private."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO

import irc_compiler as irc
import pytest
from irc_compiler.runtime.jit.disk_cache import DiskCache, default_cache

try:
    import resource
except ImportError:  # there is none on Windows
    resource = None

KEY = "0123456789abcdef" * 4


def test_round_trip_and_damage(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    assert cache.get(KEY) is None
    cache.put(KEY, b"payload")
    assert cache.get(KEY) == b"payload"
    whole = (tmp_path / KEY).read_bytes()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        (tmp_path / KEY).write_bytes(bytes(damaged))
        assert cache.get(KEY) is None and not (tmp_path / KEY).exists()
    for length in range(len(whole)):
        (tmp_path / KEY).write_bytes(whole[:length])
        assert cache.get(KEY) is None
    # An entry under another key's name is not that key's.
    (tmp_path / ("f" * 64)).write_bytes(whole)
    assert cache.get("f" * 64) is None


def test_keys_are_names_of_files_only(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    assert cache.prepare()
    for key in ("../" + KEY, "x", KEY.upper(), KEY + "/"):
        cache.put(key, b"payload")
        assert cache.get(key) is None
    assert not list(tmp_path.rglob("*payload*")) and not cache.entries()


def test_programs_are_files_next_to_entries(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    assert cache.open_file(KEY) is None
    cache.put_file(KEY, lambda stream: stream.writelines([b"content"]), 100)
    file = cache.open_file(KEY)
    assert file is not None
    with file:
        assert file.read() == b"content"
    assert [(e.key, e.size) for e in cache.entries()] == [(f"{KEY}.program", 7)]
    assert cache.get(KEY) is None
    cache.remove_file(KEY)
    assert cache.open_file(KEY) is None and not cache.entries()


def test_a_program_that_is_too_large_or_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(stream: BinaryIO) -> None:
        stream.write(b"some")
        raise OSError("no space")

    cache = DiskCache(tmp_path / "cache")
    cache.put_file(KEY, lambda stream: stream.writelines([bytes(101)]), 100)
    cache.put_file(KEY, fail, 100)
    cache.put_file("../" + KEY, lambda stream: stream.writelines([b"content"]), 100)
    assert not cache.entries() and not list((tmp_path / "cache").iterdir())
    assert cache.open_file("../" + KEY) is None


def test_a_program_that_others_could_write_is_removed(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put_file(KEY, lambda stream: stream.writelines([b"content"]), 100)
    path = tmp_path / "cache" / f"{KEY}.program"
    path.chmod(0o666)
    assert cache.open_file(KEY) is None and not path.exists()
    (tmp_path / "other").write_bytes(b"content")
    path.symlink_to(tmp_path / "other")
    assert cache.open_file(KEY) is None and not path.is_symlink()
    assert (tmp_path / "other").exists()


def test_programs_count_for_the_bound(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=1000)
    keys = [f"{i:064x}" for i in range(4)]
    for i, key in enumerate(keys):
        cache.put_file(key, lambda stream: stream.writelines([bytes(400)]), 500)
        os.utime(tmp_path / f"{key}.program", (i, i))
    assert [e.key for e in cache.entries()] == [f"{key}.program" for key in keys[2:]]
    assert cache.clear() == 2


def test_bounded_the_longest_unused_goes(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=5 * 132)
    keys = [f"{i:064x}" for i in range(8)]
    for i, key in enumerate(keys):
        cache.put(key, bytes(100))
        if (tmp_path / key).exists():
            os.utime(tmp_path / key, (i, i))
    assert [e.key for e in cache.entries()] == keys[3:]
    cache.put("e" * 64, bytes(1000))
    assert cache.get("e" * 64) is None


def test_a_folder_that_others_can_write_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("IRC_CACHE_DIR", str(folder))
    assert default_cache() is None
    folder.chmod(0o700)
    assert default_cache() is not None
    with monkeypatch.context() as another_user:
        another_user.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
        assert default_cache() is None
    monkeypatch.setenv("IRC_CACHE_DIR", "off")
    assert default_cache() is None
    monkeypatch.setenv("IRC_CACHE_DIR", str(tmp_path / "new"))
    assert default_cache() is not None
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o711])
def test_a_folder_that_others_can_read_becomes_private(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "wide"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setenv("IRC_CACHE_DIR", str(folder))
    assert default_cache() is not None
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["abc", "-1", "1e6", "1.5", "\u0661", " "])
def test_a_bound_that_is_no_number_is_reported(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRC_CACHE_BYTES", text)
    with pytest.raises(irc.UsageError, match="not a number") as caught:
        default_cache()
    assert "IRC_CACHE_BYTES" in str(caught.value)
    monkeypatch.setenv("IRC_CACHE_BYTES", "")
    assert default_cache() is not None
    monkeypatch.setenv("IRC_CACHE_BYTES", "12345")
    cache = default_cache()
    assert cache is not None and cache.limit == 12345


def test_concurrent_writers_and_readers(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=20_000)
    wrong: list[object] = []

    def work(seed: int) -> None:
        for i in range(60):
            key = f"{(seed + i) % 40:064x}"
            cache.put(key, key.encode() * 10)
            found = cache.get(f"{i % 40:064x}")
            if found is not None and found != f"{i % 40:064x}".encode() * 10:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".new-")]


def test_what_cannot_be_written_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "replace", full)
    cache.put(KEY, b"payload")
    assert cache.get(KEY) is None and not list(tmp_path.iterdir())


@pytest.mark.skipif(resource is None, reason="not run: the system limits no file's size")
def test_a_write_that_stops_half_way_leaves_the_entry_before_it(tmp_path: Path) -> None:
    """The system lets a file grow to 64 KiB only: half an entry is written, then it is refused."""
    assert resource is not None
    cache = DiskCache(tmp_path)
    cache.put(KEY, b"payload")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, before[1]))
    try:
        cache.put(KEY, bytes(128 << 10))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert cache.get(KEY) == b"payload" and [p.name for p in tmp_path.iterdir()] == [KEY]
