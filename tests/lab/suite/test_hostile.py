"""An agent that speaks garbage: the host says one clear thing, keeps within its bounds, and the sandbox goes away when told."""
import os
import pathlib
import shutil
import tempfile
import time

from harness import MVM, equal, expect, has, mvm, ok


def hostile_init():
    """Built with the tests, beside the program or in the build directory."""
    build = pathlib.Path(MVM).resolve().parent
    for place in (build / "hostile-init", build.parent / "tests/lab/hostile-init", build.parent / "release/tests/lab/hostile-init"):
        if place.exists():
            return place.read_bytes()
    raise FileNotFoundError("hostile-init is not built")


def cpio(files):
    """An archive in the kernel's newc format."""
    out = b""
    for number, (name, mode, content) in enumerate([*files, ("TRAILER!!!", 0, b"")], 1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + content
        out += b"\0" * (-len(out) % 4)
    return out


_home = None


def hostile_home():
    """State of its own, in which every initramfs is the enemy's."""
    global _home
    if _home is None:
        home = tempfile.mkdtemp(prefix="mvm-hostile-")
        env = {"MVM_DATA_DIR": home + "/data", "MVM_RUNTIME_DIR": home + "/run"}
        shutil.copytree(os.environ["MVM_BASE_DATA"], home + "/data", symlinks=True)
        os.chmod(home + "/data", 0o700)
        # Boots once as it should, so that there is an initramfs to replace.
        ok("up", "first", "--image", "base", "--memory", "128M", env=env)
        ok("rm", "--force", "first", env=env)
        for file in pathlib.Path(home, "data/initramfs").iterdir():
            file.unlink()
            file.write_bytes(cpio([("dev", 0o040755, b""), ("init", 0o100755, hostile_init())]))
        _home = env
    return _home


def gone(name, env):
    ok("rm", "--force", name, env=env)
    equal(mvm("ps", "-a", "-q", env=env).out, "", "sandboxes that are left")


def one_line(result, part):
    equal(result.code, 125, repr(result))
    has(result.err, part)
    lines = [line for line in result.err.splitlines() if line.startswith("mvm: ")]
    equal(len(lines), 1, f"lines of errors in {result.err!r}")
    expect("\x1b" not in result.err, "an escape sequence of the guest reached the terminal")


def test_a_guest_that_never_greets_does_not_start():
    """Garbage, an endless frame, another version, silence: `mvm up` says which, soon."""
    env = hostile_home()
    for how, part in (("garbage", "does not speak the protocol"), ("huge", "does not speak the protocol"), ("version", "version 99"),
                      ("silent", "did not become ready within 15s")):
        began = time.monotonic()
        result = mvm("up", how, "--hostname", how, "--image", "base", "--memory", "128M", "--boot-timeout", "15s", env=env)
        print(how, repr(result))
        one_line(result, part)
        expect(time.monotonic() - began < 60, f"{how}: it took {time.monotonic() - began} s")
        gone(how, env)


def test_a_guest_that_lies_is_found_out():
    """Each lie ends the command with one clear line."""
    env = hostile_home()
    for how, part in (("flood", "broke the protocol"), ("overrun", "more than it was allowed"), ("stranger", "nobody opened"), ("nonsense", "broke the protocol"),
                      ("noend", "does not decode"), ("credit", "more credit than it had"), ("escape", "gone")):
        ok("up", how, "--hostname", how, "--image", "base", "--memory", "128M", env=env)
        result = mvm("exec", how, "--", "true", env=env, timeout=90)
        print(how, repr(result))
        if how == "escape":
            equal(result.code, 126)  # "denied" is what a command that may not run is, too
            expect("\x1b" not in result.err, repr(result))
        else:
            one_line(result, part)
        gone(how, env)


def test_a_guest_that_does_not_answer_is_left_at_the_time_out():
    env = hostile_home()
    ok("up", "deaf", "--hostname", "deaf", "--image", "base", "--memory", "128M", env=env)
    one_line(mvm("exec", "--timeout", "1s", "deaf", "--", "true", env=env, timeout=90), "does not answer")
    began = time.monotonic()
    ok("down", "--grace", "2s", "deaf", env=env)
    expect(time.monotonic() - began < 30, "it took long to stop")
    gone("deaf", env)
