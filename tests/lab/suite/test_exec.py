"""Commands in a running sandbox: their arguments, streams, ends."""
import json
import os
import pty
import select
import signal
import subprocess
import threading
import time

from harness import MVM, eventually, equal, expect, guest, has, mvm, no_more_than, ok, processes, shared, shell, start


def test_arguments_arrive_as_given():
    """No shell takes part: spaces, quotes, dollars and empty arguments are what they are."""
    words = ["a b", "$HOME", "'", '"', "", "*", "\\n", "-x", "ü"]
    got = ok("exec", shared(), "--", "python3", "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", *words)
    equal(json.loads(got.out), words)


def test_stdout_and_stderr_are_apart():
    got = shell(shared(), "echo out; echo err >&2; exit 3")
    equal((got.out, got.err, got.code), ("out\n", "err\n", 3))


def test_the_hosts_environment_stays_there():
    """S25: a guest has the variables that it was given, and none of those that mvm was run with."""
    secret = {"OF_THE_HOST": "host-only-0123456789"}
    for command in (("exec", shared(), "--"), ("run", "base", "--memory", "256M", "--")):
        seen = ok(*command, "sh", "-c", "env; tr '\\0' '\\n' < /proc/1/environ; cat /proc/cmdline", env=secret).out
        has(seen, "PATH=")
        expect("OF_THE_HOST" not in seen and "host-only" not in seen, f"{command[0]}: {seen}")


def test_environment_directory_and_user():
    name = shared()
    got = ok("exec", "-e", "COLOUR=blue", "-w", "/tmp", "-u", "65534:65534", name, "--",
             "sh", "-c", 'echo "$COLOUR $(pwd) $(id -u):$(id -g)"')
    equal(got.out, "blue /tmp 65534:65534\n")


def test_exit_codes_of_what_cannot_run():
    name = shared()
    equal(mvm("exec", name, "--", "no-such-command").code, 127)
    guest(name, "printf x >/tmp/not-executable")
    equal(mvm("exec", name, "--", "/tmp/not-executable").code, 126)
    equal(shell(name, "kill -KILL $$").code, 128 + 9)
    missing = mvm("exec", "-w", "/nowhere", name, "--", "true")
    expect(missing.code in (125, 126, 127), repr(missing))
    has(missing.err, "/nowhere")


def test_stdin_streams_and_ends():
    data = os.urandom(1 << 20)
    got = mvm("exec", "-i", shared(), "--", "cat", stdin=data)
    equal(got.code, 0)
    expect(got.raw == data, f"{len(got.raw)} of {len(data)} bytes came back, or others")


def test_open_stdin_does_not_hold_the_command():
    """X1: the call ends with the command, though its stdin stays open."""
    reader, writer = os.pipe()
    began = time.monotonic()
    done = subprocess.run([MVM, "exec", "-i", shared(), "--", "echo", "hi"], stdin=reader, capture_output=True, timeout=60)
    os.close(writer)
    os.close(reader)
    equal((done.returncode, done.stdout), (0, b"hi\n"))
    expect(time.monotonic() - began < 30, "it waited for its stdin")


def test_output_streams_while_the_command_runs():
    """X2: what was printed arrives before the command ends."""
    process = start("exec", "-i", shared(), "--", "sh", "-c", "echo first; read line; echo second")
    equal(process.stdout.readline(), b"first\n")
    process.stdin.write(b"\n")
    process.stdin.flush()
    equal(process.stdout.readline(), b"second\n")
    equal(process.wait(30), 0)


def test_much_output_is_complete():
    got = ok("exec", shared(), "--", "sh", "-c", "seq 1 200000")
    equal(got.out, "".join(f"{i}\n" for i in range(1, 200001)))


def test_a_terminal_has_its_size_at_once_and_follows_changes():
    """X3, X15: keys arrive as typed, the size is there for the first command and changes with the window."""
    name = shared()
    leader, follower = pty.openpty()
    import fcntl
    import struct
    import termios
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    process = subprocess.Popen([MVM, "exec", "-it", name, "--", "sh", "-c", "stty size; read a; stty size; read b; echo done $a"],
                               stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    seen = b""

    def wait_for(part):
        nonlocal seen
        end = time.monotonic() + 60
        while part not in seen:
            expect(time.monotonic() < end, f"{part!r} did not come; got {seen!r}")
            if select.select([leader], [], [], 1)[0]:
                seen += os.read(leader, 4096)

    wait_for(b"33 99")
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 111, 0, 0))
    os.kill(process.pid, signal.SIGWINCH)
    time.sleep(1)
    os.write(leader, b"typed\r")
    wait_for(b"44 111")
    os.write(leader, b"\r")
    wait_for(b"done typed")
    equal(process.wait(30), 0)
    os.close(leader)
    os.close(follower)


def test_time_out_ends_the_whole_tree():
    """X5, X10, X11, X14: children in other sessions included; the result is 124 and what was printed is kept."""
    name = shared()
    script = "echo kept; for i in 1 2 3; do setsid sleep 7777 & done; (sleep 7777 &); wait"
    got = mvm("exec", "--timeout", "2s", name, "--", "sh", "-c", script)
    equal((got.code, got.out), (124, "kept\n"))
    eventually(lambda: guest(name, "pgrep -f '[s]leep 7777' | wc -l; true") == "0", "the sleepers are gone")


def test_a_process_that_ignores_term_is_killed():
    got = mvm("exec", "--timeout", "1s", shared(), "--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    equal(got.code, 124)


def test_background_child_does_not_hold_the_call():
    """X7: the call ends with its command; X9: what a child prints right after is not lost."""
    name = shared()
    began = time.monotonic()
    equal(shell(name, "sleep 8888 & echo started").out, "started\n")
    expect(time.monotonic() - began < 30, "it waited for the child")
    # The command ends while its child is in the middle of a megabyte.
    code = ("import os\nreader, writer = os.pipe()\nif os.fork() == 0:\n    os.write(1, b'x')\n    os.write(writer, b'.')\n"
            "    os.write(1, b'x' * 500000)\n    os.write(1, b'x' * 499999)\nelse:\n    os.read(reader, 1)\nos._exit(0)")
    equal(len(ok("exec", name, "--", "python3", "-c", code).raw), 1000000)
    guest(name, "pkill -f '[s]leep 8888'; true")


def test_signals_are_forwarded():
    process = start("exec", shared(), "--", "sh", "-c", "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done")
    equal(process.stdout.readline(), b"ready\n")
    process.send_signal(signal.SIGINT)
    equal(process.stdout.readline(), b"caught\n")
    equal(process.wait(30), 7)


def test_a_killed_client_leaves_nothing_running():
    name = shared()
    process = start("exec", name, "--", "sh", "-c", "echo ready; exec sleep 9999")
    equal(process.stdout.readline(), b"ready\n")
    process.kill()
    process.wait()
    eventually(lambda: shell(name, "pgrep -x sleep -a | grep -q 9999").code != 0, "the command of a dead client has ended")


def test_commands_do_not_wait_for_one_another():
    """X23"""
    name = shared()
    slow = start("exec", name, "--", "sleep", "60")
    began = time.monotonic()
    equal(ok("exec", name, "--", "echo", "quick").out, "quick\n")
    expect(time.monotonic() - began < 20, "the second command waited for the first")
    slow.kill()
    slow.wait()


def test_many_commands_at_once_and_in_a_row():
    """X22: every one returns, and nothing stays behind in the guest."""
    name = shared()
    before = processes(name)
    failures = []

    def worker(number):
        for i in range(5):
            got = mvm("exec", name, "--", "echo", f"{number}.{i}")
            if got.out != f"{number}.{i}\n":
                failures.append(repr(got))

    threads = [threading.Thread(target=worker, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(failures, [])
    no_more_than(before, name, "no process is left over")


def test_json_result():
    got = json.loads(mvm("exec", "--json", shared(), "--", "sh", "-c", "echo out; echo err >&2; exit 4").out)
    equal((got["exit_code"], got["stdout"], got["stderr"], got["timed_out"]), (4, "out\n", "err\n", False))
