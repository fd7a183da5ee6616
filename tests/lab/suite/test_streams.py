"""Streams between host and guest: bytes unchanged, ends that are noticed, nothing left behind."""
import hashlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import time

from harness import MVM, equal, eventually, expect, guest, has, mvm, no_more_than, ok, processes, sandbox, sandbox_json, shared, start

# Through exec and back again. The emulated lab takes about a minute for 64 MiB, where a host with KVM takes none.
STREAMED = int(os.environ.get("MVM_LAB_STREAM_MIB", "64")) << 20


def descriptors(name):
    """Open descriptors of a sandbox's two processes."""
    pids = sandbox_json(name)["pids"]
    return {role: len(os.listdir(f"/proc/{pids[role]}/fd")) for role in ("sandbox", "monitor")}


def vsock(name, port):
    """A connection to a port of the guest, or None when nobody listens there."""
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(60)
    stream.connect(os.environ["MVM_RUNTIME_DIR"] + f"/s/{name}/vsock.sock")
    stream.sendall(f"CONNECT {port}\n".encode())
    line = b""
    while not line.endswith(b"\n"):
        byte = stream.recv(1)
        if not byte:
            return None
        line += byte
    expect(line.startswith(b"OK "), repr(line))
    return stream


LISTENER = """
import socket, sys
s = socket.socket(socket.AF_VSOCK)
s.bind((socket.VMADDR_CID_ANY, int(sys.argv[1])))
s.listen()
print("listening", flush=True)
c, _ = s.accept()
"""


def listener(name, port, rest):
    """A program in the guest that takes one connection `c` and does `rest` with it; back when it listens."""
    process = start("exec", name, "--", "python3", "-c", LISTENER + rest, str(port))
    equal(process.stdout.readline(), b"listening\n")
    return process


def test_stdin_comes_back_from_stdout_unchanged():
    block = os.urandom(1 << 20)
    process = subprocess.Popen([MVM, "exec", "-i", shared(), "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    sent, got = hashlib.sha256(), hashlib.sha256()
    if os.fork() == 0:
        process.stdout.close()
        for number in range(STREAMED >> 20):
            process.stdin.write(number.to_bytes(8, "little") + block[8:])
        process.stdin.close()
        os._exit(0)
    process.stdin.close()
    for number in range(STREAMED >> 20):
        sent.update(number.to_bytes(8, "little") + block[8:])
    length = 0
    while data := process.stdout.read(1 << 16):
        got.update(data)
        length += len(data)
    os.wait()
    equal((process.wait(60), length, got.hexdigest()), (0, STREAMED, sent.hexdigest()))


def test_a_sparse_file_of_five_gib_there_and_back():
    """Its holes are not carried, and are holes again."""
    name = shared()
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "sparse")
        places = (0, (1 << 30) + 5, (4 << 30) + 12345)
        with open(source, "wb") as file:
            for place in places:
                file.seek(place)
                file.write(b"data at %d" % place)
            file.truncate(5 << 30)
        ok("cp", str(source), f"{name}:/var/tmp/sparse")
        size, blocks = guest(name, "stat -c '%s %b' /var/tmp/sparse").split()
        equal(int(size), 5 << 30)
        expect(int(blocks) * 512 < 1 << 20, f"{blocks} blocks")
        ok("cp", f"{name}:/var/tmp/sparse", folder + "/back")
        guest(name, "rm /var/tmp/sparse")
        back = pathlib.Path(folder, "back")
        equal(back.stat().st_size, 5 << 30)
        expect(back.stat().st_blocks * 512 < 1 << 20, f"{back.stat().st_blocks} blocks")
        with open(back, "rb") as file:
            for place in places:
                file.seek(place)
                equal(file.read(len(b"data at %d" % place) + 1), b"data at %d\0" % place)


def test_sixty_four_commands_at_once():
    name = shared()
    running = [start("exec", "-i", name, "--", "sh", "-c", f"read line; echo {number} $line; exit {number}") for number in range(64)]
    for number, process in enumerate(running):
        process.stdin.write(b"line %d\n" % number)
        process.stdin.close()
    for number, process in enumerate(running):
        equal(process.stdout.read(), b"%d line %d\n" % (number, number))
        equal(process.wait(60), number)


def test_clients_killed_at_any_moment_leave_nothing():
    """Neither a process in the guest nor a descriptor on the host."""
    with sandbox("killed") as name:
        ok("exec", name, "--", "true")
        before, were = descriptors(name), processes(name)
        dice = random.Random(1)
        commands = (("exec", "-i", name, "--", "cat"), ("exec", name, "--", "sleep", "1000"),
                    ("exec", name, "--", "sh", "-c", "sleep 1000 & yes"), ("cp", f"{name}:/usr/bin", "/tmp/killed-copy"))
        for number in range(24):
            process = subprocess.Popen([MVM, *commands[number % len(commands)]], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(dice.random() * 0.6)  # the moment is the point
            process.kill()
            process.wait()
        no_more_than(were, name, "processes in the guest as before")
        eventually(lambda: descriptors(name) == before, lambda: f"descriptors as before: {before}; now: {descriptors(name)}")
        equal(guest(name, "echo still here"), "still here")


def test_a_host_program_that_dies_ends_the_guests_stream():
    name = shared()
    for half_closed in (False, True):
        process = listener(name, 7100, """
print(c.recv(100), c.recv(100), flush=True)
try:
    while True: c.sendall(b"x")
except OSError as e:
    print(type(e).__name__)
""")
        holder = os.fork()
        if holder == 0:
            stream = vsock(name, 7100)
            stream.sendall(b"last words")
            if half_closed:
                stream.shutdown(socket.SHUT_WR)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(holder, 0)
        has(process.stdout.read().decode(), "b'last words' b''\n")
        equal(process.wait(60), 0)


def test_a_guest_program_that_dies_ends_the_hosts_stream():
    name = shared()
    process = listener(name, 7101, "c.sendall(b'last words')\nimport os, signal\nc.recv(1)\nos.kill(os.getpid(), signal.SIGKILL)")
    stream = vsock(name, 7101)
    equal(stream.recv(10, socket.MSG_WAITALL), b"last words")
    stream.sendall(b"x")
    try:
        equal(stream.recv(100), b"")
    except ConnectionResetError:
        pass
    equal(process.wait(60), 128 + 9)


def test_a_port_where_nobody_listens_is_refused():
    name = shared()
    expect(vsock(name, 7999) is None, "a connection to nobody")
    refused = mvm("exec", name, "--", "python3", "-c",
                  "import socket\ntry: socket.socket(socket.AF_VSOCK).connect((2, 7999))\nexcept OSError as e: print(type(e).__name__)")
    has(refused.out, "ConnectionResetError")


def test_a_reader_that_stops_holds_up_nobody_else():
    """The monitor keeps a bounded amount for it, and other streams go on."""
    name = shared()
    process = listener(name, 7102, "import os\nwhile True: c.sendall(bytes(65536))")
    stream = vsock(name, 7102)
    pid = sandbox_json(name)["pids"]["monitor"]

    def resident():
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096

    eventually(lambda: int(guest(name, "cat /proc/loadavg | wc -l")) == 1, "commands run meanwhile")
    before = resident()
    for _ in range(3):
        equal(guest(name, "echo through"), "through")
    expect(resident() - before < 16 << 20, f"{resident() - before} bytes more")
    stream.close()
    process.wait(60)  # its stream is gone: an error of its own
