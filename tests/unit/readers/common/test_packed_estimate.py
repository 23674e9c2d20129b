"""What reading a file would cost, by the density of its first records."""

import gzip
import random

import pytest

from ggscope.readers.api import Head
from ggscope.readers.common.packed_text import packed_estimate, unpacked_head
from ggscope.readers.registry import estimate

_N = 100_000


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_records_are_counted_by_the_bytes_that_unpacking_gives(pack) -> None:
    random.seed(1)
    content = pack(b"".join(b"%030x\n" % random.getrandbits(120) for _ in range(_N)))
    head = Head("x", len(content), content[: 64 << 10])
    text = unpacked_head(head.data)
    assert text

    cost = packed_estimate(head, text, text.count(b"\n"), 60, 220)

    assert abs(cost.records / _N - 1) < 0.02
    assert cost.final_bytes == 60 * cost.records
    assert cost.peak_bytes >= 220 * cost.records


def _members(content: bytes) -> bytes:
    """Return text packed by gzip in many members, as bgzip does."""
    size = 20_000
    return b"".join(
        gzip.compress(content[i : i + size]) for i in range(0, len(content), size)
    )


@pytest.mark.parametrize("pack", [bytes, gzip.compress, _members])
def test_events_are_estimated_where_the_head_unpacks_to_much_more(
    pack, tmp_path
) -> None:
    rng = random.Random(2)
    event = (
        '{"ph":"X","cat":"kernel","name":"mul_mat","pid":1,"tid":1,"ts":%d,"dur":%d}'
    )
    events = (event % (i * 90, rng.randrange(10, 80)) for i in range(_N))
    path = tmp_path / "x"
    path.write_bytes(pack(("[" + ",\n".join(events) + "]").encode()))

    cost = estimate(path)

    assert cost
    assert abs(cost.records / _N - 1) < 0.1
