"""A lane's busy share is what the simulator says of its engine."""

import pytest

from ggscope import assets
from ggscope.analysis.rows.index import TraceIndex
from ggscope.readers.registry import open_trace


@pytest.mark.parametrize("engine", ["te", "ve"])
def test_busy_share_of_engine_lanes_equals_the_file_s_summary(engine: str) -> None:
    trace = open_trace(assets.path("samples/npu-prefill-decode.json"))
    index = TraceIndex(trace)
    total = trace.info.summary["cycles_total"]
    claimed = trace.info.summary[engine]["per_engine"]  # type: ignore[index]
    lanes = {lane.title: lane.key for lane in index.lanes}

    assert len(claimed) == 2
    for entry in claimed:
        key = lanes[f"{engine.upper()} {entry['id']}"]
        busy_cycles = index.busy_share(key) * trace.extent.duration

        assert busy_cycles == pytest.approx(entry["active_cycles"], abs=0.5)
        assert busy_cycles / total == pytest.approx(entry["utilization"], abs=0.005)
