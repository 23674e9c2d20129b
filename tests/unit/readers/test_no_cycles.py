"""What was read goes with its trace: nothing waits for the garbage collector."""

import gc
from collections import Counter
from pathlib import Path

import pytest

from ggscope import assets
from ggscope.readers.registry import open_trace

SAMPLES = ("npu-prefill-decode.json", "llama.ggmlviz", "tinyllama-256.bin")
ODD_EVENTS = (
    '{"version":"1.0","timeline_events":[{"type":"ENGINE_EVENT","engine":"TE",'
    '"engine_id":"0","op":"A","start_cycle":0,"end_cycle":9},'
    '{"type":"X_EVENT","cycle":"3"},{"type":"STALL_EVENT"}]}'
)


def left_behind(path: Path) -> Counter[str]:
    """Return what only the collector would find after reading, by kind."""
    open_trace(path)  # whatever is made once
    gc.collect()
    flags = gc.get_debug()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        open_trace(path)
        gc.collect()
        return Counter(type(thing).__qualname__ for thing in gc.garbage)
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("name", SAMPLES)
def test_reading_leaves_no_cycles_behind(name):
    assert not left_behind(assets.path(f"samples/{name}"))


def test_reading_odd_events_leaves_no_cycles_behind(tmp_path):
    path = tmp_path / "odd.json"
    path.write_text(ODD_EVENTS)

    result = left_behind(path)

    assert not result.keys() & {"Rules", "Problems", "EventColumns", "Table", "ndarray"}
