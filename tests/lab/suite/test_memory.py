"""Guest memory: what the guest does not need goes back to the host, and it says how it stands."""
import os
import socket
import struct

from harness import equal, eventually, expect, guest, has, mvm, sandbox, sandbox_json, shell

MIB = 1 << 20


def memory_use(name):
    return sandbox_json(name)["memory_use"]


def resident(name):
    return memory_use(name)["resident"]


def cbor(value):
    """As much of RFC 8949 as a request needs."""
    def head(major, number):
        return bytes([major << 5 | number]) if number < 24 else bytes([major << 5 | 27]) + struct.pack(">Q", number)
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, str):
        return head(3, len(value)) + value.encode()
    return head(5, len(value)) + b"".join(cbor(key) + cbor(each) for key, each in value.items())


def set_balloon(name, size):
    """The one verb of a sandbox's socket that no command offers; frames as include/mvm/proto/frame.h has them."""
    def frame(stream, kind, payload):
        return struct.pack("<IIB", 5 + len(payload), stream, kind) + payload
    hello = frame(0, 0, cbor({"version": 1, "role": "client", "software": "test"}))
    request = frame(1, 1, cbor({"verb": "sandbox.memory", "balloon": size}))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(sandbox_json(name)["control_socket"])
        connection.sendall(hello + request)
        got = b""
        while b"balloon_target" not in got:
            piece = connection.recv(4096)
            expect(piece, f"the sandbox hangs up: {got!r}")
            got += piece


HOLD = ("import sys; x = bytearray({mib} << 20); x[::4096] = b'1' * len(x[::4096]); "
        "open('/tmp/held', 'w').close(); open('/tmp/go').read()")


def hold(name, mib):
    """A process of the guest that has written so much memory, and keeps it until let_go()."""
    guest(name, f"rm -f /tmp/held /tmp/go; mkfifo /tmp/go; setsid python3 -c \"{HOLD.format(mib=mib)}\" "
                "</dev/null >/dev/null 2>&1 & while [ ! -e /tmp/held ]; do sleep 0.1; done")


def let_go(name):
    guest(name, "echo >/tmp/go")


def gives_back(name):
    # Against what is resident meanwhile, and not before: what booting left free may still be on its way back then.
    hold(name, 100)
    held = resident(name)
    expect(held > 100 * MIB, f"{held >> 20} MiB resident while the guest holds 100")
    let_go(name)
    eventually(lambda: resident(name) < held - 80 * MIB,
               f"the pages go back: {held >> 20} MiB while held, {resident(name) >> 20} now")
    expect(memory_use(name)["released"] > 80 * MIB, "what went back is counted")


def test_freed_memory_goes_back_to_the_host():
    """100 MiB that the guest wrote and freed are not resident any more, without anybody asking."""
    with sandbox("frees"):
        gives_back("frees")
        use = memory_use("frees")
        kib = int(guest("frees", "sed -n 's/MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo"))
        equal(use["guest_total"], kib * 1024)
        expect(0 < use["guest_free"] <= use["guest_available"] + use["guest_caches"] < use["guest_total"] * 2, repr(use))


def test_the_distribution_kernel_gives_memory_back_too():
    """Its balloon driver is a module; the bundle has it."""
    with sandbox("debian", "--kernel", os.environ["MVM_DISTRIBUTION_KERNEL"]):
        gives_back("debian")


def test_a_balloon_takes_memory_and_gives_it_back_before_the_guest_runs_out():
    with sandbox("balloon"):
        hold("balloon", 100)
        let_go("balloon")
        set_balloon("balloon", 128 * MIB)
        eventually(lambda: memory_use("balloon")["balloon"] >= 120 * MIB, "the guest gives up 128 MiB")
        available = memory_use("balloon")["guest_available"]
        expect(available < 120 * MIB, f"{available >> 20} MiB available to the guest besides")
        # More than is left outside the balloon: without DEFLATE_ON_OOM the kernel would kill it.
        hold("balloon", 150)
        let_go("balloon")
        equal(shell("balloon", "dmesg | grep -c oom-kill").out.strip(), "0")
        set_balloon("balloon", 0)
        eventually(lambda: memory_use("balloon")["balloon"] == 0, "the balloon is empty")


def test_huge_pages_are_reserved_or_refused():
    """With too few pages in the reserve: one clear line. With enough, the guest's memory is made of them."""
    reserve = "/proc/sys/vm/nr_hugepages"
    if not os.access(reserve, os.W_OK):
        return
    got = mvm("up", "huge", "--image", "base", "--memory", "128M", "--huge-pages")
    equal(got.code, 125, repr(got))
    has(got.err, "reserve of 2 MiB pages is short of the 128 MiB")
    has(got.err, "vm.nr_hugepages")
    mvm("rm", "--force", "huge")
    try:
        with open(reserve, "w", encoding="ascii") as file:
            file.write("64")
        with sandbox("huge", "--huge-pages", memory="128M"):
            guest("huge", "true")
            with open("/proc/meminfo", encoding="ascii") as file:
                free = {line.split(":")[0]: int(line.split()[1]) for line in file}
            equal((free["HugePages_Total"], free["HugePages_Rsvd"] + 64 - free["HugePages_Free"]), (64, 64))
    finally:
        with open(reserve, "w", encoding="ascii") as file:
            file.write("0")
