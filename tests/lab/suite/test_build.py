"""Flakes, built by Nix in the builder, which all of these share."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import tempfile

import oci
from terminal import on_terminal
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
    """By the builder's image as an OCI image, pinned."""
    pinned = json.loads(ok("image", "inspect", "mvm-builder", "--json").out)["digest"]
    return mvm("build", folder, *args, env={**BUILDER, "MVM_BUILDER_IMAGE": pinned}, timeout=400, **options)


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


GUEST = r"""default = made "small" ''
  box mkdir $out
  echo '{"mvm":1,"root":"${made "small-root" "box mkdir $out $out/bin $out/proc $out/sys $out/dev $out/tmp; box cp ${./busybox} $out/bin/sh; box chmod 755 $out/bin/sh"}"}' >$out/image.json
'';"""


def processes_of_nix():
    return ok("exec", "mvm-builder", "--", "sh", "-c", "cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^nix' || true").out.strip()


def test_a_build_is_ended_by_an_interrupt_and_the_one_that_waits_is_next():
    with flake(PLAIN % 'default = made "endless" "echo it runs; while :; do :; done";') as endless, flake(PLAIN % GUEST) as small:
        first = start("build", endless, "-v", env={**os.environ, **BUILDER})
        said = ""
        while "it runs" not in said:
            line = first.stderr.readline().decode()
            expect(line, f"the build ended: {said}")
            said += line
        second = start("build", small, "--name", "small", "--json", env={**os.environ, **BUILDER})
        has(second.stderr.readline().decode(), f"waiting for another build to end (process {first.pid})")
        has(ok("builder", "status").out, f"building for process {first.pid}")
        first.send_signal(signal.SIGINT)
        equal(first.wait(60), 130)
        out, err = second.communicate(timeout=200)
        equal(second.returncode, 0, err.decode())
        equal(json.loads(out)["unchanged"], False)
        eventually(lambda: processes_of_nix() == "0", "the build inside has ended")


def test_what_goes_wrong_is_explained():
    with flake(PLAIN % ("""
        failing = made "failing" "echo the last words; exit 3";
        wrong = made "wrong" (1 + "a");
        fetching = derivation {
          name = "got"; system = "builtin"; builder = "builtin:fetchurl"; url = "http://example.org/x";
          outputHashMode = "flat"; outputHashAlgo = "sha256"; outputHash = "%s";
        };""" % ("0" * 64))) as folder:
        got = build(folder, "--flake", ".#failing")
        equal(got.code, 1, repr(got))
        has(got.err, "the last words")
        has(got.err, "nix log /nix/store/")
        got = build(folder, "--flake", ".#wrong")
        equal(got.code, 1, repr(got))
        has(got.err, f"{folder}/flake.nix:9:")
        got = build(folder, "--flake", ".#fetching")
        equal(got.code, 1, repr(got))
        has(got.err, "the builder's network refused: example.org")
        got = build(folder, "--flake", ".#failing", "--timeout", "1ms")
        equal(got.code, 124, repr(got))


def test_up_builds_what_the_manifest_names_with_its_kernel():
    # The image's kernel is a copy of the lab's; that it is its own can be seen by its name.
    with flake(PLAIN % GUEST.replace('"mvm":1', '"mvm":1,"kernel":"${./kernel}"')) as folder:
        shutil.copytree(os.environ["MVM_KERNEL"], folder + "/kernel")
        pathlib.Path(folder, "mvm.toml").write_text(f'name = "built"\nflake = "{folder}"\nmem = "128M"\nworkdir = "/"\n')
        up = mvm("up", "-f", folder + "/mvm.toml", env={**BUILDER, "MVM_KERNEL": ""}, timeout=300)
        equal(up.code, 0, repr(up))
        equal(ok("exec", "built", "--", "/bin/sh", "-c", "echo from a flake").out, "from a flake\n")
        equal(json.loads(ok("inspect", "built", "--json").out)["image"], "built")
        own = json.loads(ok("image", "inspect", "built", "--json").out)["kernel"]
        expect(re.fullmatch(r"tuned-.*-[0-9a-f]{16}", own), own)
        equal(json.loads(ok("inspect", "built", "--json").out)["kernel"], own)
        has(mvm("kernel", "rm", own).err, "image built")
    ok("rm", "-f", "built")
    ok("image", "rm", "built")
    ok("kernel", "rm", own)


def test_the_builder_is_made_anew_around_its_store():
    # There is garbage in it.
    collected = ok("builder", "gc", timeout=300, env={**BUILDER, "MVM_BUILDER_MEM": "800M"})
    has(collected.err, "made anew, around its store; changed: mem\n")
    expect(int(re.search(r"(\d+) store paths deleted", collected.out).group(1)) > 0, repr(collected))
    # The last build of each name is none.
    kept = ok("exec", "mvm-builder", "--", "sh", "-c", "grep -l '\"mvm\":1' /nix/var/nix/gcroots/mvm/*/image.json | wc -l").out
    expect(int(kept) >= 3, f"{kept} builds are left")
    expect(json.loads(ok("builder", "status", "--json").out)["disk_used"] > 0, "the builder's disk takes nothing")


def test_its_shell_has_a_terminal_where_there_is_one():
    with on_terminal("builder", "shell") as sitting:
        sitting.type("[ -t 0 ] && grep ' /nix ' /proc/mounts; echo it is $((6 * 7))\n")
        sitting.wait_for("/dev/vdc /nix ext4 rw")
        sitting.wait_for("it is 42")
        sitting.type("exit 7\n")
        equal(sitting.code(), 7)
    piped = mvm("builder", "shell", stdin=b"[ -t 0 ] || echo $((6 * 7)); exit 3\n")
    equal((piped.code, piped.out), (3, "42\n"), repr(piped))


def test_an_image_with_a_store_of_its_own_begins_the_disk_with_it():
    with tempfile.TemporaryDirectory() as folder:
        oci.layout(folder, {"bin/sh": ("/nix/store/tools/busybox", 0o777, 0)}, {"Env": ["PATH=/bin"]}, "nix/store/tools/busybox")
        ok("image", "import", folder, "own-store")
    own = {**BUILDER, "MVM_BUILDER_IMAGE": "own-store", "MVM_BUILDER_MEM": "256M"}
    # On the disk that another image began, its programs are not.
    refused = mvm("builder", "gc", timeout=200, env=own)
    equal(refused.code, 125, repr(refused))
    has(refused.err, "Nix does not run in the builder of image own-store")
    status = json.loads(ok("builder", "status", "--json").out)
    equal(status["sandbox"], None)
    expect(status["disk_used"] > 0, "the store is gone")
    ok("builder", "reset")
    equal(json.loads(ok("builder", "status", "--json").out)["disk_used"], 0)
    try:
        shell = mvm("builder", "shell", stdin=b"busybox stat -c %a /nix/store/tools/busybox; exit 0\n", env=own)
        equal((shell.code, shell.out), (0, "755\n"), repr(shell))
    finally:
        ok("builder", "reset")
        ok("image", "rm", "own-store")
