"""What spans are grouped by, in words."""

from collections.abc import Mapping

from ggscope.model.selection import By

GROUPINGS: Mapping[By, str] = {
    "op": "op",
    "family": "op family",
    "layer": "layer",
    "token": "token",
    "thread": "thread",
    "phase": "phase",
    "engine": "engine",
    "lane": "lane",
    "tensor": "weight",
    "source": "memory source",
    "expert": "expert",
    "core": "core",
    "numa": "NUMA node",
}
