"""Builds that are described by what differs, as both packages decode them."""

import random
import struct
from collections.abc import Sequence

import numpy as np
import pytest

from ggscope.live import builds as live
from ggscope_capture.builds import Builds
from ggscope_capture.ring import DTYPES
from ggscope_capture.ring_format import Frame, FrameType, RingError, TensorColumn

N_TENSORS, N_NODES = 6, 4
HEAD = struct.Struct("<IIIIIIQ")


def whole(number: int = 1) -> bytes:
    """Return the body of a whole build of six tensors."""
    body = HEAD.pack(number, N_NODES, N_TENSORS, N_NODES, 0, 0, 7)
    for i in range(N_TENSORS):
        tensor = np.zeros(1, DTYPES["def_tensor"])
        tensor["data"], tensor["bytes"], tensor["ne"][0, 1] = 4096 * (i % 3), 64, 8
        tensor["sources"] = 0xFFFFFFFF
        text = f"node-{i}".encode()
        body += tensor.tobytes() + struct.pack("<H", len(text)) + text
        body += bytes(-len(body) % 8)
    return body


Change = tuple[int, dict[int, int], dict[int, int]]


def like(changes: Sequence[Change], number: int = 2, of: int = 1) -> bytes:
    """Return the body of a build like it: of each column what moved, and what is."""
    body = HEAD.pack(number, N_NODES, N_TENSORS, N_NODES, 0, 0, 8)
    body += struct.pack("<II", of, len(changes))
    for column, moved, single in changes:
        body += struct.pack("<IIII", column, len(moved), len(single), 0)
        parts = [*moved, *moved.values(), *single.values()]
        body += struct.pack(f"<{len(parts)}Q{len(single)}I", *parts, *single)
        body += bytes(-len(body) % 8)
    return body


SOUND = like(
    [
        (TensorColumn.DATA, {0: 1 << 20, 8192: 4096}, {5: 77}),
        (TensorColumn.BYTES, {64: 128}, {}),
        (TensorColumn.NE + 1, {8: 16}, {2: 9, 3: 10}),
    ]
)


def decoded(bodies: Sequence[tuple[int, bytes]], number: int) -> Builds:
    made = Builds()
    for kind, body in bodies:
        made.add_event(Frame(kind, 0, body))
    assert number in made
    return made


def test_what_moved_moves_and_single_values_count() -> None:
    made = decoded([(FrameType.BUILD, whole()), (FrameType.BUILD_LIKE, SOUND)], 2)
    viewer = live.Builds()
    viewer.whole(whole())

    tensors, seen = made[2].tensors, viewer.like(SOUND)

    assert tensors["data"].tolist() == [1 << 20, 4096, 4096, 1 << 20, 4096, 77]
    assert tensors["bytes"].tolist() == [128] * N_TENSORS
    assert tensors["ne"][:, 1].tolist() == [16, 16, 9, 10, 16, 16]
    assert (made[2].whole, made[2].names) == (1, made[1].names)
    assert made[1].tensors["bytes"].tolist() == [64] * N_TENSORS
    assert (seen.number, seen.n_nodes, seen.names) == (2, N_NODES, made[1].names)
    for name in ("data", "bytes", "offset", "buffer"):
        assert np.array_equal(seen.tensors[name], tensors[name])


def test_build_is_known_once_and_whole_where_it_was_reported() -> None:
    made = decoded([(FrameType.BUILD, whole()), (FrameType.BUILD_LIKE, SOUND)], 2)

    made.add_event(Frame(FrameType.BUILD_LIKE, 0, like([])))
    assert made[2].tensors["bytes"].tolist() == [128] * N_TENSORS
    made.add_event(Frame(FrameType.BUILD, 0, whole(2)))
    assert (made[2].whole, made[2].tensors["bytes"][0]) == (-1, 64)


@pytest.mark.parametrize(
    "body",
    [
        like([], of=9),
        like([], of=2),
        SOUND[:-16],
        like([(99, {}, {})]),
        like([(TensorColumn.BYTES, {}, {N_TENSORS: 1})]),
        like([])[:36],
    ],
    ids=["unknown", "itself", "cut", "column", "beyond", "head"],
)
def test_what_cannot_be_is_refused(body: bytes) -> None:
    made = decoded([(FrameType.BUILD, whole())], 1)

    with pytest.raises(RingError):
        made.add_event(Frame(FrameType.BUILD_LIKE, 0, body))
    assert list(made) == [1]


def test_damaged_builds_end_in_a_sentence_and_nothing_else() -> None:
    chance = random.Random(1)
    n_refused = 0
    for _ in range(3000):
        body = bytearray(SOUND)
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(len(body))] = chance.choice((0, 1, 2, 255))
        cut = bytes(
            body[: chance.randint(0, len(body))] if chance.random() < 0.3 else body
        )
        made, viewer = decoded([(FrameType.BUILD, whole())], 1), live.Builds()
        viewer.whole(whole())
        try:
            made.add_event(Frame(FrameType.BUILD_LIKE, 0, cut))
            for number in made:
                assert len(made[number].tensors) == N_TENSORS
        except RingError:
            n_refused += 1
        try:
            assert len(viewer.like(cut).tensors) == N_TENSORS
        except RingError:
            n_refused += 1

    assert n_refused > 500
