"""Files are complete or unchanged; devices, FIFOs and links are not replaced."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from outputs import fifo, left_over, null_device
from tiny_run import files_in

from backend.errors import UserError
from nmt.files import check_writable, new_directory, read_file, sweep, write_file, write_text

ROOT = Path(__file__).resolve().parents[2]


def test_a_new_file_has_the_mode_of_the_umask_an_old_one_keeps_its_own(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "new", [b"a"])
        write_file(tmp_path / "old", [b"a"])
        (tmp_path / "old").chmod(0o604)
        write_file(tmp_path / "old", [b"b", memoryview(b"cd"), b""])
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o604
    assert (tmp_path / "old").read_bytes() == b"bcd" and not left_over(tmp_path)


def test_a_device_stays_a_device(tmp_path):
    path = null_device(tmp_path / "null")
    write_file(path, [b"a"])
    assert path.is_char_device() and os.listdir(tmp_path) == ["null"]


def test_a_file_is_read_to_its_limit(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    assert read_file(tmp_path / "f", 3, "a note") == b"abc"
    for path, most in ((tmp_path / "f", 2), ("/dev/zero", 1000)):
        with pytest.raises(UserError) as caught:
            read_file(path, most, "a note")
        assert str(caught.value) == f"{path}: expected a note of at most {most:,} bytes, got more"
    with pytest.raises(UserError, match="none: cannot be read: No such file"):
        read_file(tmp_path / "none", 3, "a note")


def test_a_fifo_is_written_into(tmp_path):
    with fifo(tmp_path / "f") as read:
        write_file(tmp_path / "f", [b"a", b"b"])
    assert read == [b"ab"] and (tmp_path / "f").is_fifo()


def test_links_are_followed_and_stay(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_text("old")
    for name, goal in (("two", "one"), ("one", "far/file"), ("dangling", "far/new")):
        (tmp_path / name).symlink_to(goal)
    write_text(tmp_path / "two", "ü")
    write_text(tmp_path / "dangling", "n")
    assert all((tmp_path / name).is_symlink() for name in ("one", "two", "dangling"))
    assert (tmp_path / "far" / "file").read_bytes() == "ü".encode()
    assert (tmp_path / "far" / "new").read_text() == "n" and not left_over(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UserError, match="loop: cannot be written: Too many levels"):
        write_text(tmp_path / "loop", "")


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="this system has no /proc")
def test_standard_output_goes_on_where_it_stands(tmp_path):
    """A file that the shell has opened is neither replaced nor overwritten."""
    code = ("import os; from nmt.files import write_text; print('before');"
            "write_text('/proc/self/fd/1', 'text\\n'); write_text('out', 'linked\\n');"
            "print('after')")
    (tmp_path / "out").symlink_to("/proc/self/fd/1")
    with open(tmp_path / "file", "wb") as file:
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, stdout=file, check=True,
                       env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (tmp_path / "file").read_text() == "before\ntext\nlinked\nafter\n"


@pytest.mark.parametrize("call", ["open", "write", "fsync", "fchmod", "replace"])
def test_where_it_fails_the_old_file_stands(tmp_path, monkeypatch, call):
    write_text(tmp_path / "f", "old")

    def fail(*arguments, **settings):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(UserError, match=r"/f: cannot be written: No space left on device$"):
        write_text(tmp_path / "f", "new")
    monkeypatch.undo()
    assert (tmp_path / "f").read_text() == "old" and os.listdir(tmp_path) == ["f"]


def test_a_call_that_writes_a_part_is_gone_on_with(tmp_path, monkeypatch):
    write, sizes = os.write, []

    def one_byte(descriptor, data):
        sizes.append(len(data))
        return write(descriptor, data[:1])

    monkeypatch.setattr(os, "write", one_byte)
    write_file(tmp_path / "f", [b"abc", b"d"])
    assert (tmp_path / "f").read_bytes() == b"abcd" and sizes == [3, 2, 1, 1]


def test_what_a_killed_process_left_is_swept_what_a_living_one_writes_is_not(tmp_path):
    """The second write is made while the first one's parts are being written."""
    for name in (".f.0123456789abcdef.unfinished", ".g.0123456789abcdef.unfinished",
                 ".f.notes", ".f.0123456789abcdef.unfinished.txt"):
        (tmp_path / name).touch()

    def parts():
        yield b"first"
        write_text(tmp_path / "f", "second")
        sweep(tmp_path)
        assert len(left_over(tmp_path)) == 3  # both that are no unfinished files, and this one

    write_file(tmp_path / "f", parts())
    assert (tmp_path / "f").read_text() == "first"
    assert sorted(left_over(tmp_path)) == [".f.0123456789abcdef.unfinished.txt", ".f.notes"]


def test_names_as_long_as_a_directory_takes(tmp_path):
    for name in ("n" * 255, "ü" * 127):
        write_text(tmp_path / name, "x")
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize(("name", "fine"), [
    ("new", True), ("file", True), ("fifo", True), ("link", True), ("directory", False),
    ("absent/new", False), ("file/new", False), ("to absent", False),
])
def test_whether_a_path_can_be_written_is_known_before_the_work(tmp_path, name, fine):
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("directory/new")
    (tmp_path / "to absent").symlink_to("absent/new")
    if fine:
        check_writable(tmp_path / name)
        return
    with pytest.raises(UserError, match=f"{name}: expected a file in a directory that can be wr"):
        check_writable(tmp_path / name)


def test_a_new_directory_is_whole_or_not_there(tmp_path):
    """Also into an empty one; what a killed process left is swept."""
    (tmp_path / "empty").mkdir()
    for name in ("new/inner", "empty"):
        with new_directory(tmp_path / name) as unfinished:
            (unfinished / "a").write_text("a")
            assert not (tmp_path / name / "a").exists()
        assert files_in(tmp_path / name) == {"a"}
    left = tmp_path / ".failed.0123456789abcdef.unfinished"
    left.mkdir()
    (left / "a").touch()
    with pytest.raises(ZeroDivisionError), new_directory(tmp_path / "failed") as unfinished:
        (unfinished / "a").touch()
        sweep(tmp_path)
        assert (unfinished / "a").exists()
        raise ZeroDivisionError
    with pytest.raises(UserError, match="failed: cannot be written: No space left"), \
            new_directory(tmp_path / "failed"):
        raise OSError(28, "No space left on device")
    with pytest.raises(UserError, match="empty: expected a new or empty directory"), \
            new_directory(tmp_path / "empty"):
        raise AssertionError
    assert files_in(tmp_path) == {"new", "new/inner", "new/inner/a", "empty", "empty/a"}
