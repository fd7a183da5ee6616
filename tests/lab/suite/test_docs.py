"""The commands that the documentation shows."""
import os
import pathlib
import re
import subprocess
import tempfile

from harness import MVM, ROOT, Failed, equal, expect, has, mvm

# What tests/lab/lab-suite has done already, at the host's own speed.
PREPARED = ["export MVM_KERNEL=$(scripts/get-distribution-kernel)", "mvm image import $(scripts/build-base-image) base"]


def test_the_tour_of_the_readme():
    tour = re.search(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    lines = [re.sub(r"\s+#.*", "", line)[2:] for line in tour.splitlines()]
    equal(lines[:2], PREPARED)
    expect(len(lines) > 8, "the tour has become short")
    shown = {}
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(MVM, folder + "/mvm")
        pathlib.Path(folder, "agent.py").write_text("print('from the agent')\n")
        environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"],
                       "MVM_KERNEL": os.environ["MVM_DISTRIBUTION_KERNEL"]}
        try:
            for line in lines[2:]:
                command = ["bash", "-c", line]
                if line.startswith("mvm shell"):  # wants a terminal
                    command = ["script", "-qec", line, "/dev/null"]
                done = subprocess.run(command, cwd=folder, env=environment, input=b"exit\n" if "shell" in line else b"",
                                      capture_output=True, timeout=120)
                shown[line] = done.stdout.decode()
                if done.returncode != 0:
                    raise Failed(f"{line}: exit {done.returncode}: {done.stderr.decode()}{done.stdout.decode()}")
        finally:
            mvm("rm", "--force", "agent-sandbox")
    has(shown["mvm exec agent-sandbox -- python3 /work/agent.py"], "from the agent")
    has(shown["echo 'hello' | mvm exec -i agent-sandbox -- tr a-z A-Z"], "HELLO")
    has(shown["mvm ps"], "agent-sandbox")
    has(shown["mvm run base -- python3 -c 'print(6 * 7)'"], "42")
