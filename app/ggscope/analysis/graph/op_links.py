"""Links of one op: which ops compute what it reads, and which read its result."""

from dataclasses import dataclass
from enum import Enum, IntEnum


class NoPass(Enum):
    """Why the ops of a pass are not known."""

    NOT_AN_OP = "not_an_op"
    OUTSIDE = "outside"
    """It begins before the first pass, or claims no token."""
    OVERLAP = "overlap"
    """Passes share time, and ops do not say which one they are of."""
    NOT_SHARED_OUT = "not_shared_out"
    """The trace is too long to look for the spans of each op."""
    TOO_LONG = "too_long"
    """The pass has more ops than are linked; most likely it is several passes."""


class EdgeSource(IntEnum):
    """How a dependency is known."""

    GRAPH = 0
    """An edge of the computation graph, through views and fused nodes."""
    NAME = 1
    """One op of the pass alone can have written what this name means."""
    RECORDED = 2
    """The trace records it: a dependency of spans, or the op that computed a source."""


class NoProducer(IntEnum):
    """Why it is not known which op computed what an op reads."""

    NOT_WRITTEN = 0
    """No recorded op of the pass has written the name before: an input, the result of
    an earlier pass, of an op without a record, or another name of a result."""
    AMBIGUOUS = 1
    """Several ops of the pass have written the name, or are the same node."""
    NOT_RECORDED = 2
    """The graph names the op, but it has no span in the pass."""


class NoEdges(Enum):
    """Why nothing is known of the dependencies of a pass."""

    NO_SOURCES = "no_sources"
    """No graph has its ops, and the trace does not record what ops read."""
    OPS_HIDDEN = "ops_hidden"
    """Known by names alone, and ops that may have written them are not recorded."""


@dataclass(frozen=True, slots=True)
class OpenRead:
    """What an op reads of which the producer is not known.

    Attributes
    ----------
    op : position of the reader in the pass.
    name : of the tensor.
    why : no producer is known.
    n_writers : ops that may have written it.
    """

    op: int
    name: str
    why: NoProducer
    n_writers: int = 0


@dataclass(frozen=True, slots=True)
class OpLink:
    """An op that another one depends on, or that depends on it.

    Attributes
    ----------
    span : on the same lane where the op has one there.
    how : the dependency is known.
    """

    span: int
    how: EdgeSource


@dataclass(frozen=True, slots=True)
class OpLinks:
    """What an op reads of other ops, and who reads its result.

    Attributes
    ----------
    span : of the op; -1 = nothing that could have links is selected.
    inputs, consumers : in the order of time.
    open : what it reads of unknown producers.
    unknown : why nothing is known; None where something is.
    """

    span: int = -1
    inputs: tuple[OpLink, ...] = ()
    consumers: tuple[OpLink, ...] = ()
    open: tuple[OpenRead, ...] = ()
    unknown: NoPass | NoEdges | None = None

    @property
    def has_ends(self) -> bool:
        """Whether there are arrows to draw."""
        return bool(self.inputs or self.consumers)


NO_LINKS = OpLinks()
"""Of what is no op."""
