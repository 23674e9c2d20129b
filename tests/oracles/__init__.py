"""What compiled code does, in plain numpy and Python: tests hold the two together.

Each function here puts its oracle in the place of the compiled code for a while.
"""

from types import SimpleNamespace

import pytest

from ggscope.readers.common import json_text
from ggscope.readers.common.json_cursor import cut_array, cut_lines
from ggscope.readers.ggmlviz import pairing
from ggscope.readers.ggmlviz import reader as ggmlviz_reader
from ggscope.readers.ggmlviz.columns import EventOptions
from ggscope.readers.ggmlviz.layouts import EventLayout
from ggscope.readers.npu.scan import Scanner
from ggscope.readers.tensor import scan as tensor_scan
from oracles.ggmlviz_collector import NumpyCollector
from oracles.ggmlviz_pairing import pair_ops
from oracles.tensor_blocks import NumpyBlocks


def ggmlviz(patch: pytest.MonkeyPatch) -> None:
    """Read `.ggmlviz` files without compiled code."""

    def collector(options: EventOptions, value: int, _: EventLayout) -> NumpyCollector:
        return NumpyCollector(options, value)

    patch.setattr(ggmlviz_reader, "EventCollector", collector)
    patch.setattr(pairing, "pair_ops", pair_ops)


def tensor(patch: pytest.MonkeyPatch) -> None:
    """Read the records of tensor traces without compiled code."""
    patch.setattr(tensor_scan, "BlockReader", NumpyBlocks)


def npu(patch: pytest.MonkeyPatch) -> None:
    """Read the events and samples of NPU traces by the rules alone."""
    for name in ("cut_events", "cut_samples"):
        patch.setattr(Scanner, name, lambda _, *text: cut_array(*text))
    patch.setattr(Scanner, "cut_lines", lambda _, *text: cut_lines(*text))
    json_repeats(patch)


def json_repeats(patch: pytest.MonkeyPatch) -> None:
    """Find keys that are named twice by decoding every element."""
    untold = SimpleNamespace(ggscope_json_repeats=lambda *_: -1)
    patch.setattr(json_text, "library", lambda: untold)
