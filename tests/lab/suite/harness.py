"""Runs tests against real guests. A test is a function test_* of a module in this folder; its docstring says what holds.

All tests of the suite run in one lab start, one after another, each under a deadline of its own. One line a test says how
it went; what it printed is shown when it failed. With --results, a file a test tells ctest.
"""
import contextlib
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import witness

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MVM = os.environ.get("MVM_BINARY", str(ROOT / "build/release/src/mvm"))
DEADLINE = 240


class Failed(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failed(what)


def equal(got, wanted, what=""):
    if got != wanted:
        raise Failed(f"{what}: got {got!r}, wanted {wanted!r}")


def has(text, part):
    if part not in text:
        raise Failed(f"{part!r} is not in {text!r}")


class Result:
    def __init__(self, done, seconds):
        self.code, self.seconds = done.returncode, seconds
        self.raw, self.raw_err = done.stdout, done.stderr
        self.out, self.err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def __repr__(self):
        return f"exit {self.code} after {self.seconds:.1f} s\n  out: {self.out[-2000:]!r}\n  err: {self.err[-2000:]!r}"


def mvm(*args, stdin=None, timeout=120, env=None):
    """Runs mvm to its end; stdin is bytes, or None for /dev/null."""
    began = time.monotonic()
    options = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    try:
        done = subprocess.run([MVM, *args], capture_output=True, timeout=timeout, env={**os.environ, **(env or {})}, **options)
    except subprocess.TimeoutExpired as expired:
        raise Failed(f"{expired}\n{witness.report()}") from expired
    return Result(done, time.monotonic() - began)


def ok(*args, **options):
    result = mvm(*args, **options)
    if result.code != 0:
        raise Failed(f"mvm {' '.join(args)}: {result}")
    return result


def start(*args, **options):
    """Starts mvm and does not wait: a Popen with pipes."""
    return subprocess.Popen([MVM, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def sandbox_json(name):
    return json.loads(ok("inspect", name, "--json").out)


@contextlib.contextmanager
def sandbox(name, *args, image="base", memory="256M", **options):
    """A running sandbox that is gone afterwards."""
    ok("up", name, "--image", image, "--memory", memory, *args, **options)
    try:
        yield name
    finally:
        mvm("rm", "--force", name)


def shell(name, script, **options):
    return mvm("exec", name, "--", "sh", "-c", script, **options)


def guest(name, script):
    result = shell(name, script)
    if result.code != 0:
        raise Failed(f"in {name}: {script}: {result}")
    return result.out.strip()


def processes(name):
    """What runs in the guest, zombies too: {pid: name}. Not the kernel's own threads, children of 2, which come and go as it
    likes, and not the command that looks."""
    # One process looks. Of two in a pipe the first sees the second, or does not.
    looked = shell(name, "echo $$; exec grep -s '^Name:\\|^PPid:' /proc/[0-9]*/status").out
    own, _, rest = looked.partition("\n")
    found = {}
    for pid, key, value in re.findall(r"^/proc/(\d+)/status:(Name|PPid):\t(.*)$", rest, re.MULTILINE):
        found.setdefault(pid, {})[key] = value
    expect("1" in found, f"no process was found: {looked!r}")
    return {pid: its["Name"] for pid, its in found.items() if pid != own and its.get("PPid", "2") != "2"}


def eventually(check, what, seconds=30):
    """Looks again until it holds: for what ends in its own time. `what` is text, or makes it when it is asked for."""
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            raise Failed(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.05)


def no_more_than(before, name, what, seconds=30):
    """As many processes as before, in the end."""
    eventually(lambda: len(processes(name)) <= len(before), lambda: f"{what}; before: {before}, now: {processes(name)}", seconds)


_shared = None


def shared():
    """One sandbox that many tests use: a boot is what costs most here."""
    global _shared
    if _shared is None or mvm("exec", _shared, "--", "true").code != 0:
        mvm("rm", "--force", "shared")
        ok("up", "shared", "--image", "base", "--memory", "256M")
        _shared = "shared"
    return _shared


# Those that take longest, so that of two runs side by side none is left with one of them at the end.
LONG = ("robust", "limits", "build", "streams", "lifecycle", "jail")


def tests():
    def place(file):
        module = file.stem[5:]
        return (LONG.index(module) if module in LONG else len(LONG), module)

    for file in sorted(HERE.glob("test_*.py"), key=place):
        module = importlib.import_module(file.stem)
        for name, function in list(vars(module).items()):
            if name.startswith("test_") and callable(function):
                yield f"{file.stem[5:]}.{name[5:]}", function


class Overdue(Exception):
    pass


def _overdue(_signal, _frame):
    # Here and now: what the test has set up is taken down on the way out.
    raise Overdue(f"longer than {DEADLINE} s\n{witness.report()}")


def run_one(function):
    signal.signal(signal.SIGALRM, _overdue)
    signal.alarm(DEADLINE)
    try:
        function()
        return None
    except Exception:  # pylint: disable=broad-except  # whatever it is, it is this test's result
        return traceback.format_exc()
    finally:
        signal.alarm(0)


def prepare():
    """State of its own for the run, the base image in it, and a guest kernel."""
    home = tempfile.mkdtemp(prefix="mvm-lab-")
    os.environ["MVM_DATA_DIR"] = home + "/data"
    os.environ["MVM_RUNTIME_DIR"] = home + "/run"
    if "MVM_BASE_DATA" in os.environ:  # images imported before, where that is fast
        shutil.copytree(os.environ["MVM_BASE_DATA"], home + "/data", symlinks=True)
        os.chmod(home + "/data", 0o700)


def claim(results, module):
    """Whether a module is this run's: of runs side by side, which share the folder of results, the first that asks has it."""
    if results is None:
        return True
    try:
        os.close(os.open(results / f".{module}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


def main():
    sys.path.insert(0, str(HERE))
    if sys.argv[1:] == ["--list"]:
        print("\n".join(name for name, _ in tests()))
        return 0
    results = pathlib.Path(sys.argv[sys.argv.index("--results") + 1]) if "--results" in sys.argv else None
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    prepare()
    failed = 0
    clock = witness.Clock()
    ours = {}
    for name, function in tests():
        if only not in name:
            continue
        module = name.split(".")[0]
        if module not in ours:
            ours[module] = claim(results, module)
        if not ours[module]:
            continue
        began = time.monotonic()
        fault = run_one(function)
        if stood_still := clock.stood_still():
            print(f"note: the lab stood still for {stood_still:.0f} s during {name}", flush=True)
            if fault:  # every deadline passed while nothing ran: this says nothing of mvm
                print(fault, flush=True)
                fault = run_one(function)
        seconds = time.monotonic() - began
        print(f"{'ok    ' if fault is None else 'FAILED'} {name} ({seconds:.1f} s)", flush=True)
        if fault:
            failed += 1
            print(fault, flush=True)
        if results:
            (results / name).write_text("ok\n" if fault is None else fault)
    mvm("rm", "--force", "shared")
    mvm("daemon", "stop")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
