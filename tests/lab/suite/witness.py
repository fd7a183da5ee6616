"""What is needed to understand a test that ran out of time: whether the lab's machine ran at all, and who waits for what."""
import glob
import os
import pathlib
import subprocess
import threading
import time

# A tick that comes later than this was not a matter of scheduling: the whole emulated machine stood still meanwhile.
STANDSTILL = 20


class Clock(threading.Thread):
    """Ticks every second, and remembers the longest time between two ticks."""

    def __init__(self):
        super().__init__(daemon=True)
        self._longest = 0.0
        self.start()

    def run(self):
        last = time.monotonic()
        while True:
            time.sleep(1)
            now = time.monotonic()
            self._longest = max(self._longest, now - last)
            last = now

    def stood_still(self):
        """Seconds that the machine stood still since the last call, or None."""
        longest, self._longest = self._longest, 0.0
        return longest if longest > STANDSTILL else None


def _text(path, most=4000):
    try:
        return pathlib.Path(path).read_text(errors="replace")[-most:].strip()
    except OSError as error:
        return f"({error.strerror})"


def report():
    """Every thread of mvm with where it waits, the daemon's last lines, the consoles' ends, and the kernel's own."""
    lines = ["---- who waits for what ----"]
    for comm in sorted(glob.glob("/proc/[0-9]*/task/[0-9]*/comm")):
        task = os.path.dirname(comm)
        if "mvm" not in _text(os.path.join(task, "../../cmdline")):
            continue
        words = _text(task + "/stat").rpartition(")")[2].split()
        lines.append(f"{task[6:]} {_text(comm)} {words[0] if words else '?'} {_text(task + '/wchan')} {_text(task + '/syscall')}")
        lines.append("    " + _text(task + "/stack").replace("\n", "\n    "))
    data = os.environ["MVM_DATA_DIR"]
    for path in [data + "/daemon.log", *glob.glob(data + "/sandboxes/*/console.log")]:
        lines += [f"---- the end of {path} ----", _text(path, 2000)]
    kernel = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace", timeout=30, check=False)
    lines += ["---- the end of the kernel's log ----", kernel.stdout[-3000:]]
    return "\n".join(lines)
