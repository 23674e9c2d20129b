"""ggscope: a native viewer for inference traces."""

__version__ = "0.1.0"
