"""What the settings of this start say of following; may change while it runs."""

from dataclasses import dataclass


@dataclass(slots=True)
class LiveOptions:
    """Settings of following.

    Attributes
    ----------
    output : event stream that is followed where nothing is named and no traced program
        runs; "" = none.
    output_source : who names it, such as ``GGML_VIZ_OUTPUT``.
    poll_s : interval of reading, in seconds; 0 = as fast as news comes.
    """

    output: str = ""
    output_source: str = ""
    poll_s: float = 0.0


OPTIONS = LiveOptions()
"""Those of this process."""
