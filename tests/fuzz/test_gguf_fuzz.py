"""Damaged GGUF heads: a checked trace or one ReadError, quickly and in little room."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ggscope.errors import ReadError
from ggscope.model.trace import Trace
from ggscope.readers.api import HEAD_BYTES, Head
from ggscope.readers.gguf.reader import GgufReader
from gguf_files import encode, read_path
from support import rewrite

SOUND = [encode(data_bytes=4096), encode(version=1, big=True), encode(alignment=64)]
HEAD = 2600
"""Most of a file is the table of tokens; mutations go where the structure is."""
NUMBERS = [0, 1, 2, 8, 9, 255, 1 << 16, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, -1]
LENIENT = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def attempt(path: Path, data: bytes) -> Trace | None:
    """Return the trace, None for a ReadError; anything else fails the test."""
    GgufReader().sniff(Head(path.name, len(data), data[:HEAD_BYTES]))
    rewrite(path, data)
    try:
        return read_path(path)
    except ReadError:
        return None


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fuzz.gguf"


@LENIENT
@given(
    data=st.sampled_from(SOUND),
    edits=st.lists(
        st.tuples(st.integers(4, HEAD), st.binary(min_size=1, max_size=9)), max_size=6
    ),
)
def test_changed_bytes_never_crash(path, data, edits):
    for at, change in edits:
        data = data[:at] + change + data[at + len(change) :]

    attempt(path, data)


@LENIENT
@given(
    data=st.sampled_from(SOUND),
    at=st.integers(8, HEAD),
    number=st.sampled_from(NUMBERS),
    width=st.sampled_from([4, 8]),
)
def test_hostile_numbers_never_crash_or_allocate(path, data, at, number, width):
    raw = (number % (1 << 8 * width)).to_bytes(width, "little")

    tracemalloc.start()
    attempt(path, data[:at] + raw + data[at + width :])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 8 << 20


@LENIENT
@given(
    data=st.sampled_from(SOUND),
    at=st.integers(0, HEAD),
    gone=st.integers(0, 64),
    added=st.binary(max_size=64),
)
def test_cut_and_inserted_bytes_never_crash(path, data, at, gone, added):
    attempt(path, data[:at] + added + data[at + gone :])


@LENIENT
@given(st.binary(max_size=400))
def test_noise_behind_the_magic_number_never_crashes(path, noise):
    attempt(path, b"GGUF\x03\0\0\0" + noise)
    attempt(path, b"GGUF" + noise)
