"""The folder of the code cache: opened once, checked by its descriptor, private up to the root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from irc_compiler.cli.main import main
from irc_compiler.runtime.jit import private_folder
from irc_compiler.runtime.jit.disk_cache import DiskCache, default_cache
from irc_compiler.runtime.jit.private_folder import HAS_DIR_FD, NotPrivateError, PrivateFolder

KEY = "0123456789abcdef" * 4
pytestmark = pytest.mark.skipif(not HAS_DIR_FD, reason="not run: the system has no openat")


def _write(folder: PrivateFolder, content: bytes) -> None:
    with folder.create("name", "new") as file:
        file.write(content)


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="not run: only root can be another user"
)
def test_as_another_user() -> None:
    """A folder on the way need not be readable; a folder of root is not this user's."""
    base = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        (base / "home" / "me").mkdir(parents=True)
        os.chown(base / "home" / "me", 65534, 65534)
        (base / "home").chmod(0o711)
        base.chmod(0o711)
        child = os.fork()
        if not child:
            try:
                os.setuid(65534)
                _write(PrivateFolder(base / "home" / "me" / "cache"), b"content")
                assert not DiskCache(base / "home").prepare()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert (base / "home" / "me" / "cache" / "name").read_bytes() == b"content"
        with pytest.raises(NotPrivateError, match="another user owns"):
            PrivateFolder(base / "home" / "me" / "cache")
    finally:
        shutil.rmtree(base)


def test_files_come_back(tmp_path: Path) -> None:
    folder = PrivateFolder(tmp_path / "a" / "b")
    _write(folder, b"content")
    assert folder.read("name", 100) == b"content"
    assert [n for n, _ in folder.list_files()] == ["name"]
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    folder.remove("name")
    assert not list((tmp_path / "a" / "b").iterdir())
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        PrivateFolder(tmp_path / "a" / "b")
        with pytest.raises(OSError):
            PrivateFolder(tmp_path / "a" / "b" / ("x" * 300))
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after <= before


def test_a_link_is_not_the_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(OSError):
        PrivateFolder(tmp_path / "link")
    assert not DiskCache(tmp_path / "link").prepare()


def test_ones_own_links_on_the_way_are_followed(tmp_path: Path) -> None:
    (tmp_path / "disk" / "me").mkdir(parents=True)
    (tmp_path / "home").symlink_to("disk/me")
    (tmp_path / "there").symlink_to(tmp_path / "disk")
    (tmp_path / "up").symlink_to("disk/me/../me")
    for way in ("home", "there/me", "up"):
        _write(PrivateFolder(tmp_path / way / "cache"), way.encode())
        assert (tmp_path / "disk" / "me" / "cache" / "name").read_bytes() == way.encode()
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError):
        PrivateFolder(tmp_path / "round" / "cache")


def test_another_users_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    of = os.lstat

    def as_another(path: str, *, dir_fd: int | None = None) -> os.stat_result:
        found = of(path, dir_fd=dir_fd)
        return os.stat_result((*found[:4], 4242, *found[5:10]))

    monkeypatch.setattr(private_folder.os, "lstat", as_another)
    with pytest.raises(NotPrivateError, match="link"):
        PrivateFolder(tmp_path / "link" / "cache")


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_parent_that_others_can_write_is_refused(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user who can write to it can rename the folder and create another one of its name."""
    folder = tmp_path / "shared" / "inner" / "cache"
    folder.mkdir(parents=True, mode=0o700)
    (tmp_path / "shared").chmod(mode)
    with pytest.raises(NotPrivateError, match="on the way"):
        PrivateFolder(folder)
    monkeypatch.setenv("IRC_CACHE_DIR", str(folder))
    assert default_cache() is None
    assert main(["cache"]) == 0
    said = capsys.readouterr().out
    assert f"mode {mode:o}" in said and str(tmp_path / "shared") in said
    assert main(["doctor"]) == 0
    assert "other users can write" in capsys.readouterr().out
    (tmp_path / "shared").chmod(mode | 0o1000)  # sticky: others rename only what is theirs
    assert default_cache() is not None
    (tmp_path / "shared" / "inner").chmod(0o777)
    assert default_cache() is None


def test_a_parent_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    inode = (tmp_path / "theirs").stat().st_ino
    of = os.fstat

    def as_another(fd: int) -> os.stat_result:
        found = of(fd)
        theirs = found.st_ino == inode
        return os.stat_result((*found[:4], 4242, *found[5:10])) if theirs else found

    monkeypatch.setattr(private_folder.os, "fstat", as_another)
    with pytest.raises(NotPrivateError, match="another user owns"):
        PrivateFolder(tmp_path / "theirs" / "cache")
    with pytest.raises(NotPrivateError, match="alone"):
        PrivateFolder(tmp_path / "theirs")


@pytest.mark.parametrize("when", ["while it is checked", "afterwards"])
def test_a_folder_that_is_swapped(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was opened and checked is used, not what the path leads to meanwhile."""
    mine, theirs = tmp_path / "cache", tmp_path / "theirs"
    DiskCache(mine).put(KEY, b"mine")
    DiskCache(theirs).put(KEY, b"theirs")
    theirs.chmod(0o777)
    swapped = list[bool]()

    def swap() -> None:
        if not swapped:
            swapped.append(True)
            mine.rename(tmp_path / "away")
            theirs.rename(mine)

    check = private_folder._require_own

    def check_late(found: os.stat_result, shown: str) -> None:
        swap()
        check(found, shown)

    if when == "while it is checked":
        monkeypatch.setattr(private_folder, "_require_own", check_late)
    cache = DiskCache(mine)
    assert cache.prepare()
    swap()
    assert cache.get(KEY) == b"mine"
    cache.put("f" * 64, b"new")
    assert (tmp_path / "away" / ("f" * 64)).exists() and not (mine / ("f" * 64)).exists()
    assert [e.key for e in cache.entries()] == [KEY, "f" * 64]
    assert cache.clear() == 2 and (mine / KEY).exists()
    assert not DiskCache(mine).prepare()


PLACED: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda at, whole: at.symlink_to(whole),
    "dangling link": lambda at, whole: at.symlink_to("nothing"),
    "fifo": lambda at, whole: os.mkfifo(at),
    "writable by the group": lambda at, whole: (
        at.write_bytes(whole.read_bytes()),
        at.chmod(0o620),
    ),
    "writable by all": lambda at, whole: (at.write_bytes(whole.read_bytes()), at.chmod(0o602)),
}


@pytest.mark.parametrize("what", PLACED)
def test_an_entry_that_was_replaced(what: str, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put(KEY, b"payload")
    whole = tmp_path / "whole"
    (tmp_path / "cache" / KEY).rename(whole)
    PLACED[what](tmp_path / "cache" / KEY, whole)
    assert cache.get(KEY) is None
    assert not (tmp_path / "cache" / KEY).is_symlink() and whole.exists()
    cache.put(KEY, b"payload")
    assert cache.get(KEY) == b"payload"


def test_an_entry_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put(KEY, b"payload")
    inode, of = (tmp_path / "cache" / KEY).stat().st_ino, os.fstat

    def as_another(fd: int) -> os.stat_result:
        found = of(fd)
        theirs = found.st_ino == inode
        return os.stat_result((*found[:4], 4242, *found[5:10])) if theirs else found

    monkeypatch.setattr(private_folder.os, "fstat", as_another)
    assert cache.get(KEY) is None


def test_an_entry_beyond_the_bound_is_not_read(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", limit=1000)
    assert cache.prepare()
    os.truncate(os.open(tmp_path / "cache" / KEY, os.O_CREAT | os.O_WRONLY, 0o600), 1 << 40)
    assert cache.get(KEY) is None
