"""What a desktop gives a start to come to the front with, and how it is given back.

A launcher marks each start by a token in the environment, shows that something is
coming, and lets the window that shows the token take the front. Qt sees to that where
the start opens a window. Where it hands its files to one that is open, that window
does: under Wayland Qt takes the token from its environment, under X11 it knows no way,
and `finish_x11` says what has to be said.
"""

import ctypes
import logging
import os
import re
import struct

logger = logging.getLogger(__name__)

_WAYLAND, _X11 = "XDG_ACTIVATION_TOKEN", "DESKTOP_STARTUP_ID"
_MAX_TOKEN = 256
_CLIENT_MESSAGE = 33
_PROPERTY_CHANGE = 1 << 22
_SUBSTRUCTURE = 1 << 19 | 1 << 20
_CHUNK = 20
"""Bytes that a message holds."""
_TIME = re.compile(r"_TIME(\d{1,10})$")


def given_token() -> str:
    """Return the token of this start; "" = it has none that can be passed on."""
    order = (_WAYLAND, _X11) if os.environ.get("WAYLAND_DISPLAY") else (_X11, _WAYLAND)
    found = (os.environ.get(name, "") for name in order)
    return next((token for token in found if token and is_token(token)), "")


def is_token(text: str) -> bool:
    """Tell whether `text` may be a token, or is empty."""
    return len(text) <= _MAX_TOKEN and text.isascii() and text.isprintable()


def set_wayland_token(token: str) -> None:
    """Put a token where Qt looks when a window asks for the front."""
    os.environ[_WAYLAND] = token


def forget_tokens() -> None:
    """Keep programs that are started from here from taking a token for theirs."""
    for name in (_WAYLAND, _X11):
        os.environ.pop(name, None)


def finish_x11(token: str, window_id: int) -> None:
    """Tell an X11 desktop that the start is over, and ask for the front by its time.

    Does nothing where the display does not answer; never raises.

    Notes
    -----
    It is the message "remove" of the Startup Notification Protocol, and
    _NET_ACTIVE_WINDOW with the time of the click: window managers that let nobody
    steal the keys compare it with that of the last key. A connection of its own,
    because that of Qt cannot be reached from Python in all versions.
    """
    try:
        xcb = _library()
    except (OSError, AttributeError) as error:
        logger.info("no end of the start is told: %s", error)
        return
    line = xcb.xcb_connect(None, None)
    try:
        if xcb.xcb_connection_has_error(line):
            return
        screens = xcb.xcb_setup_roots_iterator(xcb.xcb_get_setup(line))
        root = screens.screen.contents.value
        quoted = re.sub(r'(["\\])', r"\\\1", token)
        text = f'remove: ID="{quoted}"'.encode("ascii") + b"\0"
        kind = "_NET_STARTUP_INFO_BEGIN"
        for start in range(0, len(text), _CHUNK):
            data = text[start : start + _CHUNK]
            _send(xcb, line, root, _PROPERTY_CHANGE, (kind, 8, window_id, data))
            kind = "_NET_STARTUP_INFO"
        clicked = _TIME.search(token)
        if clicked is not None:
            data = struct.pack("=5I", 1, int(clicked[1]) & 0xFFFFFFFF, 0, 0, 0)
            message = ("_NET_ACTIVE_WINDOW", 32, window_id, data)
            _send(xcb, line, root, _SUBSTRUCTURE, message)
        xcb.xcb_flush(line)
    finally:
        xcb.xcb_disconnect(line)


class _Screens(ctypes.Structure):
    """xcb_screen_iterator_t; a screen begins with the number of its root window."""

    _fields_ = (
        ("screen", ctypes.POINTER(ctypes.c_uint32)),
        ("rem", ctypes.c_int),
        ("index", ctypes.c_int),
    )


class _Atom(ctypes.Structure):
    """xcb_intern_atom_reply_t."""

    _fields_ = (
        ("head", ctypes.c_uint8 * 8),
        ("atom", ctypes.c_uint32),
    )


def _library() -> ctypes.CDLL:
    xcb, line = ctypes.CDLL("libxcb.so.1"), ctypes.c_void_p
    byte, word, long = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32
    functions = {
        "xcb_connect": (line, ctypes.c_char_p, ctypes.c_void_p),
        "xcb_connection_has_error": (ctypes.c_int, line),
        "xcb_get_setup": (ctypes.c_void_p, line),
        "xcb_setup_roots_iterator": (_Screens, ctypes.c_void_p),
        "xcb_intern_atom": (ctypes.c_uint, line, byte, word, ctypes.c_char_p),
        "xcb_intern_atom_reply": (
            ctypes.POINTER(_Atom), line, ctypes.c_uint, ctypes.c_void_p,
        ),
        "xcb_send_event": (ctypes.c_uint, line, byte, long, long, ctypes.c_char_p),
        "xcb_flush": (ctypes.c_int, line),
        "xcb_disconnect": (None, line),
    }  # fmt: skip
    for name, (result, *arguments) in functions.items():
        function = getattr(xcb, name)
        function.restype, function.argtypes = result, arguments
    return xcb


def _send(
    xcb: ctypes.CDLL,
    line: int,
    root: int,
    mask: int,
    message: tuple[str, int, int, bytes],
) -> None:
    kind, form, window, data = message
    name = kind.encode("ascii")
    asked = xcb.xcb_intern_atom(line, 0, len(name), name)
    reply = xcb.xcb_intern_atom_reply(line, asked, None)
    if not reply:
        return
    atom = reply.contents.atom
    free = ctypes.CDLL(None).free
    free.argtypes = (ctypes.c_void_p,)
    free(ctypes.cast(reply, ctypes.c_void_p))
    head = struct.pack("=BBHII", _CLIENT_MESSAGE, form, 0, window, atom)
    xcb.xcb_send_event(line, 0, root, mask, head + data.ljust(_CHUNK, b"\0"))
