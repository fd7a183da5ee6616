"""mvm console: a person's terminal at the machine's own, left and come back to."""
import os
import select
import signal
import time

from terminal import on_terminal
from harness import MVM, equal, expect, has, mvm, ok, sandbox, start

DETACH = b"\x1d"


def seat(name, rows=30, columns=100):
    return on_terminal("console", name, rows=rows, columns=columns)


def asks(sitting, command, answer):
    """The answer is made by the shell: what is typed is echoed, and does not hold it."""
    sitting.type(command + "\n")
    sitting.wait_for(answer)


def sits_down_leaves_and_comes_back(name):
    with seat(name) as first:
        first.wait_for("Ctrl-] leaves")
        first.type("\n")  # starts the shell
        asks(first, "x=$((6 * 7)); echo is:$x", "is:42")
        asks(first, "echo size:$(stty size)", "size:30 100")
        # The running shell hears of the change, as at any terminal.
        asks(first, "trap 'echo now:$(stty size)' WINCH; echo trap:$?", "trap:0")
        first.resize(41, 133)
        first.wait_for("now:41 133")
        first.type(DETACH)
        first.wait_for(f"left the console of {name}")
        equal(first.code(), 0)
    with seat(name, 24, 80) as again:
        again.wait_for("Ctrl-] leaves")
        asks(again, "echo was:$x", "was:42")
        asks(again, "echo size:$(stty size)", "size:24 80")
        # The kernel's words come here too, and all of it is in the log.
        asks(again, "echo kernel'-'speaks >/dev/kmsg; echo done:$?", "done:0")
        with seat(name) as other:
            again.wait_for("another mvm console sits at the console")
            equal(again.code(), 125)
            asks(other, "echo the'-'other", "the-other")
            # It ends, and Enter starts the next one.
            other.type("exit\n")
            other.wait_for("exit")
            time.sleep(1)  # what is typed while there is no shell is thrown away with the old one
            other.type("\n")
            asks(other, "echo new:${x:-shell}", "new:shell")
            ok("down", name)
            other.wait_for("has ended: stopped")
            equal(other.code(), 0)
    has(ok("logs", name).out, "the-other")


def test_sit_down_leave_and_come_back():
    with sandbox("seated"):
        sits_down_leaves_and_comes_back("seated")


def test_a_kernel_whose_console_is_a_serial_port_has_a_seat_too():
    with sandbox("serial", "--kernel", os.environ["MVM_DISTRIBUTION_KERNEL"], "--boot-timeout", "180s", timeout=200):
        with seat("serial") as sitting:
            sitting.wait_for("Ctrl-] leaves")
            sitting.type("\n")
            asks(sitting, "echo is:$((6 * 7))", "is:42")


def test_without_a_terminal_it_shows_what_is_printed():
    with sandbox("printing"):
        watching = start("console", "printing", "-q")
        ok("exec", "printing", "--", "sh", "-c", "while ! echo on the console >/dev/hvc0; do :; done")
        # It may have been printed before anybody sat there: until it is seen.
        end = time.monotonic() + 60
        seen = b""
        while b"on the console" not in seen:
            expect(time.monotonic() < end, f"not shown: {seen!r}")
            if select.select([watching.stdout], [], [], 0.5)[0]:
                seen += os.read(watching.stdout.fileno(), 4096)
            else:
                ok("exec", "printing", "--", "sh", "-c", "echo on the console >/dev/hvc0")
        # A flood is no reason for the guest to wait.
        ok("exec", "printing", "--", "sh", "-c", "head -c 6000000 /dev/zero | tr '\\0' x >/dev/hvc0")
        ok("exec", "printing", "--", "true")
        watching.terminate()
        equal(watching.wait(60), 128 + signal.SIGTERM)


def test_nobody_sits_at_a_sealed_sandboxs():
    with sandbox("sealed", "--profile", "sealed", memory="128M"):
        got = mvm("console", "sealed")
        equal(got.code, 125, repr(got))
        has(got.err, "sealed")
