"""The replay check itself: a corpus of more than 600 files in short time, and a change is found."""

import time

from replay.corpus import TARGETS, corpus
from replay.generated import changed, difference, is_fault, sources, without_comments


def test_the_corpus_is_large_and_the_check_finds_a_change():
    begin = time.process_time()
    found = sources()
    seconds = time.process_time() - begin
    assert len(found) >= 600 and len(found) == len(TARGETS) * len(list(corpus()))
    faults = [text for text in found.values() if is_fault(text)]
    assert not faults, faults[:3]
    assert seconds < 120, "a check that takes long is not run"
    name = next(n for n in found if "expression, large: softmax" in n)
    other = found | {name: found[name].replace("exp", "sin", 1)}
    assert changed(found, found) == [] and changed(found, other) == [name]
    assert "\n+" in difference(name, found, other)
    commented = found[name].replace("  # exp", "  # sin")
    assert commented != found[name] and without_comments(commented) == without_comments(found[name])
