"""The compiled parts of the .ggmlviz reader against their numpy twins."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ggmlviz_files as viz
import oracles
from ggmlviz_files import Event
from ggmlviz_scans import content, find_events
from ggscope.errors import ReadError
from ggscope.model.ggml.ops import OpSample, infer
from ggscope.model.trace import OpTable, Trace
from ggscope.readers import registry
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz import columns as columns_module
from ggscope.readers.ggmlviz import op_table
from ggscope.readers.ggmlviz.columns import NAME_BLOCK, EventOptions, Labels
from ggscope.readers.ggmlviz.reader import GgmlvizReader
from ggscope.readers.source import Source
from support import corpus_path

SMALL_LABEL = 40


def stream(seed: int, n: int) -> list[Event]:
    """Return events of every kind, some of them with labels that look like events."""
    rng = np.random.default_rng(seed)
    decoy = Event(2, viz.T0 + 5, 7, 27).packed()
    events = []
    for i in range(n):
        label: bytes | None = None
        if rng.random() < 0.7:
            label = decoy[int(rng.integers(46)) :][: int(rng.integers(SMALL_LABEL + 1))]
        kind = int(rng.integers(12)) if rng.random() < 0.95 else int(rng.integers(256))
        events.append(
            Event(
                kind, viz.T0 + i, int(rng.integers(1 << 40)), int(rng.integers(99)),
                int(rng.integers(1 << 30)), int(rng.integers(3)), int(rng.integers(3)),
                label,
            )
        )  # fmt: skip
    return events


def mutated(data: bytes, seed: int) -> bytes:
    """Return `data` with some flips, cuts, splices and absurd lengths."""
    rng = np.random.default_rng(seed)
    broken = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(12, len(broken)))
        how = int(rng.integers(5))
        if how == 0:
            broken[at] = int(rng.integers(256))
        elif how == 1:
            del broken[at : at + int(rng.integers(1, 90))]
        elif how == 2:
            first = int(rng.integers(12, len(broken)))
            broken[at:at] = broken[first : first + int(rng.integers(1, 200))]
        elif how == 3:
            broken[at : at + 5] = b"\1\xff\xff\xff\xff"
        else:
            broken[at:at] = bytes(int(rng.integers(1, 300)))
        if len(broken) < 14:
            return data
    return bytes(broken)


def scanned(data: bytes, layout: str, **options: object) -> dict[str, object]:
    return find_events(data, layout, max_label=SMALL_LABEL, **options).content()  # type: ignore[arg-type]


def both(data: bytes, layout: str = "c64", **options: object) -> None:
    """Compare what both intakes make of a file, in stretches of several sizes."""
    expected = scanned(data, layout, **options)

    for n_bytes in (1 << 20, 997, 61):
        assert scanned(data, layout, compiled_bytes=n_bytes, **options) == expected


@given(seed=st.integers(0, 1 << 30), n=st.integers(0, 120))
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("layout", viz.LAYOUT_IDS)
def test_sound_streams_are_taken_alike(layout: str, seed: int, n: int) -> None:
    both(viz.packed(stream(seed, n), layout), layout)


@given(seed=st.integers(0, 1 << 30), n=st.integers(1, 120))
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("layout", viz.LAYOUT_IDS)
def test_damaged_streams_are_taken_alike(layout: str, seed: int, n: int) -> None:
    both(mutated(viz.packed(stream(seed, n), layout), seed), layout)


@given(data=st.binary(max_size=400))
@settings(max_examples=100, deadline=None)
def test_random_bytes_are_taken_alike(data: bytes) -> None:
    both(viz.HEADER + data)


@given(
    first=st.integers(0, 90),
    length=st.integers(1, 90),
    every=st.sampled_from([0, 1, 16]),
    seed=st.integers(0, 1 << 30),
    is_damaged=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_parts_of_streams_are_taken_alike(
    first: int, length: int, every: int, seed: int, is_damaged: bool
) -> None:
    data = viz.packed(stream(seed, 100))
    if is_damaged:
        data = mutated(data, seed)

    both(
        data, options=EventOptions(first=first, stop=first + length, names_every=every)
    )


def test_every_cut_between_windows_gives_the_whole() -> None:
    events = stream(3, 40)
    data = viz.packed(events)
    expected = scanned(data, "c64")

    for n_bytes in range(1, 200):
        assert scanned(data, "c64", compiled_bytes=n_bytes) == expected


def test_every_cut_between_windows_gives_the_whole_with_numpy() -> None:
    data = viz.packed(stream(4, 40))
    expected = scanned(data, "c64")

    for n_bytes in range(200, 600, 7):
        again = scanned(data, "c64", walker_bytes=20, window_bytes=n_bytes)
        assert again == expected


def test_labels_of_sampled_blocks_are_taken_alike() -> None:
    events = [Event(2, viz.T0 + i, label=b"%d" % (i % 700)) for i in range(70_000)]
    data = viz.packed(events)

    both(data, options=EventOptions(names_every=16))
    result = find_events(
        data, compiled_bytes=1 << 20, options=EventOptions(names_every=16)
    )

    named = result.collector.columns.label[: len(events)] >= 0
    block = np.arange(len(events)) // NAME_BLOCK
    assert (named == (block % 16 == 0)).all()


def test_many_labels_and_places_are_taken_alike() -> None:
    events = [
        Event(2, viz.T0 + i, i, thread=i % 5000, backend=i % 3, label=b"n%d" % (i * 7))
        for i in range(20_000)
    ]

    both(viz.packed(events))


# --- whole traces


def read(path: Path) -> Trace | str:
    try:
        with Source(path) as source:
            trace = GgmlvizReader().read(source, ReadContext())
    except ReadError as error:
        return str(error)
    assert trace.check() == []
    return trace


def read_both(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, object]:
    with_kernel = content(read(path))
    with monkeypatch.context() as patch:
        oracles.ggmlviz(patch)
        return with_kernel, content(read(path))


def corpus_names() -> list[str]:
    folder = corpus_path()
    if folder is None:
        return []
    return sorted(
        str(path.relative_to(folder))
        for path in (folder / "ggmlviz").rglob("*")
        if path.suffix in (".ggmlviz", ".bin")
    )


@pytest.mark.parametrize("name", corpus_names())
def test_corpus_reads_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = corpus_path()
    assert folder is not None
    path = folder / name
    if not path.stat().st_size:
        pytest.skip("the file is empty")

    with_kernel, without = read_both(path, monkeypatch)

    assert with_kernel == without


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 2, 3, 3, 4, 9]),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(1, 2),
        st.sampled_from([None, "a-1", "b-2 (view)"]),
    ),
    max_size=60,
)


@given(steps=STEPS, is_sorted=st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_events_become_the_same_trace(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int, int, int, str | None]],
    is_sorted: bool,
) -> None:
    time, events = viz.T0, []
    for kind, delta, pointer, thread, label in steps:
        time = time + delta if is_sorted else viz.T0 + delta
        events.append(Event(kind, time, pointer, 27, 64, thread, thread, label))
    path = viz.write(tmp_path_factory.mktemp("viz") / "t.ggmlviz", events)

    with pytest.MonkeyPatch.context() as patch:
        with_kernel, without = read_both(path, patch)

    assert with_kernel == without


@pytest.mark.parametrize("interleaved", [False, True])
def test_more_keys_than_slots_pair_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interleaved: bool
) -> None:
    # Open ops outside graphs stay, those of graphs that end are forgotten.
    events = [Event(2, viz.T0 + i, i, 27, thread=5) for i in range(9000)]
    events += viz.graph(viz.T0 + 10**6, 12_000, interleaved=interleaved)
    events += viz.run(40, 300)
    events += [Event(3, viz.T0 + 10**9 + i, i, 27, thread=5) for i in range(0, 9000, 2)]
    path = viz.write(tmp_path / "t.ggmlviz", events)

    with_kernel, without = read_both(path, monkeypatch)

    assert with_kernel == without


@given(
    st.lists(st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=6)),
    st.integers(1, 5),
)
def test_texts_of_labels_are_cut_where_labels_end(
    texts: list[str], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_LABELS_AT_ONCE", at_once)
        labels = Labels()
        raw = [text.encode() for text in texts]
        labels.n = len(raw)
        labels.ends = np.cumsum([0, *map(len, raw)])
        labels.letters = np.frombuffer(b"".join(raw) + b"behind", np.uint8)
        assert labels.texts() == texts
        assert labels.raw() == raw


def test_very_many_labels_that_show_nothing_choose_the_table_of_each_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(labels: list[str]) -> OpTable | None:
        events = [
            event
            for i, label in enumerate(labels)
            for event in (
                Event(2, viz.T0 + 2 * i, 64, 29 + i % 3, label=label.encode()),
                Event(3, viz.T0 + 2 * i + 1, 64, 29 + i % 3, label=label.encode()),
            )
        ]
        return registry.open_trace(viz.write(tmp_path / "labels.ggmlviz", events)).ops

    silent = [f"blk-{i:04}" for i in range(40)]
    with_name = [*silent, "kq_soft_max-1"]
    quiet, trace = read(silent), read(with_name)
    monkeypatch.setattr(op_table, "_MAX_ALIKE", 1 << 20)
    assert (quiet, trace) == (read(silent), read(with_name))
    assert quiet is not None
    assert trace is not None
    assert quiet.margin == 0.0 < trace.margin

    each = [OpSample(29 + i % 3, label) for i, label in enumerate(silent)]
    together = [OpSample(29 + i, "", (), None, len(each[i::3])) for i in range(3)]
    assert infer(each) == infer(together)
