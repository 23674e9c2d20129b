"""Files of ggmlviz."""

from dataclasses import replace

import ggmlviz_files as viz
from reader_files import Names, ReaderFiles, Seed, from_sample

_VALID = from_sample("llama-demo.ggmlviz")


def _seeds() -> list[Seed]:
    events = [
        *viz.graph(viz.T0, 2),
        *viz.graph(viz.T0 + 1000, 2, interleaved=True, backend=5, thread=2),
        viz.Event(4, viz.T0 + 2000, 1, size=64, label="blk.0.w"),
        viz.Event(5, viz.T0 + 2001, 1),
        viz.Event(77, viz.T0 + 2003),
    ]
    made = [("t.ggmlviz", viz.packed(events, layout)) for layout in viz.LAYOUT_IDS]
    return [*made, ("demo.ggmlviz", _VALID[1]())]


def _hostile(names: Names) -> bytes:
    events = viz.run(3, 4)
    labels: dict[int, str] = {}
    named = [
        e
        if e.label is None
        else replace(e, label=labels.setdefault(e.ptr, next(names)))
        for e in events
    ]
    return viz.packed(named)


FILES = (
    ReaderFiles(
        "ggmlviz",
        valid=_VALID,
        seeds=_seeds,
        small_seeds=lambda: [seed for seed in _seeds() if len(seed[1]) < 1024],
        hostile=(".ggmlviz", _hostile),
        session="ggmlviz",
    ),
)
