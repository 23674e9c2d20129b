"""Tokens of a ubatch: their sequences, and which of them are generated."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ggscope_capture import ring
from ggscope_capture.ring_contents import Ubatch
from ggscope_capture.ring_format import UNKNOWN_U32, Frame, Phase, RingError, frames

NATIVE = Path(ring.__file__).parent / "native"
PROMPT, GENERATE, MIXED = (
    Phase.PROMPT,
    Phase.GENERATE,
    Phase.MIXED,
)
UNKNOWN = Phase.UNKNOWN
Row = tuple[int, int, Sequence[int], bool]
"""Token, position, sequences, and whether its output is asked for."""


class Batch(ctypes.Structure):
    """`llama_batch`."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("tokens", ctypes.c_void_p),
        ("embeddings", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("n_sequences", ctypes.c_void_p),
        ("sequences", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C file with what it needs of the tracer."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler here")
    path = tmp_path_factory.mktemp("probe") / "probe.so"
    sources = [NATIVE / "ubatches.c", Path(__file__).parent / "probe.c"]
    flags = [
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-pthread",
    ]
    subprocess.run(["cc", *flags, f"-I{NATIVE}", *sources, "-o", path], check=True)
    return path


@dataclass
class Program:
    """A program that computes batches: each call in ubatches of some of its rows."""

    library: ctypes.CDLL
    _referenced: list[object] = field(default_factory=list)

    def numbers(self, values: Sequence[int] | None) -> ctypes.Array | None:
        if values is None:
            return None
        made = (ctypes.c_int32 * max(len(values), 1))(*values)
        self._referenced.append(made)
        return made

    def decode(
        self,
        rows: Sequence[Row],
        *ubatches: Sequence[int],
        context: int = 1,
        positions: bool = True,
        status: int = 0,
        extended: bool = False,
    ) -> list[Ubatch]:
        """Compute rows by `llama_decode`; without `ubatches` all of them at once."""
        if extended:
            self.fill(7, rows)
            self.library.call_begins_with(context, 7, False)
        else:
            self.library.call_begins(context, self.batch(rows, positions), False)
        values = [
            ubatch
            for part in ubatches or [range(len(rows))]
            for ubatch in self.compute([rows[i] for i in part], context=context)
        ]
        self.library.call_ends(status == 0, False)
        return values

    def batch(self, rows: Sequence[Row], positions: bool) -> object:
        lists = [self.numbers(row[2]) for row in rows]
        pointers = (ctypes.c_void_p * len(rows))(*map(ctypes.addressof, lists))
        outputs = (ctypes.c_int8 * len(rows))(*(row[3] for row in rows))
        self._referenced += [pointers, outputs]
        columns = [
            self.numbers([row[0] for row in rows]),
            self.numbers([row[1] for row in rows]) if positions else None,
            self.numbers([len(row[2]) for row in rows]),
        ]
        token, position, counts = (
            None if column is None else ctypes.addressof(column) for column in columns
        )
        return ctypes.byref(
            Batch(len(rows), token, None, position, counts,
                  ctypes.addressof(pointers), ctypes.addressof(outputs))
        )  # fmt: skip

    def fill(self, batch: int, rows: Sequence[Row]) -> None:
        """Fill a `llama_batch_ext` as llama.cpp's common library does."""
        self.library.batch_cleared(batch)
        for i, (token, position, sequences, output) in enumerate(rows):
            self.library.batch_added(batch, i, sequences[0], token)
            self.library.batch_changed(batch, i, 1, position)
            for sequence in sequences[1:]:
                self.library.batch_changed(batch, i, 0, sequence)
            if output:
                self.library.batch_changed(batch, i, 2, 1)

    def compute(
        self, rows: Sequence[Row], *, context: int = 1, has_outputs: bool = True,
        parts: int = 1,
    ) -> list[Ubatch]:  # fmt: skip
        """Compute a ubatch; in three graphs of one node each where `parts` is 3."""
        n = len(rows)
        tokens = self.numbers([row[0] for row in rows])
        positions = self.numbers([row[1] for row in rows])
        outputs = [i for i, row in enumerate(rows) if row[3]]
        listed = self.numbers(outputs) if has_outputs else None
        self.library.probe_schedule(context, True)
        inputs = [(tokens, n, positions, n, n, listed, len(outputs))]
        if parts == 3:
            inputs = [
                (tokens, n, None, 0, 0, None, 0),
                (None, 0, positions, n, n, None, 0),
                (None, 0, positions, n, n, None, 0),
            ]
        for given in inputs:
            self.library.probe_graph(*given)
        self.library.probe_schedule(context, False)
        return self.written()

    def written(self) -> list[Ubatch]:
        """Return the ubatches that were stated since, each once."""
        size = ctypes.c_uint64.in_dll(self.library, "n_written")
        data = (ctypes.c_uint8 * (1 << 20)).in_dll(self.library, "written")
        events = [event for event, _ in frames(bytes(data[: size.value]))]
        size.value = 0
        values = {}
        for event in events:
            ubatch = Ubatch.of(event)
            values[ubatch.head.ubatch] = ubatch
        return list(values.values())


@pytest.fixture
def program(library: Path) -> Iterator[Program]:
    """A program that has computed nothing yet."""
    loaded = ctypes.CDLL(str(library))
    for name in ("batch_added", "batch_changed", "batch_cleared", "batch_freed"):
        getattr(loaded, name).argtypes = (
            [ctypes.c_void_p] + [ctypes.c_int32] * 3
        )[: 1 if name in ("batch_cleared", "batch_freed") else 4]  # fmt: skip
    loaded.call_begins.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool]
    loaded.call_begins_with.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool]
    loaded.call_ends.argtypes = [ctypes.c_bool, ctypes.c_bool]
    loaded.probe_schedule.argtypes = [ctypes.c_uint64, ctypes.c_bool]
    yield Program(loaded)
    loaded.ubatches_forget()


def rows(
    first: int, n: int, sequence: int = 0, *, output: str = "last", token: int = 100
) -> list[Row]:
    """Return tokens of one sequence that follow each other."""
    outputs = {
        "last": [False] * (n - 1) + [True],
        "all": [True] * n,
        "none": [False] * n,
    }
    return [
        (token + first + i, first + i, (sequence,), outputs[output][i])
        for i in range(n)
    ]


def phases(ubatches: Sequence[Ubatch]) -> list[list[int]]:
    return [ubatch.phases for ubatch in ubatches]


@pytest.mark.parametrize("extended", [False, True])
def test_prompt_then_one_token_at_a_time(program: Program, extended: bool) -> None:
    events = program.decode(rows(0, 4), extended=extended)
    events += program.decode(rows(4, 1), extended=extended)
    events += program.decode(rows(5, 1), extended=extended)

    assert phases(events) == [[PROMPT] * 4, [GENERATE], [GENERATE]]
    assert [ubatch.head.phase for ubatch in events] == [PROMPT, GENERATE, GENERATE]
    assert [ubatch.sequences for ubatch in events] == [[[0]] * 4, [[0]], [[0]]]
    assert [ubatch.outputs for ubatch in events] == [
        [False] * 3 + [True],
        [True],
        [True],
    ]
    decodes = [ubatch.rows.decode for ubatch in events]
    assert decodes == [decodes[0], decodes[0] + 1, decodes[0] + 2]
    assert {ubatch.rows.knowledge for ubatch in events} == {3}


def test_a_prompt_of_one_token_is_a_prompt(program: Program) -> None:
    events = program.decode(rows(0, 1)) + program.decode(rows(1, 1))

    assert phases(events) == [[PROMPT], [GENERATE]]


def test_several_sequences_that_generate_are_no_prompt(program: Program) -> None:
    """As llama-batched: one prompt for all sequences, then a token of each."""
    prompt = [(50 + i, i, (0, 1, 2, 3), i == 2) for i in range(3)]
    events = program.decode(prompt)
    for position in (3, 4):
        events += program.decode([(9, position, (s,), True) for s in range(4)])

    assert phases(events) == [[PROMPT] * 3, [GENERATE] * 4, [GENERATE] * 4]
    assert events[0].sequences == [[0, 1, 2, 3]] * 3
    assert events[1].sequences == [[0], [1], [2], [3]]


def test_a_request_joins_others_that_generate(program: Program) -> None:
    """As llama-server: a prompt of one slot beside a token of another."""
    program.decode(rows(0, 5, 0))
    events = program.decode([*rows(5, 1, 0), *rows(0, 3, 1)])
    events += program.decode([*rows(6, 1, 0), *rows(3, 1, 1)])

    assert phases(events) == [[GENERATE] + [PROMPT] * 3, [GENERATE] * 2]
    assert [ubatch.head.phase for ubatch in events] == [MIXED, GENERATE]


def test_a_draft_that_is_verified_is_generated(program: Program) -> None:
    program.decode(rows(0, 4))
    events = program.decode(rows(4, 6, output="all"))
    # Two of the draft were taken: the next one begins in the middle of it.
    events += program.decode(rows(7, 6, output="all"))

    assert phases(events) == [[GENERATE] * 6] * 2


def test_a_draft_model_keeps_up_with_what_was_accepted(program: Program) -> None:
    """As llama-speculative-simple: it computes each verified batch again."""
    target, draft = 1, 2
    program.decode(rows(0, 8, output="none"), context=target)
    program.decode(rows(0, 8), context=draft)
    messages = []
    for first, other in ((8, 100), (9, 500), (11, 900)):
        # The last token that was accepted, and three that are drafted.
        batch = [*rows(first, 1), *rows(first + 1, 3, token=other)]
        for row in batch[:3]:
            messages += program.decode([(*row[:3], True)], context=draft)
        verified = [(*row[:3], True) for row in batch]
        messages += program.decode(verified, context=target)
        again = [(*row[:3], i == 3) for i, row in enumerate(batch)]
        messages += program.decode(again, context=draft)

    assert (
        phases(messages)
        == [[GENERATE]] * 3
        + [[GENERATE] * 4] * 2
        + ([[GENERATE]] * 3 + [[GENERATE] * 4] * 2) * 2
    )


def test_prompts_of_other_contexts_are_no_generation(program: Program) -> None:
    """Two talks with the same words; what the one generates the other is asked for."""
    program.decode(rows(0, 4), context=1)
    program.decode(rows(4, 1), context=1)
    events = program.decode(rows(0, 6), context=2)
    events += program.decode(rows(0, 6, output="all"), context=3)

    assert phases(events) == [[PROMPT] * 6] * 2


def test_all_outputs_of_a_prompt_are_no_generation(program: Program) -> None:
    """As perplexity and embeddings are computed."""
    events = program.decode(rows(0, 8, output="all"))

    assert phases(events) == [[PROMPT] * 8]


def test_the_next_message_of_a_talk_is_a_prompt(program: Program) -> None:
    program.decode(rows(0, 4))
    program.decode(rows(4, 1))
    events = program.decode(rows(5, 7)) + program.decode(rows(12, 1))

    assert phases(events) == [[PROMPT] * 7, [GENERATE]]


def test_a_prompt_that_is_in_the_cache_is_a_prompt(program: Program) -> None:
    """A server computes its last token once more."""
    program.decode(rows(0, 9))
    program.decode(rows(9, 1))
    events = program.decode(rows(8, 1))

    assert phases(events) == [[PROMPT]]


def test_a_long_prompt_is_one_decode_of_several_ubatches(program: Program) -> None:
    events = program.decode(rows(0, 5), [0, 1], [2, 3], [4])

    assert phases(events) == [[PROMPT] * 2, [PROMPT] * 2, [PROMPT]]
    assert len({ubatch.rows.decode for ubatch in events}) == 1
    assert [ubatch.head.ubatch for ubatch in events] == [0, 1, 2]


def test_rows_in_another_order_keep_their_sequences(program: Program) -> None:
    """Ubatches of equal lengths put the rows of a sequence next to each other."""
    batch = [row for i in range(3) for row in (*rows(i, 1, 0), *rows(i, 1, 1, token=7))]
    events = program.decode(batch, [0, 2, 4, 1, 3, 5])

    assert events[0].sequences == [[0], [0], [0], [1], [1], [1]]


def test_one_decode_in_graphs_of_one_node_is_one_ubatch(program: Program) -> None:
    """As the scheduler computes for a program that looks at each node."""
    program.library.call_begins(1, program.batch(rows(0, 4), True), False)
    events = program.compute(rows(0, 4), parts=3)
    program.library.call_ends(True, False)

    assert phases(events) == [[PROMPT] * 4]
    assert events[0].positions == [0, 1, 2, 3]
    assert events[0].tokens == [100, 101, 102, 103]


def test_graphs_of_one_node_without_a_call_are_one_ubatch_each(
    program: Program,
) -> None:
    events = program.compute(rows(0, 4), parts=3) + program.compute(rows(4, 1), parts=3)

    assert phases(events) == [[PROMPT] * 4, [GENERATE]]
    assert [ubatch.sequences for ubatch in events] == [[[0]] * 4, [[0]]]


def test_positions_that_a_batch_leaves_out_go_on(program: Program) -> None:
    events = program.decode(rows(0, 4), positions=False)
    events += program.decode(rows(4, 1), positions=False)
    # The program empties the context's memory.
    events += program.decode(rows(0, 1), positions=False)

    assert phases(events) == [[PROMPT] * 4, [GENERATE], [PROMPT]]


def test_what_was_refused_was_not_computed(program: Program) -> None:
    program.decode(rows(0, 4))
    program.decode(rows(4, 3), [], status=1)
    events = program.decode(rows(4, 1))

    assert phases(events) == [[GENERATE]]


def test_a_sequence_may_be_a_copy_of_another(program: Program) -> None:
    program.decode(rows(0, 4, 0))

    assert phases(program.decode(rows(4, 1, 3))) == [[GENERATE]]


def test_contexts_have_sequences_of_their_own(program: Program) -> None:
    """A draft model's sequence 0 is another one."""
    events = program.decode(rows(0, 4), context=1) + program.decode(
        rows(4, 1), context=2
    )

    assert phases(events) == [[PROMPT] * 4, [PROMPT]]
    assert [ubatch.rows.owner for ubatch in events] == [1, 2]


def test_without_calls_outputs_of_the_graph_show(program: Program) -> None:
    events = program.compute(rows(0, 4)) + program.compute(rows(4, 1))
    events += program.compute(rows(5, 3, output="all")) + program.compute(rows(8, 5))

    assert phases(events) == [[PROMPT] * 4, [GENERATE], [GENERATE] * 3, [PROMPT] * 5]
    assert {ubatch.rows.knowledge for ubatch in events} == {2}
    assert {ubatch.rows.decode for ubatch in events} == {UNKNOWN_U32}


def test_without_calls_and_outputs_several_tokens_are_not_known(
    program: Program,
) -> None:
    values = [
        ubatch
        for part in (rows(0, 4), rows(4, 1), rows(5, 3), rows(8, 1))
        for ubatch in program.compute(part, has_outputs=False)
    ]

    assert phases(values) == [[PROMPT] * 4, [GENERATE], [UNKNOWN] * 3, [GENERATE]]
    assert [ubatch.head.phase for ubatch in values] == [PROMPT, GENERATE, 0, GENERATE]


def test_without_calls_positions_distinguish_sequences(program: Program) -> None:
    events = program.compute([*rows(0, 4), *rows(0, 2), *rows(0, 7)])
    events += program.compute([*rows(4, 1), *rows(2, 1), *rows(7, 1)])
    # Neighbours are no run where each goes on with a sequence of its own.
    program.compute([*rows(3, 1), *rows(8, 1)])
    events += program.compute([*rows(4, 1), *rows(5, 1)])

    assert events[0].sequences == [[0]] * 4 + [[1]] * 2 + [[2]] * 7
    assert events[1].sequences == [[0], [1], [2]]
    assert phases(events)[1:] == [[GENERATE] * 3, [GENERATE] * 2]
    assert events[2].sequences == [[1], [0]]


def test_a_batch_that_was_filled_before_it_was_seen_is_not_believed(
    program: Program,
) -> None:
    program.library.batch_added(7, 3, 5, 999)
    program.library.call_begins_with(1, 7, False)
    events = program.compute(rows(0, 2))
    program.library.call_ends(True, False)

    assert events[0].sequences == [[0], [0]]
    assert events[0].rows.knowledge == 2


def test_rows_that_are_cut_are_refused(program: Program) -> None:
    program.library.probe_schedule(1, True)
    given = program.numbers([1, 2])
    program.library.probe_graph(given, 2, given, 2, 2, None, 0)
    size = ctypes.c_uint64.in_dll(program.library, "n_written")
    data = (ctypes.c_uint8 * (1 << 20)).in_dll(program.library, "written")
    ((event, _),) = frames(bytes(data[: size.value]))
    program.written()
    inputs, head = 24 + 16, 24
    known = []

    for length in range(len(event.body) + 1):
        try:
            cut = Frame(event.type, event.time, event.body[:length])
            known.append((length, Ubatch.of(cut).rows is not None))
        except RingError:
            pass

    # Older tracers end behind the inputs.
    whole = inputs + head + 4 + 2 * 4 + 2 * 4
    assert known[: head + 1] == [
        *((length, False) for length in range(inputs, inputs + head)),
        (whole, True),
    ]
