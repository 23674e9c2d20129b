"""What the pages of the comparison show: the runs of both sides, and what was found."""

from dataclasses import dataclass

from ggscope.analysis.compare.compare import Comparison
from ggscope.model.trace import Trace
from ggscope.model.units import Unit


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A comparison with its traces.

    Attributes
    ----------
    traces : of all runs, those of A first; the first one is that of the tab.
    title_a, title_b : what the sides are called.
    """

    comparison: Comparison
    traces: tuple[Trace, ...]
    title_a: str
    title_b: str

    @property
    def unit(self) -> Unit:
        """The unit of all times."""
        return self.traces[0].clock.unit

    @property
    def n_a(self) -> int:
        """Runs of A."""
        return self.comparison.n_a

    @property
    def runs_a(self) -> tuple[Trace, ...]:
        """The runs of A."""
        return self.traces[: self.n_a]

    @property
    def runs_b(self) -> tuple[Trace, ...]:
        """The runs of B."""
        return self.traces[self.n_a :]
