"""What BigMoeOnEdge prints at the end of a run."""

import pytest

import people
from ggscope.errors import ReadError
from ggscope.model.tables import Quality, quality_of
from ggscope.readers.registry import open_trace

TEXT = """generation: 4 tokens, 0.250 s/token (4.0 tok/s)
prefill: 34 tokens, 5.5 s (6.2 tok/s) | model load 10.25 s | TTFT 15.75 s
moe-stream: read 57.6 MiB (14.4 MiB/token)
moe-cache: 76.7% hit, resident 3997.9 MiB
peak_rss_kb=6285756
"""


def test_parts_of_the_run_follow_one_another(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text(TEXT)

    trace = open_trace(path)

    assert trace.check() == []
    spans = trace.spans
    assert [trace.span_name(i) for i in range(3)] == [
        "model load", "prompt", "generation",
    ]  # fmt: skip
    assert spans.start.tolist() == [0, 10_250_000_000, 15_750_000_000]
    assert int(spans.end[2]) == 16_750_000_000
    assert set(quality_of(spans.flags).tolist()) == {Quality.DERIVED}
    assert trace.info.producer["peak_rss_kb"] == "6285756"
    assert trace.info.producer["moe-cache"] == "76.7% hit, resident 3997.9 MiB"
    assert trace.info.summary["events"] == {"rows": 5}


def test_times_beyond_all_bounds_are_facts_alone(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text(TEXT.replace("5.5 s", f"{'9' * 400} s"))

    trace = open_trace(path)

    assert [trace.span_name(i) for i in range(len(trace.spans))] == [
        "model load", "generation",
    ]  # fmt: skip


def test_a_line_alone_is_no_summary(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("moe-stream: read\n")

    with pytest.raises(ReadError):
        open_trace(path)


@people.each("bigmoe")
def test_real_summary(name, tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(people.content(name))

    trace = open_trace(path)

    assert trace.info.reader_id == "bigmoe"
    length = (trace.spans.end - trace.spans.start).tolist()
    assert length == [10_876_000_000, 5_492_000_000, 256 * 197_000_000]
