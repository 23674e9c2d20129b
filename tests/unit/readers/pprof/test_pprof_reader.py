"""Profiles of pprof: types of values, inlined functions, damage."""

import gzip
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import people
import stack_files
from flame import own_of, problems, weights_of
from ggscope.errors import CorruptError, LimitExceededError, ReadError
from ggscope.readers.api import ReadContext
from ggscope.readers.common import protobuf
from ggscope.readers.pprof import message
from ggscope.readers.pprof.reader import PprofReader
from ggscope.readers.registry import open_trace
from ggscope.readers.source import Source
from oracles.stack_spans import by_weight
from stack_files import block, number, packed

_TEXTS = ("", "space", "bytes", "objects", "count", "main", "inner", "a.c", "lib.so")


def read(tmp_path, data: bytes, **options: str):
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    trace = open_trace(path, context=ReadContext(options=options))
    assert trace.check() == []
    assert trace.info.reader_id == "pprof"
    return trace


def profile(*samples: bytes, types=((1, 2),), texts=_TEXTS) -> bytes:
    """Return a profile of two functions, of which one is inlined in the other."""
    line = block(4, number(1, 2) + number(2, 7)) + block(4, number(1, 1) + number(2, 5))
    parts = [block(1, number(1, kind) + number(2, unit)) for kind, unit in types]
    parts += [block(2, sample) for sample in samples]
    parts += [
        block(3, number(1, 1) + number(5, 8)),
        block(4, number(1, 1) + number(2, 1) + number(3, 64) + line),
        block(4, number(1, 2) + number(3, 128)),
        block(5, number(1, 1) + number(2, 5) + number(4, 7)),
        block(5, number(1, 2) + number(2, 6) + number(4, 7)),
    ]
    parts += [block(6, text.encode()) for text in texts]
    return b"".join(parts)


def sample(locations, values) -> bytes:
    return block(1, packed(locations)) + block(2, packed(values))


@pytest.mark.parametrize("is_packed", [False, True])
def test_profile_without_samples_is_refused_at_a_place_of_the_file(is_packed, tmp_path):
    texts = (*_TEXTS, "x" * 500)
    data = profile(texts=texts) + b"\x12\x7f"  # a sample that is cut
    path = tmp_path / "x.pprof"
    path.write_bytes(gzip.compress(data) if is_packed else data)

    with Source(path) as source, pytest.raises(CorruptError) as refused:
        PprofReader().read(source, ReadContext())

    assert refused.value.offset == (0 if is_packed else len(data) - 2)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("first", range(1, 7))
def test_fields_in_another_order_are_the_same_profile(first, is_packed, tmp_path):
    samples = [sample([1, 2], [5]), sample([2], [3])]
    fields = [
        block(n, value) for n, _, value in protobuf.fields(profile(*samples)) if value
        or n == 6
    ]  # fmt: skip
    # A stable order: what begins with `first`, then all others as they were.
    tag = bytes([first << 3 | 2])
    data = b"".join(sorted(fields, key=lambda field: field[:1] != tag))
    expected = weights_of(read(tmp_path, profile(*samples)), 0)

    if first in (4, 5) and not is_packed:  # tags that are letters of any text
        (tmp_path / "x.pprof").write_bytes(data)
        trace = open_trace(tmp_path / "x.pprof")
    else:
        trace = read(tmp_path, gzip.compress(data) if is_packed else data)

    assert weights_of(trace, 0) == expected


@people.each("pprof")
def test_real_profile_has_its_samples(name, tmp_path):
    data = people.content(name)

    trace = read(tmp_path, data)
    counts = read(tmp_path, data, weights="counts")

    known = message.message_of(gzip.decompress(data))
    assert trace.info.n_records == len(known.samples) == 9
    assert trace.extent.duration == sum(s.values[1] for s in known.samples) == 1.5e9
    assert counts.extent.duration == sum(s.values[0] for s in known.samples) == 150
    assert (trace.clock.unit, counts.clock.unit) == ("ns", "sample")
    assert trace.clock.is_weight
    assert trace.info.producer["period"] == "cpu 10,000,000 nanoseconds"


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), is_packed=st.booleans())
def test_spans_are_those_of_the_plain_twin(seed, n, is_packed, tmp_path_factory):
    data = stack_files.pprof(seed, n, is_packed=is_packed)
    known = message.message_of(gzip.decompress(data) if is_packed else data)
    own: Counter[tuple[str, ...]] = Counter()
    for one in known.samples:
        names = [known.text(known.functions[i][0]) for i in reversed(one.locations)]
        own[tuple(names)] += one.values[1]

    trace = read(tmp_path_factory.mktemp("pprof"), data)

    assert own_of(trace, 0) == own
    assert weights_of(trace, 0) == by_weight(own)


def test_inlined_functions_are_frames_and_details_name_their_lines(tmp_path):
    trace = read(tmp_path, profile(sample([1, 2], [3])) + b"")

    assert weights_of(trace, 0) == {
        ("0x80",): 3, ("0x80", "main"): 3, ("0x80", "main", "inner"): 3,
    }  # fmt: skip
    assert trace.clock.unit == "byte"
    fields = [field[:2] for field in trace.records.view(0).fields]
    assert fields == [
        ("space", "3 bytes"),
        ("frame 0", "inner  a.c:7  lib.so 0x40"),
        ("frame 1", "main  a.c:5  lib.so 0x40"),
        ("frame 2", "[unknown]  0x80"),
    ]
    with pytest.raises(ReadError):
        trace.records.view(1)


def test_types_of_one_unit_are_lanes_and_others_can_be_asked_for(tmp_path):
    types = ((3, 4), (1, 2), (5, 2))
    data = profile(sample([1], [2, 30, 0]), types=types)

    trace = read(tmp_path, data)
    counts = read(tmp_path, data, weights="counts")

    assert trace.lanes.names == ("space (bytes)", "main (bytes)")
    assert problems(trace) == {"other_weights": 1}
    assert counts.lanes.names == ("objects (count)",)
    assert (counts.clock.unit, counts.extent.duration) == ("count", 2)


def test_damage_is_reported(tmp_path):
    data = profile(sample([1], [-3]), sample([99], [3]), sample([2], []),
                   b"\x0a\xff\x01")  # fmt: skip

    trace = read(tmp_path, data)

    assert problems(trace) == {"bad_weight": 2, "bad_frame": 1, "profile_cut": 1}
    assert weights_of(trace, 0) == {("[unknown]",): 3}


def test_hostile_depth_is_cut(tmp_path):
    trace = read(tmp_path, profile(sample([2] * 100_000, [3])))

    assert problems(trace) == {"deep_stacks": 1}
    assert len(trace.spans) == 2048


@pytest.mark.parametrize("share", [0.6, 0.9, 0.999])
def test_cut_profiles_give_what_was_read(share, tmp_path):
    plain = stack_files.pprof(3, 300, is_packed=False)
    whole = stack_files.pprof(3, 300)

    trace = read(tmp_path, plain[: int(len(plain) * share)])
    unpacked = read(tmp_path, whole[: int(len(whole) * share)])

    assert "profile_cut" in problems(trace)
    assert "packed_cut" in problems(unpacked)


def test_profile_without_samples_is_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(profile())

    with pytest.raises(CorruptError, match="no sample"):
        open_trace(path, reader_id="pprof")


def test_bomb_is_refused(tmp_path):
    path = tmp_path / "x.prof"
    data = profile(sample([1], [3])) + block(6, bytes(1 << 20)) * 70
    path.write_bytes(gzip.compress(data, mtime=0))

    with pytest.raises(LimitExceededError):
        open_trace(path)


def test_text_whose_first_bytes_look_like_a_field_is_no_profile():
    text = b'\n{\n  "schemaVersion": 1,\n' + b" " * 120 + b'"a": [' + b"1, " * 4000

    assert not message.is_profile(text, is_whole=False)
    assert message.is_profile(profile(sample([1], [3])), is_whole=True)


many = st.lists(st.integers(0, (1 << 63) - 1) | st.integers(0, 300), max_size=70)


@given(many, many, st.booleans())
def test_numbers_of_any_length_are_decoded(locations, values, has_label):
    label = block(3, number(1, 4) + number(3, 9)) if has_label else b""

    made = message.message_of(profile(sample(locations, values) + label))

    assert made.samples[0].locations == tuple(locations)
    assert made.samples[0].values == tuple(values)
    assert made.samples[0].labels == ([(4, 0, 9, 0)] if has_label else [])
    assert made.cut_at == -1
