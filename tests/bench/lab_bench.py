"""The figures that need guests. Runs where mvm can boot one: natively, or in the lab.

    lab_bench.py ROUNDS OUT NAME…

Ratios are of medians over interleaved rounds, ours and the peer's in turn, so that both see the same machine.
"""
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MVM = str(ROOT / "build/release/src/mvm")
STREAM = str(ROOT / "build/release/tests/bench/vsock_stream")


def mvm(*arguments):
    done = subprocess.run([MVM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        sys.exit(f"mvm {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def peer(name, *arguments):
    """A peer prints the milliseconds of one run as its last line."""
    done = subprocess.run([str(HERE / "peers" / name), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=600, check=False)
    if done.returncode != 0:
        sys.exit(f"peer {name} {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return float(done.stdout.split()[-1])


def settle():
    """After a run the daemon makes a spare: it is to be there for the next, as where somebody types, and in nobody's way."""
    end = time.monotonic() + 30
    while json.loads(mvm("daemon", "status", "--json"))["spare_pid"] == 0 and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(2)


def ratio(title, rounds, ours, theirs, before=lambda: None):
    mine, other = [], []
    for _ in range(rounds):
        before()
        mine.append(ours())
        before()
        other.append(theirs())
    print(f"{title}: ours {sorted(round(x) for x in mine)} ms, peer {sorted(round(x) for x in other)} ms", flush=True)
    return statistics.median(mine) / statistics.median(other)


def serve_streams(name):
    """Starts the guest's end of vsock_stream in a sandbox; answers the address of its other end."""
    mvm("cp", STREAM, f"{name}:/usr/local/bin/vsock_stream")
    mvm("exec", "--detach", name, "--", "vsock_stream", "serve")
    return f"unix:{os.environ['MVM_RUNTIME_DIR']}/s/{name}/vsock.sock"


def stream(address, way, size):
    """Milliseconds for `size` bytes over one vsock stream of a sandbox."""
    done = subprocess.run([STREAM, address, way, str(size)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"vsock_stream {address} {way}: exit {done.returncode}\n{done.stderr}")
    return float(done.stdout)


def vsock_figures(rounds, names):
    """One stream of a sandbox against one of QEMU's microvm with vhost-vsock: same kernel, memory, CPUs and programs."""
    figures = {}
    address = serve_streams("bench")
    bulk, echoes = (64 << 20, 1000 * 64) if rounds > 1 else (4 << 20, 50 * 64)
    for name, way, size in (("vsock.to_host_vs_qemu", "to-host", bulk), ("vsock.to_guest_vs_qemu", "to-guest", bulk),
                            ("vsock.rtt_vs_qemu", "rtt", echoes)):
        if name not in names:
            continue

        def ours(way=way, size=size):
            return stream(address, way, size)

        def theirs(way=way, size=size):
            return peer("qemu-vsock", os.environ["MVM_KERNEL"], STREAM, way, str(size))

        ours(), theirs()  # the guests are up, memory touched
        times = ratio(name, rounds, ours, theirs)
        figures[name] = times if way == "rtt" else 1 / times
    subprocess.run([str(HERE / "peers/qemu-vsock"), "stop"], check=True)
    return figures


def cp_figures(rounds, names, folder):
    """Copies into a running sandbox. The speed of one is the inverse of its time, so a ratio of speeds is one of times, upside
    down."""
    figures = {}
    small = pathlib.Path(folder, "small")
    small.mkdir()
    for number in range(500 if rounds > 1 else 50):
        (small / f"file{number}").write_bytes(os.urandom(2000))
    large = pathlib.Path(folder, "large")
    large.write_bytes(os.urandom(1 << 20) * (64 if rounds > 1 else 4))

    def copy(source):
        return peer("mvm", MVM, "cp", "--quiet", str(source), "bench:/srv/")

    for name, source in (("cp.large_vs_msb", large), ("cp.small_vs_msb", small)):
        if name in names:
            copy(source)
            figures[name] = 1 / ratio(name, min(rounds, 3), lambda source=source: copy(source),
                                      lambda source=source: peer("msb", "cp", str(source)))
    if "cp.large_vs_vsock" in names:
        size = (1 << 30) if rounds > 1 else (8 << 20)
        with open(large, "wb") as file:
            block = os.urandom(1 << 20)
            for _ in range(size >> 20):
                file.write(block)
        address = serve_streams("bench")
        figures["cp.large_vs_vsock"] = 1 / ratio("cp.large_vs_vsock", min(rounds, 3), lambda: copy(large),
                                                 lambda: stream(address, "to-guest", size))
    return figures


def jail_cost(rounds):
    """`mvm run` against the same program without its jail, each with a daemon, data and sockets of its own. Without spares, whose
    jail is made where nobody waits for it."""
    unjailed = str(ROOT / "build/release/tests/bench/mvm_unjailed")
    homes = {}
    for program in (MVM, unjailed):
        homes[program] = tempfile.mkdtemp(prefix="mvm-bench-jail-")
        shutil.copytree(os.environ["MVM_BENCH_WORK"] + "/data", homes[program] + "/data", symlinks=True)
        os.chmod(homes[program] + "/data", 0o700)

    def run(program):
        saved = {name: os.environ.get(name, "") for name in ("MVM_DATA_DIR", "MVM_RUNTIME_DIR", "MVM_DAEMON_SPARE")}
        os.environ.update({"MVM_DATA_DIR": homes[program] + "/data", "MVM_RUNTIME_DIR": homes[program] + "/run",
                           "MVM_DAEMON_SPARE": "0"})
        try:
            return peer("mvm", program, "run", "base", "--no-network", "--memory", "256M", "--", "true")
        finally:
            os.environ.update(saved)

    for program in homes:
        run(program)  # the daemon is up, the disk template made
    # More rounds than elsewhere: the difference is small.
    return ratio("cold.jail_cost", 4 * rounds + 1, lambda: run(MVM), lambda: run(unjailed))


def run_true():
    return peer("mvm", MVM, "run", "base", "--no-network", "--memory", "256M", "--", "true")


def monitor_rss(name):
    """Resident MiB of the monitor's mappings, guest memory excepted: that alone is kept out of core dumps ("dd")."""
    pid = json.loads(mvm("inspect", name, "--json"))["pids"]["monitor"]
    total = guest = resident = 0
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if line.startswith("Size:"):
            size = int(line.split()[1])
        elif line.startswith("Rss:"):
            resident = int(line.split()[1])
        elif line.startswith("VmFlags:"):
            if " dd" in line:
                guest += size
            else:
                total += resident
    # A little more is mapped than the guest has: room for alignment.
    if not 256 * 1024 <= guest <= 260 * 1024:
        sys.exit(f"guest memory of {guest} KiB instead of 256 MiB: this is not measured right any more")
    return total / 1024


def sandbox_rss(name):
    """Resident MiB of an idle sandbox's two processes, guest memory excepted; what they share with others counts in full."""
    pid = json.loads(mvm("inspect", name, "--json"))["pids"]["sandbox"]
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return resident / 1024 + monitor_rss(name)


def boot_exits(name):
    """Exits from kernel entry to the agent's first word, by reason."""
    sandbox = json.loads(mvm("inspect", name, "--json"))
    boot = json.loads(pathlib.Path(os.environ["MVM_DATA_DIR"], "sandboxes", sandbox["id"], "boot.json").read_text())
    for reason, count in sorted(boot["counters"].items(), key=lambda item: -item[1]):
        print(f"boot.exits {reason}: {count}", flush=True)
    return sum(count for reason, count in boot["counters"].items() if reason.startswith("user."))


# What tests/bench/block_load works on: so much of a 2 GiB disk, where a fresh ext4 file system has nothing.
BLOCK_PLACE = ("1280", "256")
BLOCK_LOADS = {"block.randread_vs_qemu": "randread", "block.seqread_vs_qemu": "seqread", "block.seqwrite_vs_qemu": "seqwrite"}


def block_times(output):
    return {mode: float(ms) for mode, ms in (line.split() for line in output.splitlines())}


def block_ratios(rounds, names, home):
    """How many times as fast as QEMU, by load: same program, same kernel, raw sparse files side by side, one virtual CPU each,
    the host's page cache warm from the fill that comes first."""
    modes = [BLOCK_LOADS[name] for name in names]
    load = str(ROOT / "build/release/tests/bench/block_load")
    disk = home + "/qemu.disk"
    with open(disk, "wb") as file:
        file.truncate(2 << 30)
    mvm("up", "block", "--image", "base", "--memory", "256M", "--disk-size", "2G")
    mvm("cp", load, "block:/root/block_load")

    def ours(*loads):
        return block_times("".join(mvm("exec", "block", "--", "/root/block_load", "/dev/vdb", *BLOCK_PLACE, mode) for mode in loads))

    def theirs(*loads):
        done = subprocess.run([str(HERE / "peers/qemu-block"), os.environ["MVM_KERNEL"], load, disk, *BLOCK_PLACE, *loads],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            sys.exit(f"peer qemu-block: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return block_times(done.stdout)

    ours("fill")
    theirs("fill")
    measured = [(ours(*modes), theirs(*modes)) for _ in range(rounds)]
    mvm("rm", "--force", "block")
    os.unlink(disk)
    figures = {}
    for name in names:
        mine, other = ([run[side][BLOCK_LOADS[name]] for run in measured] for side in (0, 1))
        print(f"{name}: ours {sorted(round(x) for x in mine)} ms, peer {sorted(round(x) for x in other)} ms", flush=True)
        figures[name] = statistics.median(other) / statistics.median(mine)
    return figures


PUBLIC = "93.184.216.34"  # stands for a host of the Internet: an address of the loopback device here
NET_PORT = "5201"


def guest_network(rounds, home):
    """How many times as fast as QEMU's user-mode network, one TCP stream from a guest to a server of the host's: the way that
    compares worse. Upward and downward, by the same iperf3 and kernel, one virtual CPU each."""
    seconds = "4" if rounds > 1 else "1"
    closure = home + "/iperf3"
    subprocess.run([str(HERE / "peers/iperf3-closure"), closure], check=True)
    subprocess.run(["ip", "address", "replace", PUBLIC + "/32", "dev", "lo"], check=True)
    server = subprocess.Popen(["iperf3", "--server", "--bind", PUBLIC, "--port", NET_PORT], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL)
    mvm("up", "net", "--image", "base", "--memory", "256M", "--allow-cidr", f"{PUBLIC}/32:{NET_PORT}")
    mvm("cp", closure, "net:/usr/local/iperf3")

    def speed(text):
        """Kbit/s, in iperf3's line on what the receiver got."""
        return float(re.search(r"([0-9.]+) Kbits/sec.*receiver", text).group(1))

    def ours(*length):
        command = ["exec", "net", "--", "/usr/local/iperf3/run", "--client", PUBLIC, "--port", NET_PORT, "--format", "k", *length]
        return {"up": speed(mvm(*command)), "down": speed(mvm(*command, "--reverse"))}

    def theirs():
        done = subprocess.run([str(HERE / "peers/qemu-user-net"), os.environ["MVM_KERNEL"], closure, PUBLIC, NET_PORT, seconds],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            sys.exit(f"peer qemu-user-net: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return {way: speed(line) for way, line in (line.split(" ", 1) for line in done.stdout.splitlines())}

    ours("--bytes", "64K")  # the guest is up, the program in its memory
    measured = [(ours("--time", seconds), theirs()) for _ in range(rounds)]
    server.kill()
    server.wait()
    mvm("rm", "--force", "net")
    figures = []
    for way in ("up", "down"):
        mine, other = ([run[side][way] for run in measured] for side in (0, 1))
        print(f"net.guest_vs_qemu_user {way}, Mbit/s: ours {sorted(round(x / 1e3) for x in mine)}, "
              f"peer {sorted(round(x / 1e3) for x in other)}", flush=True)
        figures.append(statistics.median(mine) / statistics.median(other))
    return min(figures)


def main():
    rounds, out, names = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    home = tempfile.mkdtemp(prefix="mvm-bench-")
    shutil.copytree(os.environ["MVM_BENCH_WORK"] + "/data", home + "/data", symlinks=True)
    os.chmod(home + "/data", 0o700)
    os.environ["MVM_DATA_DIR"], os.environ["MVM_RUNTIME_DIR"] = home + "/data", home + "/run"
    figures = {}
    if "cold.run_vs_qemu" in names or "cold.run_vs_msb" in names:
        run_true()  # the daemon is up, the disk template made
    if "cold.run_vs_qemu" in names:
        figures["cold.run_vs_qemu"] = ratio("cold.run_vs_qemu", rounds, run_true,
                                             lambda: peer("qemu-microvm", os.environ["MVM_KERNEL"]), settle)
    if "cold.run_vs_msb" in names:
        figures["cold.run_vs_msb"] = ratio("cold.run_vs_msb", rounds, run_true, lambda: peer("msb", "run"), settle)
    if block := [name for name in BLOCK_LOADS if name in names]:
        figures.update(block_ratios(rounds, block, home))
    if "net.guest_vs_qemu_user" in names:
        figures["net.guest_vs_qemu_user"] = guest_network(rounds, home)
    if "cold.jail_cost" in names:
        figures["cold.jail_cost"] = jail_cost(rounds)
    if {"exec.true_vs_msb", "mem.monitor_idle", "mem.sandbox_idle", "boot.exits"} & set(names):
        mvm("up", "bench", "--image", "base", "--no-network", "--memory", "256M")
        if "exec.true_vs_msb" in names:
            figures["exec.true_vs_msb"] = ratio("exec.true_vs_msb", rounds, lambda: peer("mvm", MVM, "exec", "bench", "--", "true"),
                                                lambda: peer("msb", "exec"))
        if "mem.monitor_idle" in names:
            figures["mem.monitor_idle"] = monitor_rss("bench")
        if "mem.sandbox_idle" in names:
            figures["mem.sandbox_idle"] = sandbox_rss("bench")
        if "boot.exits" in names:
            figures["boot.exits"] = boot_exits("bench")
        mvm("rm", "--force", "bench")
    vsock, cp = ([name for name in names if name.startswith(group)] for group in ("vsock.", "cp."))
    if vsock or cp:
        mvm("up", "bench", "--image", "base", "--no-network", "--memory", "256M")
        if vsock:
            figures.update(vsock_figures(rounds, vsock))
        if cp:
            figures.update(cp_figures(rounds, cp, home))
        mvm("rm", "--force", "bench")
    mvm("daemon", "stop")
    (out / "figures.json").write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
