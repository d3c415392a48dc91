"""The disk cache: what is put comes back exactly, and whatever goes wrong is a miss."""

import errno
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import traceback
import warnings

import pytest

from fusedsl.runtime import cache as module
from fusedsl.runtime import cache_files
from fusedsl.runtime.cache import Cache, cache_key, versions

KEY = cache_key(text="a + b", arch="sm_90a")
FACTS = {"name": "k_1", "registers": 32, "widths": [1, 2.5, None, True], "text": "x ≤ y"}


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "kernels")


def test_an_entry_comes_back_exactly(cache):
    assert cache.get(KEY) is None
    cache.put(KEY, FACTS, b"\0\n{}\xff" * 100)
    assert cache.get(KEY) == (FACTS, b"\0\n{}\xff" * 100)
    assert Cache(cache.folder).get(KEY) == (FACTS, b"\0\n{}\xff" * 100)
    cache.put(KEY, {}, b"")
    assert cache.get(KEY) == ({}, b"")


def test_only_the_owner_can_read_folder_and_files(cache):
    cache.put(KEY, FACTS, b"x")
    cache.write_source("k_1", "pass\n")
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.folder.iterdir()} == {0o600}


def test_every_bit_flip_and_every_truncation_is_a_miss(cache):
    cache.put(KEY, {"a": 1}, b"binary")
    path = cache.folder / f"{KEY}.fused"
    whole = path.read_bytes()
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        assert cache.get(KEY) in (None, ({"a": 1}, b"binary"))  # a flip in the head's white space changes nothing
        path.write_bytes(whole[:place])
        assert cache.get(KEY) is None
        assert not path.exists()  # and the damaged file is gone
    for junk in (b"", b"\n", b"[" * 100_000, b"null\n", b'{"facts": "x"}\n', b"\xff\xfe"):
        path.write_bytes(junk)
        assert cache.get(KEY) is None


def test_an_entry_under_the_name_of_another_is_a_miss(cache):
    other = cache_key(text="a - b")
    cache.put(KEY, FACTS, b"x")
    os.rename(cache.folder / f"{KEY}.fused", cache.folder / f"{other}.fused")
    assert cache.get(other) is None


def test_an_entry_of_another_format_is_a_miss(cache, monkeypatch):
    monkeypatch.setattr(cache_files, "FORMAT", cache_files.FORMAT + 1)
    cache.put(KEY, FACTS, b"x")
    monkeypatch.undo()
    assert cache.get(KEY) is None


def test_keys_depend_on_everything_and_on_no_order():
    assert cache_key(a=1, b=[2]) == cache_key(b=[2], a=1)
    values = [1, 1.0, True, "1", 0.0, -0.0, None, [1], float("nan"), {"a": 1}]
    assert len({cache_key(a=value) for value in values} | {cache_key(b=1)}) == len(values) + 1
    assert versions()["numba"] and len(versions()["source"]) == 64


def test_versions_are_found_out_once_for_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setenv("FUSEDSL_CACHE_DIR", str(tmp_path))
    found, state = [], [("a.py", 10, 1, 2, 3)]
    monkeypatch.setattr(module, "_file_states", lambda: state)
    monkeypatch.setattr(module, "_read_versions", lambda: found.append(1) or {"source": str(len(found))})
    ask = versions.__wrapped__
    assert [ask(), ask()] == [{"source": "1"}] * 2 and len(found) == 1
    state[0] = ("a.py", 10, 1, 4, 3)  # written anew, with the same size and date
    assert ask() == {"source": "2"}

    def gone():
        raise OSError

    monkeypatch.setattr(module, "_file_states", gone)
    assert ask() == {"source": "3"}


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "A" * 64, KEY + "\n", KEY[:-1]])
def test_a_key_cannot_name_another_file(cache, key):
    with pytest.raises(ValueError):
        cache.get(key)
    with pytest.raises(ValueError):
        cache.put(key, {})


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x" * 200, ".hidden", "a\n"])
def test_a_source_cannot_be_written_elsewhere(cache, name):
    with pytest.raises(ValueError):
        cache.write_source(name, "pass")


def in_memory_only(cache, message):
    with pytest.warns(RuntimeWarning, match=message):
        cache.put(KEY, FACTS, b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # warned once
        assert cache.get(KEY) == (FACTS, b"x")
        assert cache.list() == []
        assert cache.clear() == 1
        assert cache.get(KEY) is None


def test_a_symbolic_link_is_not_followed(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    in_memory_only(Cache(tmp_path / "link"), "symbolic link")
    assert not list((tmp_path / "real").iterdir())


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_is_not_used(tmp_path, mode):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    in_memory_only(Cache(folder), "written by others")


def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    in_memory_only(Cache(tmp_path / "theirs"), "another user")


def test_a_file_in_the_way_is_not_used(tmp_path):
    (tmp_path / "file").write_text("")
    in_memory_only(Cache(tmp_path / "file"), "not a folder")
    in_memory_only(Cache(tmp_path / "file" / "below"), "cannot be made")


def test_an_entry_that_is_a_link_or_a_pipe_is_a_miss(cache, tmp_path):
    cache.put(KEY, FACTS, b"x")
    path = cache.folder / f"{KEY}.fused"
    os.rename(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.get(KEY) is None
    path.unlink()
    os.mkfifo(path)
    assert cache.get(KEY) is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize("call", ["open", "replace"])
def test_a_full_or_read_only_disk_is_survived(cache, monkeypatch, number, call):
    cache.put(cache_key(other=1), {}, b"")

    def fails(*arguments, **keywords):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fails)
    cache.put(KEY, FACTS, b"x")
    name = cache.write_source("k_2", "raise ValueError\n")
    assert cache.get(KEY) == (FACTS, b"x")
    assert name == "<fusedsl k_2>"
    monkeypatch.undo()
    assert not list(cache.folder.glob("*.part"))


def test_a_disk_that_fills_up_amid_an_entry_is_survived(cache):
    """A file size limit: the write itself fails, halfway."""
    code = f"""
import resource, signal
from fusedsl.runtime.cache import Cache
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
cache = Cache({str(cache.folder)!r})
cache.put({KEY!r}, {{"n": 1}}, b"whole")
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
cache.put({KEY!r}, {{"n": 2}}, b"x" * 100_000)
assert cache.get({KEY!r}) == ({{"n": 1}}, b"whole"), "what was there stays"
cache.put("0" * 64, {{}}, b"y" * 100_000)
assert cache.get("0" * 64) == ({{}}, b"y" * 100_000), "in memory"
assert not list(cache.folder.glob("*.part"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_interrupted_write_leaves_nothing(cache, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    cache.put(KEY, {}, b"before")
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.put(KEY, FACTS, b"x")
    monkeypatch.undo()
    assert [path.name for path in cache.folder.iterdir()] == [f"{KEY}.fused"]
    assert cache.get(KEY) == ({}, b"before")


WRITER = """
import itertools, signal, sys
from fusedsl.runtime.cache import Cache
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
cache = Cache(sys.argv[1])
for n in itertools.count():
    cache.put(sys.argv[2], {"n": n}, bytes([n % 256]) * 3_000_000)
    if not n:
        print("writing", flush=True)
"""


def test_interrupted_writers_leave_no_temporary_file(cache):
    for k in range(3):
        command, pipe = [sys.executable, "-c", WRITER, str(cache.folder), KEY], subprocess.PIPE
        writer = subprocess.Popen(command, stdout=pipe, stderr=pipe)
        writer.stdout.readline()
        time.sleep(0.01 * k)
        writer.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in writer.communicate()[1]
        assert [path.name for path in cache.folder.iterdir()] == [f"{KEY}.fused"]


def test_killed_writers_leave_whole_entries_and_are_swept_up_after(cache):
    cache.put(KEY, {"n": 0}, bytes(10))
    for k in range(2):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(cache.folder), KEY], stdout=subprocess.PIPE)
        with writer:
            writer.stdout.readline()
            time.sleep(0.02 * k)
            writer.kill()
        facts, binary = cache.get(KEY)
        assert binary == bytes([facts["n"] % 256]) * 3_000_000
    left = cache.folder / f"{KEY}.fused.1.ab.part"
    left.write_text("of a writer that was killed long ago")
    os.utime(left, (0, 0))
    (cache.folder / f"{KEY}.fused.2.cd.part").write_text("of one that may be at work")
    Cache(cache.folder).put(cache_key(other=2), {})
    parts = {path.name for path in cache.folder.glob("*.part")}
    assert left.name not in parts and f"{KEY}.fused.2.cd.part" in parts


def test_memory_holds_a_bounded_number_of_entries(cache, monkeypatch):
    monkeypatch.setattr(cache, "_usable", False)
    keys = [cache_key(n=n) for n in range(module.MAX_ENTRIES_IN_MEMORY + 10)]
    for key in keys:
        cache.put(key, {})
    assert cache.get(keys[0]) is None and cache.get(keys[-1]) == ({}, b"")


@pytest.mark.parametrize("disk", [True, False])
def test_sources_show_in_tracebacks_with_and_without_a_disk(cache, monkeypatch, disk):
    if not disk:
        monkeypatch.setattr(cache, "_usable", False)
    text = "def f(x):\n    return x / 0  # the division\n"
    name = cache.write_source("k_3", text)
    scope = {}
    exec(compile(text, name, "exec"), scope)
    with pytest.raises(ZeroDivisionError) as fault:
        scope["f"](1)
    assert "# the division" in "".join(traceback.format_exception(fault.value))
    assert (name == str(cache.source_path("k_3"))) is disk


def test_listing_and_clearing(cache):
    keys = [cache_key(n=n) for n in range(3)]
    for key in keys:
        cache.put(key, FACTS, b"x" * 100)
        time.sleep(0.01)
    cache.write_source("k_1", "pass\n")
    (cache.folder / "notes.txt").write_text("not ours")
    (cache.folder / f"{KEY}.fused.1.ab.part").write_text("left behind")
    assert [entry.key for entry in cache.list()] == keys[::-1]
    assert all(entry.size > 100 for entry in cache.list())
    assert cache.clear() == 3
    assert [path.name for path in cache.folder.iterdir()] == ["notes.txt"]


def write_and_read(folder, seed, rounds):
    cache = Cache(folder)
    for n in range(rounds):
        key = cache_key(n=n % 5)
        cache.put(key, {"seed": seed, "n": n}, bytes([seed]) * (1000 + n))
        facts, binary = cache.get(key)  # someone's, whole
        assert binary == bytes([facts["seed"]]) * (1000 + facts["n"])


def test_threads_and_processes_share_a_folder(tmp_path):
    folder = tmp_path / "shared"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_and_read, args=(folder, 100 + k, 50)) for k in range(2)]
    failures = []

    def in_thread(seed):
        try:
            write_and_read(folder, seed, 50)
        except BaseException as fault:
            failures.append(fault)

    workers += [threading.Thread(target=in_thread, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    assert [w.exitcode for w in workers[:2]] == [0, 0]
    assert len(Cache(folder).list()) == 5
    assert not list(folder.glob("*.part"))


def test_the_folder_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("FUSEDSL_CACHE_DIR", str(tmp_path / "here"))
    assert Cache().folder == tmp_path / "here"
    monkeypatch.delenv("FUSEDSL_CACHE_DIR")
    assert Cache().folder.name == "fusedsl"


USER = """
import sys
import {library} as np
import fusedsl as fd
x = np.arange(60, dtype=np.float32).reshape(5, 12)
assert np.array_equal(fd.evaluate("2*x + 1", x=x), 2*x + 1)
print([name for name in ("numba", "lark", "fusedsl.program.make_plan") if name in sys.modules])
"""


def test_processes_compile_into_one_folder_and_survive_what_happens_to_it(tmp_path):
    survive(tmp_path, "numpy", ["lark", "fusedsl.program.make_plan"])


@pytest.mark.gpu
def test_so_do_processes_that_compile_for_a_card(tmp_path):
    pytest.importorskip("cupy")
    survive(tmp_path, "cupy", ["numba", "lark", "fusedsl.program.make_plan"])


def survive(tmp_path, library, compilers):
    """Two at once on an empty folder; one that finds everything there; one that finds all of it damaged."""
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path / "shared")}
    code = USER.format(library=library)

    def users(count):
        started = [
            subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
            for _ in range(count)
        ]
        said = [user.communicate()[0].strip() for user in started]
        assert [user.returncode for user in started] == [0] * count
        return said

    users(2)
    entries = sorted((tmp_path / "shared").glob("*.fused"))
    assert entries and users(1) == ["[]"]
    for k, path in enumerate(entries):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0x10
        path.write_bytes(data[: len(data) // 2] if k % 3 == 0 else data)
    assert users(1) == [str(compilers)]
    assert users(1) == ["[]"] and not list((tmp_path / "shared").glob("*.part"))
