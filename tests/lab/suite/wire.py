"""A client of a sandbox's control socket that can do what mvm's own never would: ask and not read, send half a frame, hang up.

Frames are as include/mvm/proto/frame.h has them; of CBOR it knows what the tests say.
"""
import os
import select
import socket
import struct
import time

HELLO, REQUEST, DATA, STDOUT, STDERR, EOF, WINDOW, SIGNAL, RESIZE, EVENT, END, CANCEL = range(12)


def cbor(value):
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return _head(0, value)
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(cbor(item) for item in value)
    return _head(5, len(value)) + b"".join(cbor(k) + cbor(v) for k, v in value.items())


def _head(major, value):
    for width, code in ((1, 24), (2, 25), (4, 26), (8, 27)):
        if width == 1 and value < 24:
            return bytes([major << 5 | value])
        if value < 1 << 8 * width:
            return bytes([major << 5 | code]) + value.to_bytes(width, "big")
    raise ValueError(value)


def frame(stream, kind, payload=b""):
    return struct.pack("<IIB", len(payload) + 5, stream, kind) + payload


class Client:
    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(os.environ["MVM_RUNTIME_DIR"] + f"/s/{name}/control.sock")
        self.send(0, HELLO, cbor({"version": 1, "role": "client", "software": "test"}))
        self.held = b""
        self.next_stream = 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, stream, kind, payload=b""):
        self.socket.sendall(frame(stream, kind, payload))

    def request(self, **message):
        stream, self.next_stream = self.next_stream, self.next_stream + 1
        self.send(stream, REQUEST, cbor(message))
        return stream

    def frames(self, seconds):
        """Frames as they come, until `seconds` have passed or the far side hangs up."""
        end = time.monotonic() + seconds
        while True:
            while len(self.held) >= 4 and len(self.held) >= 4 + struct.unpack("<I", self.held[:4])[0]:
                length, stream, kind = struct.unpack("<IIB", self.held[:9])
                payload, self.held = self.held[9:4 + length], self.held[4 + length:]
                yield stream, kind, payload
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                return
            data = self.socket.recv(1 << 16)
            if not data:
                return
            self.held += data

    def end_of(self, stream, seconds=30):
        """The payload of the stream's End; None when it does not come."""
        for got, kind, payload in self.frames(seconds):
            if got == stream and kind == END:
                return payload
        return None

    def ping(self, seconds=30):
        """Seconds until the guest's agent answered."""
        began = time.monotonic()
        if self.end_of(self.request(verb="ping"), seconds) is None:
            return None
        return time.monotonic() - began
