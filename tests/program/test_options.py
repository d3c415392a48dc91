"""Options: frozen values, blocks that nest, and the environment."""

import asyncio
import pickle
import threading

import pytest

from fusedsl import config
from fusedsl.config import DEFAULT, Limits, Options, current, options, split_options
from fusedsl.errors import ArgumentError
from fusedsl.evaluation import kernel_of


def test_the_defaults_are_those_of_the_language():
    o = Options()
    assert (o.fastmath, o.max_kernels, o.rounding, o.matmul, o.autotune) == (False, None, "store", "exact", False)
    assert (o.device, o.deterministic, o.verify, o.fallback) == (None, True, False, True)
    assert (o.limits.text, o.limits.nesting, o.limits.literal, o.limits.operations) == (65536, 256, 32, 4096)
    assert (o.limits.arrays, o.limits.dimensions, o.limits.exponent, o.limits.bits) == (64, 32, 1024, 64)
    assert current() == o == DEFAULT and hash(o) == hash(DEFAULT)
    assert pickle.loads(pickle.dumps(o)) == o
    with pytest.raises(AttributeError):
        o.fastmath = True


def test_blocks_nest_and_keep_what_they_do_not_mention():
    block = options(fastmath=True, limits={"text": 100})
    with block as outer:
        assert outer is current() and current().fastmath
        with options(max_kernels=1, limits={"arrays": 3}), block:
            assert (current().fastmath, current().max_kernels) == (True, 1)
            assert (current().limits.text, current().limits.arrays) == (100, 3)
        assert current() is outer
    assert current() is DEFAULT
    with pytest.raises(ZeroDivisionError), options(fastmath=True):
        raise ZeroDivisionError
    assert current() is DEFAULT


def test_a_block_is_seen_by_its_own_thread_and_task_only():
    seen = []

    async def look(**changes):
        with options(**changes):
            await asyncio.sleep(0)
            seen.append(current().max_kernels)

    async def both():
        await asyncio.gather(look(max_kernels=1), look(max_kernels=2))

    asyncio.run(both())
    with options(max_kernels=3):
        thread = threading.Thread(target=lambda: seen.append(current().max_kernels))
        thread.start()
        thread.join()
    assert seen == [1, 2, None]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"fastmat": True}, "did you mean fastmath?"),
        ({"banana": True}, "the options are fastmath, max_kernels"),
        ({"fastmath": 1}, "fastmath is True or False"),
        ({"max_kernels": 0}, "at least 1"),
        ({"max_kernels": True}, "at least 1"),
        ({"rounding": "ops"}, '"store" or "op"'),
        ({"matmul": "fp32"}, '"exact", "tf32", "3xtf32" or "library"'),
        ({"device": "gpu"}, '"cuda:1"'),
        ({"device": "cuda:x"}, '"cuda:1"'),
        ({"deterministic": None}, 'True, False or "batch"'),
        ({"limits": 3}, "a mapping of text, nesting"),
        ({"limits": {"txt": 3}}, "did you mean text?"),
        ({"limits": {"text": 0}}, "positive integer"),
        ({"limits": {"text": 1.5}}, "positive integer"),
    ],
)
def test_what_has_no_meaning_is_refused_where_it_is_written(changes, words):
    with pytest.raises(ArgumentError) as fault:
        options(**changes)
    assert words in str(fault.value)


def test_every_meaning_is_accepted():
    for changes in (
        {"max_kernels": 3}, {"rounding": "op"}, {"matmul": "tf32"}, {"device": "cpu"}, {"device": "cuda"},
        {"device": "cuda:3"}, {"deterministic": "batch"}, {"limits": Limits(text=5)}, {"limits": None},
    ):  # fmt: skip
        assert Options(**changes) == DEFAULT.changed(changes)
    assert Options(limits={"text": 5}).limits == Limits(text=5)
    assert DEFAULT.changed({}) is DEFAULT


def test_keywords_spelled_like_options_are_options():
    assert split_options({"x": 1, "fastmath": True, "y": 2}) == ((("fastmath", True),), {"x": 1, "y": 2})
    with options(max_kernels=2):
        assert kernel_of("x + 1", (("fastmath", True),)).options == Options(max_kernels=2, fastmath=True)


def test_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("FUSEDSL_DEBUG", raising=False)
    monkeypatch.delenv("FUSEDSL_NUM_THREADS", raising=False)
    assert config.debug_level() == 0 and config.num_threads() >= 1
    monkeypatch.setenv("FUSEDSL_DEBUG", "3")
    monkeypatch.setenv("FUSEDSL_NUM_THREADS", " 7 ")
    assert (config.debug_level(), config.num_threads()) == (3, 7)
    for value in ("6", "-1", "x", "1e1", "٣"):
        monkeypatch.setenv("FUSEDSL_DEBUG", value)
        with pytest.raises(ArgumentError, match="FUSEDSL_DEBUG"):
            config.debug_level()
    monkeypatch.setenv("FUSEDSL_CACHE_DIR", "~/kernels")
    assert config.cache_dir().is_absolute() and config.cache_dir().name == "kernels"


@pytest.mark.parametrize(
    ("name", "hint"), [("kernel_name", "leave it out"), ("nopython", "leave it out"), ("fullgraph", "max_kernels")]
)
def test_options_of_other_packages_have_a_hint(name, hint):
    with pytest.raises(ArgumentError, match=f"there is no option '{name}'") as fault:
        options(**{name: True})
    assert hint in fault.value.help
