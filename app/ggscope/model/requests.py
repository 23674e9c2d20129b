"""Requests and memory from the log of a server or of a command-line run."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, Column, Table


@dataclass(frozen=True, slots=True, eq=False)
class Requests(Table):
    """Requests of a server, or runs of a command-line program, in the order of the log.

    A number is -1 where the log does not state it.
    """

    run: Annotated[
        Array, Column("int32", "start of the program, from 0", low=0, high=1 << 31)
    ]
    slot: Annotated[Array, Column("int32", "slot of the server", -1, high=1 << 31)]
    task: Annotated[I64, Column("int64", "number of the task", -1, high=1 << 62)]
    line: Annotated[
        I64, Column("int64", "first line of it in the log, from 0", high=1 << 62)
    ]
    is_timed: Annotated[
        npt.NDArray[np.bool_],
        Column("bool", "whether the log has its timings, as of one that is done"),
    ]
    launch: Annotated[
        I64,
        Column("int64", "when a slot took it; none without a clock", -1, unit="ticks"),
    ]
    queued: Annotated[
        I64,
        Column(
            "int64",
            "from then to the begin of the prompt",
            -1,
            unit="ticks",
            is_length=True,
        ),
    ]
    n_prompt: Annotated[
        I64, Column("int64", "tokens of the prompt that were computed", -1)
    ]
    prompt_time: Annotated[
        I64, Column("int64", "how long that took", -1, unit="ticks", is_length=True)
    ]
    n_generated: Annotated[I64, Column("int64", "tokens that were generated", -1)]
    generated_time: Annotated[
        I64, Column("int64", "how long that took", -1, unit="ticks", is_length=True)
    ]
    n_whole: Annotated[I64, Column("int64", "tokens of the whole prompt", -1)]
    n_cached: Annotated[
        I64, Column("int64", "of these, tokens taken from the cache", -1)
    ]
    n_reprocessed: Annotated[
        I64,
        Column(
            "int64",
            "cached tokens that were computed again",
            -1,
        ),
    ]
    is_forced: Annotated[
        npt.NDArray[np.bool_],
        Column("bool", "whether the log says that the whole prompt had to be computed"),
    ]
    reason: Annotated[
        Array,
        Column("int32", "the log's words for that, or for the slot", -1, of="strings"),
    ]
    n_drafted: Annotated[
        I64, Column("int64", "tokens that the draft model proposed", -1)
    ]
    n_accepted: Annotated[I64, Column("int64", "of these, tokens that were right", -1)]
    n_rounds: Annotated[I64, Column("int64", "how often tokens were drafted", -1)]
    n_accepted_rounds: Annotated[
        I64, Column("int64", "of these, drafts of which some tokens were right", -1)
    ]
    draft_time: Annotated[
        I64,
        Column("int64", "how long drafting took", -1, unit="ticks", is_length=True),
    ]
    prompt_span: Annotated[I64, Column("int64", "its prompt", -1, of="spans")]
    generated_span: Annotated[I64, Column("int64", "its generation", -1, of="spans")]


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory of one device, in bytes: a row of llama.cpp's memory breakdown.

    Attributes
    ----------
    run : start of the program, from 0.
    line : of the log, from 0.
    total, free, unaccounted : None where the log has no such column for the device.
        `unaccounted` may be negative: then the program's parts are more than what the
        driver says is taken.
    is_sum : whether it is no such row, but what lines on single buffers add up to.
    """

    run: int
    line: int
    device: str
    total: int | None
    free: int | None
    used: int
    model: int
    context: int
    compute: int
    unaccounted: int | None
    is_sum: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ServerLog:
    """What a log states beside times.

    Attributes
    ----------
    memory : of the last breakdown of each start.
    facts : what the program says of itself and its model, by names of the log.
    has_clock : whether its lines have times; without them the order of lines and the
        durations in them place the spans.
    """

    requests: Requests
    memory: tuple[MemoryUse, ...]
    facts: tuple[tuple[str, str], ...]
    has_clock: bool
