"""Profiles in the file format of speedscope."""

from ggscope.readers.api import ReaderInfo
from ggscope.readers.common.weight_units import WEIGHTS_OPTION

INFO = ReaderInfo(
    "speedscope",
    "speedscope profile",
    (".json", ".speedscope"),
    "Profiles in the format of speedscope, which py-spy, rbspy, sample-based profilers "
    "of many languages and speedscope itself write.",
    (WEIGHTS_OPTION,),
    keys=("profiles",),
)
