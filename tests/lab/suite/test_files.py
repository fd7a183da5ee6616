"""mvm cp, both ways."""
import hashlib
import os
import pathlib
import signal
import stat
import tempfile

from harness import equal, eventually, expect, guest, mvm, ok, shared, start


def test_a_file_there_and_back():
    name = shared()
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "data.bin")
        source.write_bytes(os.urandom(3_000_000))
        source.chmod(0o640)
        ok("cp", str(source), f"{name}:/tmp/data.bin")
        equal(guest(name, "stat -c '%a %s' /tmp/data.bin"), "640 3000000")
        ok("cp", f"{name}:/tmp/data.bin", folder + "/back.bin")
        expect(pathlib.Path(folder, "back.bin").read_bytes() == source.read_bytes(), "the bytes differ")


def test_a_tree_there_and_back():
    name = shared()
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder, "tree")
        (tree / "a/b").mkdir(parents=True)
        (tree / "a/b/file ü.txt").write_text("text")
        (tree / "a/run").write_text("#!/bin/sh\n")
        (tree / "a/run").chmod(0o755)
        (tree / "empty").mkdir()
        (tree / "link").symlink_to("a/run")
        ok("cp", str(tree), f"{name}:/tmp/")
        equal(guest(name, "readlink /tmp/tree/link; cat '/tmp/tree/a/b/file ü.txt'; stat -c %a /tmp/tree/a/run"),
              "a/run\ntext755")
        ok("cp", f"{name}:/tmp/tree", folder + "/back")
        back = pathlib.Path(folder, "back")
        equal((back / "a/b/file ü.txt").read_text(), "text")
        equal(os.readlink(back / "link"), "a/run")
        expect(stat.S_IMODE((back / "a/run").stat().st_mode) == 0o755, "the mode is lost")
        expect((back / "empty").is_dir(), "the empty folder is lost")


def test_a_hostile_guest_does_not_reach_outside():
    """A link that the guest made is copied as a link, never followed on the host."""
    name = shared()
    with tempfile.TemporaryDirectory() as folder:
        victim = pathlib.Path(folder, "victim")
        victim.write_text("precious")
        guest(name, f"mkdir -p /tmp/evil && ln -sfn {victim} /tmp/evil/file")
        ok("cp", f"{name}:/tmp/evil", folder + "/out")
        guest(name, "rm /tmp/evil/file && echo overwritten >/tmp/evil/file")
        mvm("cp", f"{name}:/tmp/evil/file", folder + "/out/file")
        equal(victim.read_text(), "precious")


def test_what_is_not_there_is_one_clear_error():
    name = shared()
    for arguments in (["cp", f"{name}:/no/such", "/tmp/x"], ["cp", "/no/such", f"{name}:/tmp/"]):
        got = mvm(*arguments)
        equal(got.code, 125, repr(got))
        equal(len(got.err.strip().splitlines()) <= 2, True, repr(got))
        expect("/no/such" in got.err, repr(got))


def test_an_interrupted_copy_leaves_no_half_file():
    """On either side: the file is there whole, or not at all."""
    name = shared()
    guest(name, "head -c 200M /dev/zero >/var/tmp/big")
    with tempfile.TemporaryDirectory() as folder:
        out = start("cp", f"{name}:/var/tmp/big", folder + "/big")
        eventually(lambda: os.listdir(folder), "the copy begins")
        out.send_signal(signal.SIGINT)
        equal(out.wait(60), 130, "exit code of the copy from the sandbox")
        equal(os.listdir(folder), [], "left on the host")
        pathlib.Path(folder, "big").write_bytes(bytes(200 << 20))
        guest(name, "rm /var/tmp/big; mkdir /var/tmp/in")
        into = start("cp", folder + "/big", f"{name}:/var/tmp/in/big")
        eventually(lambda: guest(name, "ls -A /var/tmp/in"), "the copy begins")
        into.send_signal(signal.SIGINT)
        equal(into.wait(60), 130, "exit code of the copy into the sandbox")
        eventually(lambda: guest(name, "ls -A /var/tmp/in") == "", "nothing is left in the sandbox")


def test_a_large_file_arrives_whole_wherever_it_goes():
    """By a lane: to the disk, past the guest's page cache, and to a tmpfs, which refuses that. Its length is no multiple of
    anything, and a hole in it stays one."""
    name = shared()
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "large")
        with open(source, "wb") as file:
            file.write(os.urandom(9_000_001))
            file.seek(40 << 20)
            file.write(os.urandom(3_000_003))
        wanted = hashlib.sha256(source.read_bytes()).hexdigest()
        for place in ("/root/large", "/dev/shm/large"):
            for _ in range(2):  # new, and in place of the old one
                ok("cp", str(source), f"{name}:{place}")
                equal(guest(name, f"sha256sum <{place}").split()[0], wanted, place)
            expect(int(guest(name, f"stat -c %b {place}")) * 512 < 30 << 20, f"{place}: the hole is filled")
        ok("cp", f"{name}:/root/large", folder + "/back")
        equal(hashlib.sha256(pathlib.Path(folder, "back").read_bytes()).hexdigest(), wanted, "back on the host")
        guest(name, "rm /root/large /dev/shm/large")


def test_a_client_killed_in_a_copy_leaves_the_old_file():
    name = shared()
    with tempfile.TemporaryDirectory() as folder:
        guest(name, "mkdir -p /var/tmp/kept && echo old >/var/tmp/kept/file")
        pathlib.Path(folder, "file").write_bytes(bytes(200 << 20))
        into = start("cp", folder + "/file", f"{name}:/var/tmp/kept/file")
        eventually(lambda: len(guest(name, "ls -A /var/tmp/kept").split()) == 2, "the copy begins")
        into.kill()
        into.wait(60)
        eventually(lambda: guest(name, "ls -A /var/tmp/kept") == "file", "what was half there is gone")
        equal(guest(name, "cat /var/tmp/kept/file"), "old")


def test_what_a_copy_has_replaced_is_written_out():
    """At once: of its own accord the kernel leaves it in memory for half a minute, and whoever kills the sandbox in that time
    would leave an empty file in place of the old one."""
    name = shared()
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "data.bin")
        source.write_bytes(os.urandom(2_000_000))
        ok("cp", str(source), f"{name}:/root/replaced")
        ok("cp", str(source), f"{name}:/root/replaced")
        eventually(lambda: int(guest(name, "awk '/^Dirty:/ { print $2 }' /proc/meminfo")) < 500, "it stays in memory", seconds=20)
        equal(guest(name, "cat /proc/sys/vm/dirty_writeback_centisecs"), "500")
