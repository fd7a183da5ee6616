"""The processor and the time that the guest sees."""
import time

from harness import equal, expect, guest, has, sandbox, shell, start

CLOCK = """
import threading, time
end = time.monotonic() + 5
def spin():
    last = time.monotonic_ns()
    while last < end * 1e9:
        now = time.monotonic_ns()
        assert now >= last, (now, last)
        last = now
threads = [threading.Thread(target=spin) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print('fine')
"""


def lscpu(name):
    pairs = (line.split(":", 1) for line in guest(name, "lscpu").splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def clock_error(name):
    """Seconds by which the guest's wall clock is surely off: outside the time in which it was asked."""
    before = time.time()
    there = float(guest(name, "date +%s.%N"))
    after = time.time()
    return max(before - there, there - after, 0)


def test_topology_features_and_clocks():
    """Two CPUs are two cores of one package; clocks are those of KVM, agree across CPUs and under load, and steal is told."""
    with sandbox("cpu", "--cpus", "2"):
        cpu = lscpu("cpu")
        equal((cpu["CPU(s)"], cpu["Socket(s)"], cpu["Core(s) per socket"], cpu["Thread(s) per core"]),
              ("2", "1", "2", "1"), repr(cpu))
        equal(cpu["Hypervisor vendor"], "KVM")
        flags = guest("cpu", "sed -n 's/^flags[^:]*: //p' /proc/cpuinfo | head -1").split()
        has(flags, "hypervisor")
        for hidden in ("vmx", "svm", "perfctr_core", "rtm", "sgx"):
            expect(hidden not in flags, f"{hidden} is hidden: {flags}")
        clock = guest("cpu", "cat /sys/devices/system/clocksource/clocksource0/current_clocksource")
        expect(clock in ("kvm-clock", "tsc"), clock)

        error = clock_error("cpu")
        expect(error < 0.5, f"the wall clock is off by {error:.3f} s")
        load = start("exec", "cpu", "--", "sh", "-c", "(timeout 15 sh -c 'while :; do :; done' &) ; timeout 15 sh -c 'while :; do :; done'")
        equal(guest("cpu", f"python3 -c \"{CLOCK}\""), "fine")
        error = clock_error("cpu")
        load.wait()
        expect(error < 0.5, f"the wall clock is off by {error:.3f} s under load")
        # Two CPUs that spin on a lab of one: each waits for the other half of the time.
        words = guest("cpu", "grep '^cpu ' /proc/stat").split()
        expect(int(words[8]) > 100, f"stolen time: {words}")
        equal(shell("cpu", "dmesg | grep -ci 'clocksource.*unstable\\|time went backwards'").out.strip(), "0")
