"""Runs benchmarks and judges them against tests/bench/figures.json (scripts/bench is the way in).

Figures of the host are measured here; those that need guests by lab_bench.py in one lab start. Where this machine's KVM can
run a guest the lab is not needed, and is not used.
"""
import fnmatch
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import egress
import images

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MVM = ROOT / "build/release/src/mvm"


def first_kvm_run(rounds):
    """Milliseconds from process start to the first KVM_RUN, the median of the program's rounds."""
    program = ROOT / "build/release/tests/bench/first_kvm_run"
    kernel = pathlib.Path(os.environ["MVM_KERNEL"], "vmlinux")
    monitor = ROOT / "build/release/src/mvm-monitor"
    done = subprocess.run([program, monitor, kernel, str(rounds)], capture_output=True, text=True, timeout=300, check=True)
    return statistics.median(float(line) for line in done.stdout.split())


def relay_vs_splice(rounds, mebibytes):
    """How many times as fast as a plain splice loop the egress proxy's relay is: the median of the rounds."""
    program = ROOT / "build/release/tests/bench/egress_relay"
    done = subprocess.run([program, str(rounds), str(mebibytes)], stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    return statistics.median(float(line) for line in done.stdout.split())


def detectors(wanted, smoke):
    """Throughput of the detectors, and how right they are on the generated documents."""
    values = {}
    if any(name.startswith("scan.") for name in wanted):
        program = [ROOT / "build/release/tests/bench/pii_scan", "0" if smoke else "3"]
        values.update(json.loads(subprocess.run(program, capture_output=True, text=True, timeout=600, check=True).stdout))
    if any(name.startswith("pii.") for name in wanted):
        # Debian's Python: it has the libraries that are the oracles.
        program = ["/usr/bin/python3", ROOT / "tests/pii/measure.py", ROOT / "build/release/tests/pii_find", "600" if smoke else "20000"]
        values.update(json.loads(subprocess.run(program, capture_output=True, text=True, timeout=900, check=True).stdout))
    return values


def protection(wanted, smoke):
    """What looking into an exchange costs, and whether tokens come back as what they stand for, and nothing else does."""
    program = [ROOT / "build/release/tests/bench/protect_filters", "0" if smoke else "1"]
    values = json.loads(subprocess.run(program, capture_output=True, text=True, timeout=600, check=True).stdout)
    if {"protect.roundtrip", "protect.restored_other"} & set(wanted):
        tests = "RoundTrip.ExactTokensComeBackAndNothingElse:RoundTrip.SoTheyDoOverHttp2"
        program = [ROOT / "build/release/tests/privacy_test", f"--gtest_filter={tests}"]
        told = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False).stdout
        found = re.findall(r"protect.roundtrip over HTTP/[12]: exact (\d+) restored (\d+) other (\d+)", told)
        if len(found) == 2:
            exact, restored, other = (sum(int(each[i]) for each in found) for i in range(3))
            values["protect.roundtrip"] = restored / exact
            values["protect.restored_other"] = other
    return values


def in_lab(names, rounds):
    work = pathlib.Path(os.environ["MVM_BENCH_WORK"])
    command = [sys.executable, str(HERE / "lab_bench.py"), str(rounds), str(work / "out"), *names]
    if subprocess.run([MVM, "doctor", "--only", "kvm"], capture_output=True, check=False).returncode != 0:
        command = [str(ROOT / "tests/lab/lab"), "run", "--timeout", "3000", "--memory", "6144", "--writable", str(work / "out"),
                   "--", *command]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return json.loads((work / "out/figures.json").read_text())


def main():
    arguments = sys.argv[1:]
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else "*"
    smoke, as_json = "--smoke" in arguments, "--json" in arguments
    bounds = json.loads((HERE / "figures.json").read_text())
    wanted = [name for name in bounds if fnmatch.fnmatch(name, only)]
    if not wanted:
        sys.exit(f"bench: no figure is called {only!r}; there are: {', '.join(bounds)}")
    values = {}
    if "start.first_kvm_run" in wanted:
        values["start.first_kvm_run"] = first_kvm_run(1 if smoke else 41)
    if "egress.relay_vs_splice" in wanted:
        values["egress.relay_vs_splice"] = relay_vs_splice(1 if smoke else 11, 64 if smoke else 1024)
    values.update(egress.measure(wanted, 1 if smoke else 5, smoke))
    if "build.unchanged" in wanted:
        program = [ROOT / "build/release/tests/bench/build_unchanged", MVM, "1" if smoke else "21"]
        values["build.unchanged"] = float(subprocess.run(program, stdout=subprocess.PIPE, text=True, timeout=600, check=True).stdout)
    values.update(detectors(wanted, smoke))
    if any(name.startswith("protect.") for name in wanted):
        values.update(protection(wanted, smoke))
    of_images = [name for name in wanted if name.startswith(("oci.", "image."))]
    if of_images:
        values.update(images.measure(MVM, of_images, 1 if smoke else 3, smoke))
    here = ("start.first_kvm_run", "egress.", "net.up", "net.down", "net.setup", "scan.", "pii.", "protect.", "oci.", "image.", "build.")
    guests = [name for name in wanted if not name.startswith(here) and not ("msb" in name and "MVM_BENCH_NO_MSB" in os.environ)]
    if guests:
        values.update(in_lab(guests, 1 if smoke else 5))

    short = False
    for name in wanted:
        kind = "at_least" if "at_least" in bounds[name] else "at_most"
        bound, value = bounds[name][kind], values.get(name)
        if value is None:
            verdict = "not run" if smoke else "short"
        else:
            kept = value >= bound if kind == "at_least" else value <= bound
            verdict = "ok" if smoke or kept else "short"
        short = short or verdict == "short"
        row = {"name": name, "value": value, "unit": bounds[name]["unit"], kind: bound, "verdict": verdict}
        if as_json:
            print(json.dumps(row))
        else:
            shown = "none" if value is None else f"{value:.4g}"
            print(f"{name:24} {shown:>10} {row['unit']:6} {kind.replace('_', ' '):8} {bound:<6} {verdict}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
