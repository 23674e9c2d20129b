"""What reading a file would cost, by the density of its first records."""

import gzip
import random

import pytest

from ggscope.readers.api import Head
from ggscope.readers.common.packed_text import packed_estimate, unpacked_head

_N = 100_000


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_records_are_counted_by_the_bytes_that_unpacking_gives(pack) -> None:
    random.seed(1)
    content = pack(b"".join(b"%030x\n" % random.getrandbits(120) for _ in range(_N)))
    head = Head("x", len(content), content[: 64 << 10])
    text = unpacked_head(head.data)
    assert text

    estimate = packed_estimate(head, text, text.count(b"\n"), 60, 220)

    assert abs(estimate.records / _N - 1) < 0.02
    assert estimate.final_bytes == 60 * estimate.records
    assert estimate.peak_bytes >= 220 * estimate.records
