"""What compiled code does, in plain numpy and Python: tests hold the two together.

Each function here puts its oracle in the place of the compiled code for a while.
"""

import pytest


def ggmlviz(patch: pytest.MonkeyPatch) -> None:
    """Read `.ggmlviz` files without compiled code."""
    from ggscope.readers.ggmlviz import pairing, reader
    from oracles.ggmlviz_intake import NumpyIntake
    from oracles.ggmlviz_pairing import pair_ops

    patch.setattr(
        reader, "EventIntake", lambda wanted, room, _: NumpyIntake(wanted, room)
    )
    patch.setattr(pairing, "pair_ops", pair_ops)
