"""A guest that hangs is told from one that is busy."""
import json

from harness import equal, eventually, guest, has, mvm, sandbox, sandbox_json, start


def test_a_hung_guest_is_ended_by_its_watchdog():
    """Nothing in it gets a CPU any more, so nothing answers, and the sandbox ends and says so."""
    spin = "exec chrt -f 99 sh -c 'while :; do :; done'"
    with sandbox("hung", "--watchdog", "10s"):
        # A real-time task that never yields, on the guest's one CPU, with the kernel's margin for others off.
        guest("hung", "echo -1 >/proc/sys/kernel/sched_rt_runtime_us")
        load = start("exec", "hung", "--", "sh", "-c", spin)
        eventually(lambda: sandbox_json("hung")["state"] == "crashed", "the watchdog ends it", seconds=120)
        load.communicate(timeout=30)
        has(sandbox_json("hung")["end"]["detail"], "did not answer for 10s (watchdog)")
        equal(mvm("exec", "hung", "--", "true").code, 125)


def test_a_busy_guest_is_left_alone():
    with sandbox("busy", "--watchdog", "10s"):
        guest("busy", "for i in 1 2 3 4; do timeout 25 sh -c 'while :; do :; done' & done; wait; true")
        equal(json.loads(mvm("inspect", "busy", "--json").out)["state"], "running")
