"""mvm fs: single files of a running sandbox; what it says of itself; and what a sealed one refuses."""
import json
import os

from harness import eventually, equal, expect, guest, has, mvm, ok, sandbox, shared, shell, start


def test_files_are_written_read_and_listed():
    name = shared()
    data = os.urandom(300_000)
    ok("fs", "mkdir", "-p", f"{name}:/work/fs")
    ok("fs", "write", f"{name}:/work/fs/data", "--mode", "0640", stdin=data)
    expect(ok("fs", "read", f"{name}:/work/fs/data").raw == data, "what was read is not what was written")
    equal(ok("fs", "read", f"{name}:/work/fs/data", "--offset", "1000", "--length", "16").raw, data[1000:1016])
    status = json.loads(ok("fs", "stat", f"{name}:/work/fs/data", "--json").out)
    equal((status["type"], status["size"], status["mode"], status["uid"]), ("file", len(data), 0o640, 0))
    ok("fs", "mv", f"{name}:/work/fs/data", "/work/fs/moved")
    listed = json.loads(ok("fs", "ls", f"{name}:/work/fs", "--json").out)
    equal([entry["name"] for entry in listed["entries"]], ["moved"])
    refused = mvm("fs", "mv", "-n", f"{name}:/etc/passwd", "/work/fs/moved")
    equal(refused.code, 125)
    ok("fs", "rm", "-r", f"{name}:/work/fs")
    has(mvm("fs", "stat", f"{name}:/work/fs").err, "/work/fs")


def test_sparse_files_beyond_four_gibibytes():
    name = shared()
    ok("fs", "write", f"{name}:/tmp/sparse", "--offset", "6G", stdin=b"end")
    status = json.loads(ok("fs", "stat", f"{name}:/tmp/sparse", "--json").out)
    equal(status["size"], (6 << 30) + 3)
    expect(status["allocated"] < 1 << 20, f"it has no hole: {status}")
    equal(ok("fs", "read", f"{name}:/tmp/sparse", "--offset", str((6 << 30) - 1)).raw, b"\0end")
    ok("fs", "rm", f"{name}:/tmp/sparse")


def test_nothing_leads_out_of_the_root():
    """Links, "..", magic links and mounts of the sandbox, with --root."""
    name = shared()
    guest(name, "mkdir -p /srv/root/mount && cd /srv/root && ln -sfn /etc out && ln -sfn .. up && ln -sfn /proc/1/root magic "
                "&& echo mine >file && mount -t tmpfs none mount && echo other >mount/file")
    equal(ok("fs", "read", f"{name}:file", "--root", "/srv/root").out, "mine\n")
    for way in ("out/passwd", "up/../etc/passwd", "../../etc/passwd", "magic/etc/passwd", "mount/file"):
        refused = mvm("fs", "read", f"{name}:{way}", "--root", "/srv/root")
        expect(refused.code == 125 and refused.out == "", f"{way}: {refused}")
        refused = mvm("fs", "write", f"{name}:{os.path.dirname(way)}/planted", "--root", "/srv/root", stdin=b"x")
        equal(refused.code, 125, way)
    equal(shell(name, "ls /etc/planted /planted /srv/root/mount/planted 2>/dev/null").out, "")
    expect(mvm("fs", "read", f"{name}:/proc/1/root/etc/passwd").code == 125, "a magic link was followed")
    guest(name, "umount /srv/root/mount; rm -rf /srv/root")


def test_a_huge_directory_is_listed_whole():
    name = shared()
    guest(name, "mkdir /tmp/huge && cd /tmp/huge && seq 1 20000 | xargs touch")
    equal(len(set(ok("fs", "ls", f"{name}:/tmp/huge").out.split())), 20000)
    part = ok("fs", "ls", f"{name}:/tmp/huge", "--limit", "7")
    equal(len(part.out.split()), 7)
    has(part.err, "--limit")
    equal(json.loads(ok("fs", "rm", "-r", f"{name}:/tmp/huge", "--json").out)["entries"], 20001)


def test_changes_are_seen_as_they_happen():
    name = shared()
    guest(name, "mkdir -p /tmp/watched")
    process = start("fs", "watch", f"{name}:/tmp/watched")
    equal(process.stdout.readline(), b"ready\n")
    guest(name, "cd /tmp/watched; touch new; mv new newer; rm newer; cd /; rmdir /tmp/watched")
    lines = process.stdout.read().decode().splitlines()
    for line in ("created new", "moved_from new", "moved_to newer", "removed newer", "gone"):
        expect(line in lines, f"{line!r} is not in {lines}")
    equal(process.wait(30), 0)


def test_an_interrupted_write_leaves_the_old_file():
    name = shared()
    guest(name, "mkdir -p /tmp/kept && echo old >/tmp/kept/file")
    process = start("fs", "write", f"{name}:/tmp/kept/file")
    process.stdin.write(b"new" * 50000)
    process.stdin.flush()
    eventually(lambda: guest(name, "ls -A /tmp/kept | wc -l") == "2", "the new file is being written")
    process.kill()
    process.wait()
    eventually(lambda: guest(name, "ls -A /tmp/kept") == "file", "the half-written file is gone")
    equal(guest(name, "cat /tmp/kept/file"), "old")


def test_stats_say_what_the_sandbox_uses():
    name = shared()
    stats = json.loads(ok("stats", name, "--json").out)
    expect(100 << 20 < stats["memory_total"] <= 256 << 20, str(stats))
    expect(0 < stats["memory_available"] < stats["memory_total"], str(stats))
    expect(stats["cpus"] == 1 and stats["tasks"] > 5 and stats["uptime_ms"] > 0 and stats["disk_total"] > 1 << 30, str(stats))
    has(ok("stats", name).out, "memory")


def test_a_sealed_sandbox_runs_one_command():
    """Whoever asks after that is refused by the sandbox process. (That the agent refuses too: tests/unit/guest-agent.)"""
    with sandbox("sealed", "--profile", "sealed") as name:
        equal(json.loads(ok("inspect", name, "--json").out)["profile"], "sealed")
        equal(ok("exec", name, "--", "grep", "-o", "mvm.profile=[a-z]*", "/proc/cmdline").out, "mvm.profile=sealed\n")
        for args in (("exec", name, "--", "true"), ("shell", name), ("cp", "/etc/hostname", f"{name}:/tmp/"), ("cp", f"{name}:/etc/passwd", "/tmp/"),
                     ("fs", "read", f"{name}:/etc/passwd"), ("fs", "write", f"{name}:/etc/passwd"), ("fs", "ls", f"{name}:/")):
            refused = mvm(*args)
            expect(refused.code in (125, 126), repr(refused))
            has(refused.err, "profile 'sealed' refuses")
        ok("stats", name)
    got = ok("run", "base", "--profile", "sealed", "--memory", "256M", "--", "echo", "ran")
    equal(got.out, "ran\n")
