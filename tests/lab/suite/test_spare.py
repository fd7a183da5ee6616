"""The spare: processes that the daemon makes ahead, and a real machine of them."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile

from harness import equal, eventually, expect, guest, ok, sandbox, sandbox_json


def spare_pid():
    return json.loads(ok("daemon", "status", "--json").out)["spare_pid"]


def spare():
    eventually(spare_pid, "there is a spare")
    return spare_pid()


def monitor_of(pid):
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    eventually(path.read_text, "it has its monitor")
    return int(path.read_text().split()[0])


def capabilities(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return [int(line.split()[1], 16) for line in lines if line.startswith("Cap")]


def test_the_next_sandbox_is_made_of_it():
    """It boots as every other does, and the one that fits is taken only where it fits."""
    with sandbox("first"):
        pid = spare()
        # It has given up all rights before anybody uses it.
        eventually(lambda: set(capabilities(monitor_of(pid))) == {0}, "its monitor has no capability")
        with sandbox("second"):
            equal(sandbox_json("second")["pids"]["sandbox"], pid)
            equal(sandbox_json("second")["pids"]["monitor"], monitor_of(pid))
            equal(guest("second", "hostname; nproc"), "second\n1")
            unlike = spare()
            with sandbox("third", "--cpus", "2", memory="192M"):
                expect(sandbox_json("third")["pids"]["sandbox"] != unlike, "one of another size is not taken")
                equal(guest("third", "nproc"), "2")


def test_it_is_not_taken_when_something_was_mounted_since():
    """It would not see what is there now: resolvers, certificates."""
    with sandbox("first"), tempfile.TemporaryDirectory() as folder:
        pid = spare()
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
        try:
            with sandbox("second"):
                expect(sandbox_json("second")["pids"]["sandbox"] != pid, "a fresh one is started")
        finally:
            subprocess.run(["umount", folder], check=True)


def test_it_goes_with_a_daemon_that_is_killed():
    with sandbox("first"):
        pid = spare()
        monitor = monitor_of(pid)
        groups = set(pathlib.Path("/sys/fs/cgroup/mvm").glob("mvm-*"))
        os.kill(json.loads(ok("daemon", "status", "--json").out)["pid"], signal.SIGKILL)
        for each in (pid, monitor):
            eventually(lambda each=each: not pathlib.Path(f"/proc/{each}").exists(), "it is gone")
        ok("ps")  # starts another
        expect(set(pathlib.Path("/sys/fs/cgroup/mvm").glob("mvm-*")) < groups, "its cgroup is gone")
