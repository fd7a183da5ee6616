"""Commands of mvm on terminals."""
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

from harness import MVM, expect


class Seat:
    """A command of mvm on a terminal of its own."""

    def __init__(self, words, rows, columns):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            self._size(0, rows, columns)
            os.execv(MVM, [MVM, *words])
        self.shown = b""

    @staticmethod
    def _size(terminal, rows, columns):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self._size(self.terminal, rows, columns)

    def type(self, text):
        os.write(self.terminal, text if isinstance(text, bytes) else text.encode())

    def wait_for(self, text, seconds=60):
        """Until it has been shown; what came with it and before is dropped."""
        end = time.monotonic() + seconds
        while text.encode() not in self.shown:
            expect(time.monotonic() < end, f"{text!r} is not shown, but {self.shown[-2000:]!r}")
            if select.select([self.terminal], [], [], 1)[0]:
                try:
                    self.shown += os.read(self.terminal, 65536)
                except OSError:  # its end
                    expect(text.encode() in self.shown, f"{text!r} was not shown, but {self.shown[-2000:]!r}")
        self.shown = self.shown.split(text.encode(), 1)[1]

    def code(self):
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)


@contextlib.contextmanager
def on_terminal(*words, rows=30, columns=100):
    sitting = Seat(words, rows, columns)
    try:
        yield sitting
    finally:
        if sitting.pid:
            os.kill(sitting.pid, signal.SIGKILL)
            os.waitpid(sitting.pid, 0)
        os.close(sitting.terminal)
