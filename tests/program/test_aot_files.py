"""The file that Kernel.save writes: what it keeps, what is refused, and what is left where writing fails."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from lean import saved

import fusedsl as fd
from fusedsl.aot import container

ROOT = Path(__file__).parents[2]


def changed(path, to, change) -> None:
    """A file whose manifest is another one, with the checksum that belongs to it."""
    manifest, blobs = container.unpack(path.read_bytes(), "it")
    to.write_bytes(container.pack(change(manifest), blobs))


def test_options_and_the_order_of_parameters_are_kept(tmp_path):
    kernel = fd.kernel("a * w - b", params="b a", constants={"w": 3}, rounding="op", limits={"text": 100})
    kernel.save(tmp_path / "k", fd.spec((4,)), fd.spec((4,)), cc="cpu")
    loaded = fd.load(tmp_path / "k")
    assert (loaded.text, loaded.params, loaded.options) == (kernel.text, kernel.params, kernel.options)
    b, a = np.float32([1, 2, 3, 4]), np.float32([5, 6, 7, 8])
    np.testing.assert_array_equal(loaded(b, a), kernel(b, a))
    again = pickle.loads(pickle.dumps(loaded))
    assert (again.text, again.params, again.options) == (kernel.text, kernel.params, kernel.options)
    np.testing.assert_array_equal(again(b, a), kernel(b, a))


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "k.fused"
    saved(path)
    whole = path.read_bytes()
    damaged = [
        b"",
        b"PK",
        whole[: len(whole) // 2],
        b"x" * 1000,
        whole[:-30],
        whole + b"\0",
        pickle.dumps({"format": 2}),
    ]
    flips = [*range(60), *range(60, len(whole), max(1, len(whole) // 50)), len(whole) - 1]
    damaged += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in flips]
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(fd.ArgumentError, match="save the kernel anew") as fault:
            fd.load(path)
        assert fault.value.code == "argument.file" and str(path) in fault.value.message
    with pytest.raises(FileNotFoundError):
        fd.load(tmp_path / "nothing")


def test_a_file_of_another_version_or_format_is_refused(tmp_path):
    path, other = tmp_path / "k.fused", tmp_path / "other.fused"
    saved(path)
    changed(path, other, lambda manifest: manifest | {"fusedsl": "0.0.1"})
    with pytest.raises(fd.ArgumentError, match=r"saved by fusedsl 0\.0\.1"):
        fd.load(other)
    body = path.read_bytes()[container.HEADER.size :]
    digest = hashlib.sha256(container.MAGIC + struct.pack("<I", 7) + body).digest()
    other.write_bytes(container.HEADER.pack(container.MAGIC, 7, digest) + body)
    with pytest.raises(fd.ArgumentError, match="format 7"):
        fd.load(other)


def test_a_file_that_is_whole_and_makes_no_sense_is_refused(tmp_path):
    path, other = tmp_path / "k.fused", tmp_path / "other.fused"
    saved(path)
    for name in ("called", "names", "options", "plans", "processors", "kernels", "capabilities"):
        for value in (None, 5, "text", {"a": 1}, [[1]]):
            changed(path, other, lambda manifest, name=name, value=value: manifest | {name: value})
            with pytest.raises((fd.ArgumentError, fd.DeviceError)):
                fd.load(other)(np.ones((3, 40), np.float32), 2.0)
    text = json.dumps({"manifest": {}, "blobs": [["a", 10**9]]}).encode()
    body = zlib.compress(struct.pack("<Q", len(text)) + text)
    digest = hashlib.sha256(container.MAGIC + struct.pack("<I", container.FORMAT) + body).digest()
    other.write_bytes(container.HEADER.pack(container.MAGIC, container.FORMAT, digest) + body)
    with pytest.raises(fd.ArgumentError, match="not what fusedsl writes"):
        fd.load(other)


def test_nothing_that_unpickles_reads_a_file():
    for path in (ROOT / "fusedsl" / "aot").glob("*.py"):
        assert not re.search(r"\b(pickle|marshal|shelve|eval|exec)\b", path.read_text()), path


def test_nothing_is_left_where_saving_fails(tmp_path):
    kernel = fd.kernel("x + y")
    with pytest.raises(fd.ShapeError):
        kernel.save(tmp_path / "k", fd.spec((3,)), fd.spec((4,)), cc="cpu")
    with pytest.raises(fd.ArgumentError):
        kernel.save(tmp_path / "k", fd.spec((3,)), fd.spec((3,)), cc=[12345])
    with pytest.raises(FileNotFoundError) as fault:
        kernel.save(tmp_path / "no" / "folder", fd.spec((3,)), fd.spec((3,)), cc="cpu")
    assert fault.value.errno == errno.ENOENT and fault.value.filename == str(tmp_path / "no")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as fault:
        kernel.save(tmp_path / "folder", fd.spec((3,)), fd.spec((3,)), cc="cpu")
    assert fault.value.filename == str(tmp_path / "folder")
    (tmp_path / "folder").rmdir()
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_named_by_a_path(tmp_path):
    kernel, x = fd.kernel("x + 1"), np.ones(3, np.float32)
    for name in (5, None, x, "", ".", "a\0b"):
        for use in (fd.load, lambda n: kernel.save(n, x, cc="cpu"), lambda n: kernel.report(n, x)):
            with pytest.raises(fd.ArgumentError) as fault:
                use(name)
            assert fault.value.code == "argument.file"
    for cc in ([], 5.5, ["gpu"], [[90]], "native"):
        with pytest.raises(fd.ArgumentError, match="compute capability"):
            kernel.save(tmp_path / "k", x, cc=cc)
    kernel.save(os.fsencode(tmp_path / "k"), x, cc="cpu")
    assert fd.load(str(tmp_path / "k"))(x).tolist() == [2, 2, 2]


def test_a_spec_is_made_of_integers():
    assert fd.spec(np.int64(3)) == fd.spec([3]) == fd.spec(np.array([3])) == fd.spec((3,), strides=[1])
    for given in ({"shape": None}, {"shape": (1.5,)}, {"shape": "ab"}, {"shape": -1}, {"shape": 3, "strides": "a"},
                  {"shape": 3, "strides": (1, 2)}, {"shape": 3, "dtype": None}):  # fmt: skip
        with pytest.raises(fd.ArgumentError):
            fd.spec(**given)
