"""Timeline events of the NPU simulator, as a typed decoder reads them.

The types hold what an event must be for nothing to be said about it: the decoder
refuses everything else, and `npu_rules` then looks at that event alone. ``gc=False``
keeps the hundred thousands of short-lived objects out of the garbage collector.
"""

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

MAX_CYCLE = 1 << 61
"""Larger times would overflow int64 once windows are added to them."""
MAX_ID = (1 << 31) - 1
MAX_INT = (1 << 63) - 1
MAX_NUMBER = (1 << 62) - 1

ENGINES = ("DMA", "TE", "VE", "CTRL", "HOST", "OTHER")
"""Engine names in the order of their lanes."""
MASTERS = ("DMA", "TE", "VE", "BUS", "TRACE", "CTRL", "HOST", "OTHER")
REASONS = ("queue_full", "priority_deferred", "backpressure", "throttle")
"""What the specification says masters stall for; the list is open."""
NO_REASON = "stall"
"""What a stall without a reason is called."""
COMMANDS = ("ENQUEUE", "START", "END", "ERROR")
COMMAND_NAME = "command"
"""What a command without phase and source is called."""
TOKEN_PHASES = ("PREFILL", "DECODE")
PHASE_NAMES = ("prefill", "decode")
"""How `TOKEN_PHASES` are called where people read them."""
DIRECTIONS = ("read", "write")
MEMORIES = ("DRAM", "SPM")
RESERVED = ("BUS_EVENT", "POWER_ESTIMATE", "ERROR_EVENT")
"""Types that the specification sets aside without saying what is in them."""

Cycle = Annotated[int, Meta(ge=0, le=MAX_CYCLE)]
Id = Annotated[int, Meta(ge=0, le=MAX_ID)]
Number = Annotated[int, Meta(ge=-1, le=MAX_NUMBER)]
Amount = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Address = Annotated[int, Meta(ge=0, le=MAX_INT)]


class Engine(Struct, tag_field="type", tag="ENGINE_EVENT", gc=False):
    """Work of one engine."""

    start_cycle: Cycle
    end_cycle: Cycle
    engine: Literal["DMA", "TE", "VE", "CTRL", "HOST", "OTHER"]
    op: str | None
    engine_id: Id = 0
    cmdq_id: Number = -1
    layer_id: str | None = None
    tile_id: str | None = None
    color_hint: str | None = None
    deps: list[Number] | None = None


class Access(Struct, tag_field="type", tag="MEM_ACCESS_EVENT", gc=False):
    """One transfer; `addr` is up to 2**64 - 1 where a rule let it pass.

    `bytes` is -1 where it is not stated.
    """

    cycle: Cycle
    mem_type: Literal["DRAM", "SPM"]
    direction: Literal["read", "write"]
    bytes: Amount = -1
    addr: Address | None = None
    source_engine: str | None = None
    source_engine_id: Id = 0
    cmdq_id: Number = -1


class Token(Struct, tag_field="type", tag="TOKEN_EVENT", gc=False):
    """The time spent on one token; `token_index` -1 where it is not known."""

    start_cycle: Cycle
    end_cycle: Cycle
    phase: Literal["PREFILL", "DECODE"]
    token_index: Id


class Stall(Struct, tag_field="type", tag="STALL_EVENT", gc=False):
    """A master waiting for something."""

    start_cycle: Cycle
    end_cycle: Cycle
    master: Literal["DMA", "TE", "VE", "BUS", "TRACE", "CTRL", "HOST", "OTHER"]
    master_id: Id = 0
    reason: str | None = None


class Command(Struct, tag_field="type", tag="CMD_EVENT", gc=False):
    """One step in the life of a command; `phase` is free text here."""

    cycle: Cycle
    event: Literal["ENQUEUE", "START", "END", "ERROR"]
    cmd_id: Number = -1
    source: str | None = None
    phase: str | None = None


class MarkerStub(Struct, tag_field="type", tag="MARKER_EVENT", gc=False):
    """Stands for a marker until `npu_rules` reads it with its details."""


class BusStub(Struct, tag_field="type", tag="BUS_EVENT", gc=False):
    """Stands for a reserved event."""


class PowerStub(Struct, tag_field="type", tag="POWER_ESTIMATE", gc=False):
    """Stands for a reserved event."""


class ErrorStub(Struct, tag_field="type", tag="ERROR_EVENT", gc=False):
    """Stands for a reserved event."""


class Instant(Struct, gc=False):
    """A marker, or an event that is shown as one; `power` in mW, NaN if none."""

    cycle: int
    name: str
    detail: str | None = None
    power: float = float("nan")


class Sample(Struct, gc=False):
    """One entry of ``bandwidth_samples``; None where a figure is missing."""

    cycle: Cycle
    window_cycles: Annotated[int, Meta(ge=1, le=MAX_CYCLE)]
    dram_read_bytes: Annotated[float, Meta(ge=0)] | None = None
    dram_write_bytes: Annotated[float, Meta(ge=0)] | None = None
    stall_cycles: Annotated[float, Meta(ge=0)] | None = None
    kv_bytes: Annotated[float, Meta(ge=0)] | None = None


Timed = Engine | Access | Token | Stall | Command
Stub = MarkerStub | BusStub | PowerStub | ErrorStub
Event = Timed | Instant
STUBS = (MarkerStub, BusStub, PowerStub, ErrorStub)

EVENT: msgspec.json.Decoder[Timed | Stub] = msgspec.json.Decoder(Timed | Stub)
EVENTS = msgspec.json.Decoder(list[Timed | Stub])
SAMPLE = msgspec.json.Decoder(Sample)
SAMPLES = msgspec.json.Decoder(list[Sample])

_BOUNDED_NUMBER = re.compile(r"(?:^|[\W_])(\d{1,5})(?=$|[\W_])")
_TRAILING_NUMBER = re.compile(r"(\d{1,5})$")
_HEX_COLOR = re.compile(r"#?([0-9a-fA-F]{6}|[0-9a-fA-F]{3})$")
_COLOR_NAMES = {
    "black": 0x000000,
    "blue": 0x0000FF,
    "brown": 0xA52A2A,
    "cyan": 0x00FFFF,
    "gray": 0x808080,
    "green": 0x008000,
    "grey": 0x808080,
    "magenta": 0xFF00FF,
    "orange": 0xFFA500,
    "pink": 0xFFC0CB,
    "purple": 0x800080,
    "red": 0xFF0000,
    "white": 0xFFFFFF,
    "yellow": 0xFFFF00,
}


def layer_number(layer_id: str) -> int:
    """Return the layer that an id such as ``attn_0`` or ``blk.5.ffn`` names; or -1.

    The first number that stands alone counts; else one at the end ("layer12").
    """
    found = _BOUNDED_NUMBER.search(layer_id) or _TRAILING_NUMBER.search(layer_id)
    number = int(found.group(1)) if found else -1
    return number if number < 1 << 15 else -1


def color_value(hint: str) -> int:
    """Return 0xFFRRGGBB for ``#rrggbb``, ``#rgb`` or a common name; 0 otherwise."""
    named = _COLOR_NAMES.get(hint.strip().lower())
    if named is not None:
        return 0xFF000000 | named
    found = _HEX_COLOR.match(hint.strip())
    if found is None:
        return 0
    digits = found.group(1)
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    return 0xFF000000 | int(digits, 16)
