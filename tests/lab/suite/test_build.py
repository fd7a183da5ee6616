"""Flakes, built by Nix in the builder, which all of these share."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import tempfile

from harness import MVM, eventually, equal, expect, has, mvm, ok, start

STAND_IN = os.environ.get("MVM_NIX_STAND_IN", "")
NIX = pathlib.Path(__file__).resolve().parents[3] / "nix"
# A small one: the lab's memory is its guests'.
BUILDER = {"MVM_BUILDER_MEM": "768M", "MVM_BUILDER_CPUS": "1", "MVM_BUILDER_DISK": "4G", "MVM_BUILDER_NETWORK": "none"}


@contextlib.contextmanager
def flake(text):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "flake.nix").write_text(text)
        for name in ("bash-static", "busybox"):
            shutil.copy(pathlib.Path(STAND_IN, "bin", name), folder)
        yield folder


# Derivations of nothing but a static shell: `made NAME SCRIPT`.
PLAIN = """{
  outputs = { self }:
    let made = name: script: derivation {
      inherit name; system = "x86_64-linux"; builder = ./bash-static;
      args = [ "-euc" "box() { (exec -a busybox ${./busybox} \\"$@\\"); }\\n${script}" ];
    };
    in { packages.x86_64-linux = { %s }; };
}
"""


def build(folder, *args, **options):
    return mvm("build", folder, *args, env=BUILDER, timeout=400, **options)


def test_a_guest_made_by_mkguest_boots_and_is_not_built_twice():
    with flake("""{
      inputs.mvm.url = "path:./mvm";
      inputs.nixpkgs.url = "path:./nixpkgs";
      outputs = { self, mvm, nixpkgs }: {
        packages.x86_64-linux.default = mvm.lib.mkGuest {
          pkgs = nixpkgs.legacyPackages.x86_64-linux;
          name = "greeter";
          user = "agent";
          env.GREETING = "hello from a flake";
          files."/etc/greeter.conf" = { text = "quiet\n"; mode = "0640"; uid = 1000; gid = 1000; };
          services.clock = "echo clock is running >/tmp/clock";
          entrypoint = "while [ ! -s /tmp/clock ]; do sleep 0.1; done; echo $GREETING as $(id -un) in $PWD; cat /tmp/clock";
        };
      };
    }""") as folder:
        shutil.copytree(NIX, folder + "/of-mvm")
        overrides = ("--override-input", f"mvm={folder}/of-mvm", "--override-input", f"nixpkgs={STAND_IN}",
                     "--override-input", f"mvm/nixpkgs={STAND_IN}")
        first = build(folder, "--name", "greeter", "--json", "-v", *overrides)
        equal(first.code, 0, repr(first))
        equal(json.loads(first.out)["unchanged"], False)
        ran = mvm("run", "greeter", "--memory", "256M")
        has(ran.out, "hello from a flake as agent in /home/agent")
        has(ran.out, "clock is running")
        ok("down", "mvm-builder")
        again = build(folder, "--name", "again", "--json", *overrides)
        equal(again.code, 0, repr(again))
        equal(json.loads(again.out)["unchanged"], True)
        equal(json.loads(again.out)["image"]["digest"], json.loads(first.out)["image"]["digest"])
        equal(json.loads(ok("builder", "status", "--json").out)["sandbox"]["state"], "stopped")
