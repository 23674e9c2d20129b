"""All facts of a trace about an NPU, for pane, figure and command line."""

from dataclasses import dataclass

from ggscope.analysis.npu.bandwidth import Bandwidth, bandwidth
from ggscope.analysis.npu.engines import (
    Concurrency,
    Engines,
    Moved,
    StallReason,
    concurrency,
    engines_of,
    moved_bytes,
    stall_reasons,
)
from ggscope.analysis.npu.memory import Memory, memory_of
from ggscope.analysis.npu.quantisation import OpBits, op_bits
from ggscope.analysis.npu.traffic import TokenTraffic, token_traffic
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class NpuFacts:
    """What a trace states about an NPU; see the modules of each."""

    engines: Engines
    concurrency: tuple[Concurrency, ...]
    moved: Moved
    stalls: tuple[StallReason, ...]
    bandwidth: Bandwidth
    memory: Memory
    bits: tuple[OpBits, ...]
    traffic: TokenTraffic

    @property
    def has_any(self) -> bool:
        """Whether there is anything to show."""
        memory = self.memory
        return bool(
            len(self.engines)
            or len(self.bandwidth)
            or memory.has_spm
            or len(memory.dram)
        )


def npu_facts(trace: Trace) -> NpuFacts:
    """Return what a trace states about an NPU."""
    return NpuFacts(
        engines_of(trace),
        concurrency(trace),
        moved_bytes(trace),
        stall_reasons(trace),
        bandwidth(trace),
        memory_of(trace),
        op_bits(trace),
        token_traffic(trace),
    )
