"""The writable disk: its data, its space, its limits, and its errors, as a guest sees them."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import textwrap

from harness import MVM, equal, eventually, expect, guest, has, mvm, ok, sandbox, sandbox_json, start

# Random writes of random sizes with an fsync now and then, against a copy in memory; then reads by way of the page cache and
# past it. What was synced before the sandbox ends must be there afterwards.
INTEGRITY = textwrap.dedent("""
    import hashlib, mmap, os, random, sys
    path, seed, phase = "/root/data", int(sys.argv[1]), sys.argv[2]
    random.seed(seed)
    size = 24 << 20
    model = bytearray(size)
    def blocks(count):
        for _ in range(count):
            length = random.choice((512, 4096, 4097, 65536, 300000))
            yield random.randrange(size - length), random.randbytes(length)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    write = phase == "write"
    if write:
        os.ftruncate(fd, size)
    for number, (at, data) in enumerate(blocks(300)):
        model[at:at + len(data)] = data
        if write:
            os.pwrite(fd, data, at)
            if number % 20 == 0:
                os.fsync(fd)
    os.fsync(fd)
    expected = hashlib.sha256(model).hexdigest()
    got = hashlib.sha256(b"".join(os.pread(fd, 1 << 20, at) for at in range(0, size, 1 << 20))).hexdigest()
    assert got == expected, "page cache"
    direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, 1 << 20)
    digest = hashlib.sha256()
    for at in range(0, size, 1 << 20):
        assert os.preadv(direct, [buffer], at) == 1 << 20
        digest.update(buffer)
    assert digest.hexdigest() == expected, "disk"
    print(expected)
    """)


def python(name, script, *args, **options):
    got = mvm("exec", "-i", name, "--", "python3", "-", *args, stdin=script.encode(), **options)
    expect(got.code == 0, repr(got))
    return got.out.strip()


def overlay_file(name):
    return pathlib.Path(os.environ["MVM_DATA_DIR"], "sandboxes", sandbox_json(name)["id"], "overlay.img")


def allocated(name):
    files = [f for f in overlay_file(name).parent.iterdir() if f.is_file()]
    return max(f.stat().st_blocks for f in files) * 512


def counters(name):
    path = pathlib.Path(os.environ["MVM_DATA_DIR"], "sandboxes", sandbox_json(name)["id"], "boot.json")
    return json.loads(path.read_text())["counters"]


def test_data_survives_random_writes_and_a_restart():
    with sandbox("integrity"):
        equal(counters("integrity").get("disks.io_uring"), 2, "both disks are on io_uring")
        expected = python("integrity", INTEGRITY, "7", "write")
        ok("down", "integrity")
        ok("up", "integrity")
        equal(python("integrity", INTEGRITY, "7", "read"), expected)
        os.kill(sandbox_json("integrity")["pids"]["monitor"], signal.SIGKILL)
        eventually(lambda: sandbox_json("integrity")["state"] == "crashed", "the crash is noticed")
        ok("up", "integrity")
        equal(python("integrity", INTEGRITY, "7", "read"), expected)


def test_deleted_data_returns_to_the_host():
    with sandbox("holes"):
        before = allocated("holes")
        guest("holes", "head -c 64M /dev/urandom >/root/big && sync")
        full = allocated("holes")
        expect(full >= before + (64 << 20), f"{before} to {full}")
        guest("holes", "rm /root/big && sync")
        eventually(lambda: allocated("holes") < before + (8 << 20), f"64 MiB are given back, of {full}: {allocated('holes')}")
        # The same by write zeroes with unmap and the disk's own discard.
        has(guest("holes", "cat /sys/block/vdb/queue/discard_max_bytes /sys/block/vdb/queue/write_zeroes_max_bytes"), "2147483648")
        equal(guest("holes", "cat /sys/block/vda/queue/discard_max_bytes"), "0", "the image cannot be discarded")
        equal(guest("holes", "cat /sys/block/vdb/serial"), "mvm-overlay")


def test_a_full_host_is_an_io_error_and_no_more():
    """The monitor may not make the disk file larger (RLIMIT_FSIZE, as a full file system would refuse): EIO, and the sandbox lives."""
    with sandbox("full", "--disk-size", "512M"):
        guest("full", "sync")
        pid = sandbox_json("full")["pids"]["monitor"]
        limit = 64 << 20
        subprocess.run(["prlimit", "--pid", str(pid), f"--fsize={limit}:{512 << 20}"], check=True)
        script = "import os\nfd = os.open('/dev/vdb', os.O_RDWR)\n" \
                 "try:\n os.pwrite(fd, b'x' * 4096, 400 << 20); os.fsync(fd)\nexcept OSError as e:\n print(e.errno)\n"
        equal(python("full", script), "5", "EIO")
        equal(guest("full", "echo alive"), "alive")
        subprocess.run(["prlimit", "--pid", str(pid), f"--fsize={512 << 20}:{512 << 20}"], check=True)
        equal(python("full", script), "", "and with space again it goes on")


def timed_read(name, mib):
    """Seconds that reading so much past the guest's page cache takes."""
    return float(python(name, textwrap.dedent(f"""
        import mmap, os, time
        fd = os.open("/dev/vdb", os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, 1 << 18)
        began = time.monotonic()
        for i in range({mib} * 4):
            os.preadv(fd, [buffer], i << 18)
        print(time.monotonic() - began)
        """)))


def test_bandwidth_limit():
    """8 MiB at 2 MiB/s: one second's worth at once, the rest in its time; and nothing is lost."""
    with sandbox("slow", "--disk-bandwidth", "2M"):
        seconds = timed_read("slow", 8)
        expect(2.5 < seconds < 60, f"{seconds} s")
        equal(sandbox_json("slow")["disk_bandwidth"], 2 << 20)


# A seccomp filter that answers io_uring_setup(2) with EPERM, as a container's would.
NO_RING = textwrap.dedent("""
    import ctypes, os, struct, sys
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
    data = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(data))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0
    os.execv(sys.argv[1], sys.argv[1:])
    """)


def test_without_io_uring_workers_do_the_same():
    with tempfile.TemporaryDirectory(prefix="mvm-noring-") as runtime:
        ok("daemon", "stop")
        was = os.environ["MVM_RUNTIME_DIR"]
        os.environ["MVM_RUNTIME_DIR"] = runtime
        # The daemon that this starts inherits the filter, and so does all it starts.
        up = subprocess.run(["python3", "-c", NO_RING, MVM, "up", "noring", "--image", "base", "--memory", "256M"],
                            capture_output=True, check=False, timeout=120)
        try:
            equal(up.returncode, 0, up.stderr.decode())
            equal(counters("noring").get("disks.io_uring", 0), 0)
            python("noring", INTEGRITY, "9", "write")
            guest("noring", "head -c 16M /dev/urandom >/root/big && sync && rm /root/big && sync")
        finally:
            mvm("rm", "--force", "noring")
            mvm("daemon", "stop")
            os.environ["MVM_RUNTIME_DIR"] = was


def test_a_killed_machine_leaves_a_sound_file_system():
    """A kill of the monitor is a power failure to the guest: directories being written are whole afterwards."""
    churn = "import itertools, os, pathlib\n" \
            "for i in itertools.count():\n os.makedirs(f'/root/churn/{i}')\n pathlib.Path(f'/root/churn/{i}/file').write_text('x')"
    with sandbox("churn"):
        for _ in range(3):
            busy = start("exec", "churn", "--", "python3", "-c", churn)
            eventually(lambda: int(guest("churn", "ls /root/churn 2>/dev/null | wc -l")) > 200, "directories are being made")
            os.kill(sandbox_json("churn")["pids"]["monitor"], signal.SIGKILL)
            busy.communicate(timeout=60)
            eventually(lambda: sandbox_json("churn")["state"] == "crashed", "the crash is noticed")
            ok("up", "churn")
            equal(guest("churn", "dmesg | grep -c 'EXT4-fs error' || :"), "0", "errors of the file system")
            guest("churn", "rm -rf /root/churn && sync")
