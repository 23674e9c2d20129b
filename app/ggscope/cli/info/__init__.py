"""``ggscope info``: what a trace holds."""
