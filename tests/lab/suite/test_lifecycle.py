"""From up to rm: how sandboxes start, end, and say why."""
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import tempfile
import threading
import time

from harness import equal, eventually, expect, guest, has, mvm, ok, sandbox, sandbox_json, shared, start

DISTRIBUTION = os.environ.get("MVM_DISTRIBUTION_KERNEL", "")


def reason_of(name):
    return (sandbox_json(name).get("end") or {}).get("reason")


def test_distribution_kernel_boots():
    """An unmodified Debian cloud kernel finds its devices through ACPI, and powers off cleanly."""
    with sandbox("debian", "--kernel", DISTRIBUTION):
        has(guest("debian", "uname -r"), "cloud-amd64")
        ok("down", "debian")
        equal(reason_of("debian"), "stopped")


def test_two_cpus():
    with sandbox("smp", "--cpus", "2"):
        equal(guest("smp", "nproc"), "2")


def test_memory_is_what_was_asked_for():
    with sandbox("mem", memory="192M"):
        kib = int(guest("mem", "sed -n 's/MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo"))
        expect(140 * 1024 < kib <= 192 * 1024, f"{kib} KiB")


def test_memory_above_the_gap():
    """More than 3 GiB lies in two regions; both are usable."""
    with sandbox("big", memory="3328M"):
        kib = int(guest("big", "sed -n 's/MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo"))
        expect(kib > 3100 * 1024, f"{kib} KiB")


def test_stopped_sandbox_keeps_its_disk_and_starts_again():
    with sandbox("again"):
        guest("again", "echo kept >/root/file")
        # A copy goes through the same layer, and takes nothing of it back.
        ok("cp", __file__, "again:/root/copy")
        ok("down", "again")
        equal(sandbox_json("again")["state"], "stopped")
        ok("up", "again")
        equal(guest("again", "cat /root/file"), "kept")
        equal(guest("again", "head -c 3 /root/copy"), '"""')


def test_written_and_synced_data_survives_a_killed_monitor():
    """FLUSH is durable: after sync the data is in the disk file, whatever happens to the machine."""
    with sandbox("flush"):
        guest("flush", "head -c 1000000 /dev/urandom >/root/data && sha256sum /root/data >/root/sum && sync")
        os.kill(sandbox_json("flush")["pids"]["monitor"], signal.SIGKILL)
        eventually(lambda: sandbox_json("flush")["state"] == "crashed", "the crash is noticed")
        equal(reason_of("flush"), "crashed")
        ok("up", "flush")
        guest("flush", "sha256sum -c /root/sum")


REBOOT = "import ctypes; ctypes.CDLL(None).reboot({})"


def test_power_off_reboot_and_want_of_memory_are_told_apart():
    hog = "echo 2 >/proc/sys/vm/panic_on_oom; exec python3 -c 'x = []; [x.append(b\"x\" * 10000000) for _ in range(1000)]'"
    for command, reason in ((["python3", "-c", REBOOT.format(0x4321fedc)], "exited"),
                            (["python3", "-c", REBOOT.format(0x01234567)], "rebooted"),
                            (["sh", "-c", hog], "out_of_memory")):
        with sandbox("ends"):
            mvm("exec", "ends", "--", *command)
            eventually(lambda: sandbox_json("ends")["state"] != "running", f"the sandbox ends after {command}")
            equal(reason_of("ends"), reason, str(command))


# The guest's root overwrites process 1, without which a kernel does not go on.
KILL_INIT = """
text = next(line.split()[0].split("-") for line in open("/proc/1/maps") if "r-xp" in line)
memory = open("/proc/1/mem", "r+b", buffering=0)
memory.seek(int(text[0], 16))
memory.write(bytes(int(text[1], 16) - int(text[0], 16)))
"""


def test_exec_on_a_sandbox_that_ends_says_so():
    for program, reason in ((REBOOT.format(0x01234567), "rebooted"), (KILL_INIT, "panic")):
        with sandbox("dies"):
            got = mvm("exec", "dies", "--", "python3", "-c", program)
            equal(got.code, 125, repr(got))
            has(got.err, reason)
            eventually(lambda: sandbox_json("dies")["state"] != "running", "the sandbox ends")
            equal(reason_of("dies"), reason)
            has(ok("ps", "-a").out, reason)


def test_a_kill_is_told_from_a_stop():
    with sandbox("killed"):
        ok("down", "--kill", "killed")
        equal(reason_of("killed"), "killed")


def test_a_machine_that_the_host_fails_says_so():
    """The host takes a running monitor's right to descriptors away, and its devices' threads can wait for nothing any more."""
    if os.getuid() != 0:
        return print("skipped: only root may set limits of a process in another user namespace", flush=True)
    with sandbox("failed"):
        connect = "import socket; socket.create_connection(('192.0.2.1', 80), 5)"
        asking = start("exec", "-i", "failed", "--", "sh", "-c", f'echo ready; read _; python3 -c "{connect}"')
        equal(asking.stdout.readline(), b"ready\n")
        resource.prlimit(sandbox_json("failed")["pids"]["monitor"], resource.RLIMIT_NOFILE, (1, 1))
        asking.stdin.write(b"\n")
        asking.stdin.flush()
        eventually(lambda: sandbox_json("failed")["state"] != "running", "the sandbox ends")
        equal(asking.wait(30), 125)
        equal(reason_of("failed"), "host_fault")
        has(sandbox_json("failed")["end"]["detail"], "waiting for")
        has(ok("ps", "-a").out, "host_fault")
        ok("up", "failed")
        guest("failed", "true")


def test_run_is_one_shot():
    got = mvm("run", "base", "--memory", "256M", "--", "sh", "-c", "echo hello; exit 5")
    equal((got.out, got.code), ("hello\n", 5), repr(got))
    equal([s for s in json.loads(ok("ps", "-a", "--json").out) if s["name"] != "shared"], [])


def test_two_ups_of_one_name_at_once():
    results = []
    threads = [threading.Thread(target=lambda: results.append(mvm("up", "twin", "--image", "base", "--memory", "256M")))
               for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        codes = sorted(r.code for r in results)
        expect(codes in ([0, 125], [0, 0]), repr(results))
        equal(len([s for s in json.loads(ok("ps", "--json").out) if s["name"] == "twin"]), 1)
        guest("twin", "true")
    finally:
        mvm("rm", "--force", "twin")


def test_bad_names_are_refused():
    for name in ("a/b", "../x", "n" * 300, ".hidden", "white space"):
        got = mvm("up", name, "--image", "base")
        expect(got.code in (2, 125) and len(got.err.strip().splitlines()) <= 3, repr(got))


def kernel_bundle(folder, image, modules=()):
    bundle = pathlib.Path(folder, "bundle")
    bundle.mkdir()
    (bundle / "vmlinux").write_bytes(image)
    (bundle / "bundle.json").write_text(json.dumps({"name": "odd", "image": "vmlinux", "modules": list(modules)}))
    return str(bundle)


def pvh_kernel(code):
    """The smallest ELF that a PVH loader takes: one segment at 1 MiB, and the note with its entry."""
    note = struct.pack("<III4sI", 4, 4, 18, b"Xen\0", 0x100000)
    offset = 64 + 2 * 56
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, 0x100000, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, offset + len(note), 0x100000, 0x100000, len(code), len(code), 4096)
    notes = struct.pack("<IIQQQQQQ", 4, 4, offset, 0, 0, len(note), len(note), 4)
    # No kernel is as small as the smallest header; what follows the segment is nobody's.
    return header + load + notes + note + code + bytes(1024)


def test_a_guest_that_never_answers():
    with tempfile.TemporaryDirectory() as folder:
        bundle = kernel_bundle(folder, pvh_kernel(b"\xf4\xeb\xfd"))  # hlt; jmp back
        got = mvm("up", "mute", "--image", "base", "--memory", "64M", "--kernel", bundle, "--boot-timeout", "3s")
        equal(got.code, 125, repr(got))
        has(got.err, "did not become ready within 3s")
        equal(sandbox_json("mute")["state"], "failed")
        ok("rm", "mute")


def test_a_guest_that_triple_faults():
    with tempfile.TemporaryDirectory() as folder:
        # An empty interrupt table and an undefined instruction.
        bundle = kernel_bundle(folder, pvh_kernel(b"\x0f\x01\x1d\x00\x00\x20\x00\x0f\x0b"))
        got = mvm("up", "faulty", "--image", "base", "--memory", "64M", "--kernel", bundle)
        equal(got.code, 125, repr(got))
        mvm("rm", "--force", "faulty")


def test_broken_kernels_are_one_clear_error():
    with tempfile.TemporaryDirectory() as folder:
        whole = pvh_kernel(b"\xf4\xeb\xfd")
        for number, image in enumerate((b"", b"\x7fELF", whole[:100], whole[:600][:-100] + b"", b"not a kernel" * 1000)):
            place = pathlib.Path(folder, str(number))
            place.mkdir()
            got = mvm("up", "broken", "--image", "base", "--memory", "64M", "--kernel", kernel_bundle(place, image))
            equal(got.code, 125, repr(got))
            expect(len(got.err.strip().splitlines()) <= 3 and "kernel" in got.err, repr(got))
            mvm("rm", "--force", "broken")


def test_vsock_both_ways():
    name = shared()
    run = pathlib.Path(os.environ["MVM_RUNTIME_DIR"], "s", name)
    script = ("import socket; s = socket.socket(socket.AF_VSOCK); s.bind((socket.VMADDR_CID_ANY, 7000)); s.listen();"
              "print('listening', flush=True); c, _ = s.accept(); data = c.makefile('rb').read(); c.sendall(data.upper()); c.close()")
    server = start("exec", name, "--", "python3", "-c", script)
    equal(server.stdout.readline(), b"listening\n")
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(60)
    client.connect(str(run / "vsock.sock"))
    client.sendall(b"CONNECT 7000\nhello")
    client.shutdown(socket.SHUT_WR)
    answer = client.makefile("rb").read()
    expect(answer.startswith(b"OK ") and answer.endswith(b"\nHELLO"), repr(answer))
    equal(server.wait(30), 0)

    host = socket.socket(socket.AF_UNIX)
    host.bind(str(run / "vsock.sock_7001"))
    host.listen()
    script = ("import socket; s = socket.socket(socket.AF_VSOCK); s.connect((2, 7001)); s.sendall(b'from the guest');"
              "s.shutdown(socket.SHUT_WR); print(s.makefile('rb').read().decode())")
    caller = start("exec", name, "--", "python3", "-c", script)
    host.settimeout(60)
    connection, _ = host.accept()
    equal(connection.makefile("rb").read(), b"from the guest")
    connection.sendall(b"from the host")
    connection.close()
    equal(caller.communicate(timeout=60)[0], b"from the host\n")
    refused = mvm("exec", name, "--", "python3", "-c", "import socket; socket.socket(socket.AF_VSOCK).connect((2, 7009))")
    has(refused.err, "reset")
    for port in ("", "0", "99999999999", "x"):
        bad = socket.socket(socket.AF_UNIX)
        bad.settimeout(60)
        bad.connect(str(run / "vsock.sock"))
        bad.sendall(f"CONNECT {port}\n".encode())
        try:
            equal(bad.recv(10), b"", f"CONNECT {port}")
        except ConnectionResetError:
            pass  # it was closed before it was read, which is as good


def test_an_impostor_agent_is_refused():
    """Only process 1, before anything else runs, can be the agent: its port is closed afterwards."""
    got = mvm("exec", shared(), "--", "python3", "-c", "import socket; socket.socket(socket.AF_VSOCK).connect((2, 5252))")
    expect(got.code != 0, repr(got))


def test_a_killed_daemon_loses_no_sandbox():
    name = shared()
    daemon = json.loads(ok("daemon", "status", "--json").out)["pid"]
    os.kill(daemon, signal.SIGKILL)
    equal([s["name"] for s in json.loads(ok("ps", "--json").out)], [name])
    guest(name, "true")
    expect(json.loads(ok("daemon", "status", "--json").out)["pid"] != daemon, "a new daemon")


def test_no_host_files():
    name = shared()
    expect(mvm("exec", name, "--", "ls", os.path.realpath(__file__)).code != 0, "a file of the host is there")


def test_sandboxes_share_their_image_and_nothing_else():
    name = shared()
    with sandbox("other"):
        guest(name, "echo secret >/root/mine")
        expect(mvm("exec", "other", "--", "cat", "/root/mine").code != 0, "it sees the other's file")
        roots = set()
        for each in (name, "other"):
            monitor = sandbox_json(each)["pids"]["monitor"]
            for fd in pathlib.Path(f"/proc/{monitor}/fd").iterdir():
                target = os.readlink(fd)
                if target.endswith("root.erofs"):
                    roots.add(os.stat(fd).st_ino)
        equal(len(roots), 1, "both read one file")


def test_processes_are_confined():
    """no_new_privs and a seccomp filter on every thread of both processes, from /proc."""
    pids = sandbox_json(shared())["pids"]
    for pid in (pids["sandbox"], pids["monitor"]):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), f"{pid}/{task.name} {status['Name']}")


def test_console_log():
    name = shared()
    guest(name, "echo to the console >/dev/console; sync")
    eventually(lambda: "to the console" in ok("logs", name).out, "the log has it")
