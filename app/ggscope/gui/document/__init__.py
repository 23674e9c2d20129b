"""A tab of the window: one session with its files, bookmarks and followed program."""

from ggscope.gui.document.document import Document, reader_choices

__all__ = ["Document", "reader_choices"]
