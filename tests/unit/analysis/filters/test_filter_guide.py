"""Every filter that the guide shows is understood, and finds something."""

import re

import numpy as np
import pytest

from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.filters.text import parse_filter
from link_traces import random_links_trace
from support import ROOT

GUIDE = (ROOT / "resources" / "docs" / "guide" / "filters.md").read_text("utf-8")
(BLOCK,) = re.findall(r"```filter\n(.*?)```", GUIDE, re.DOTALL)
LINES = BLOCK.splitlines()
PARTS = re.split(r"  +", "  ".join(LINES[:4]))
TRACE = random_links_trace(4)


@pytest.mark.parametrize("expression", [*PARTS, *LINES[4:]])
def test_expression_of_the_guide_is_understood(expression):
    row_filter = parse_filter(expression)

    assert row_filter
    mask = filter_mask(TRACE, row_filter)
    assert mask.shape == (len(TRACE.spans),)


def test_expression_of_the_guide_and_its_negation_share_the_spans_out():
    for expression in LINES[4:]:
        result = filter_mask(TRACE, parse_filter(expression))
        others = filter_mask(TRACE, parse_filter(f"not ({expression})"))
        assert np.array_equal(result, ~others)
