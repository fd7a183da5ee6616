"""Every guest kernel that is at hand: it boots, and what passes through vsock and block devices arrives unchanged."""
import hashlib
import os
import random

from harness import equal, expect, guest, has, mvm, ok, sandbox

BYTES = random.Random(5252).randbytes(4 << 20)
SUM = hashlib.sha256(BYTES).hexdigest()


def works(kernel, release):
    with sandbox("kernel", "--kernel", kernel):
        has(guest("kernel", "uname -r"), release)
        # In and out again through one stream of the vsock device each way.
        echoed = mvm("exec", "-i", "kernel", "--", "cat", stdin=BYTES)
        equal((echoed.code, hashlib.sha256(echoed.raw).hexdigest()), (0, SUM), "through vsock, both ways")
        # To the disk, out of the page cache, and back from the disk.
        stored = mvm("exec", "-i", "kernel", "--", "sh", "-c",
                     "cat >/root/data && sync && echo 3 >/proc/sys/vm/drop_caches && sha256sum </root/data", stdin=BYTES)
        equal((stored.code, stored.out.split()[0]), (0, SUM), "through the writable disk")
        # The read-only image twice, the second time not from the cache: the same bytes.
        sums = guest("kernel", "sha() { cat /usr/bin/* 2>/dev/null | sha256sum; }; sha; echo 3 >/proc/sys/vm/drop_caches; sha")
        equal(len(set(sums.split("\n"))), 1, f"through the image's disk: {sums}")
        ok("down", "kernel")


def test_tuned_kernel():
    works(os.environ["MVM_KERNEL"], "6.1.")


def test_distribution_kernel():
    works(os.environ["MVM_DISTRIBUTION_KERNEL"], "cloud-amd64")


def test_tuned_kernel_of_the_next_series():
    """Linux 6.12, where it was built: its source is not in every system's package sources."""
    kernel = os.environ.get("MVM_KERNEL_6_12", "")
    if not kernel:
        print("skipped: no kernel of series 6.12 (scripts/build-guest-kernel --series 6.12 makes one)", flush=True)
        return
    expect(os.path.exists(kernel + "/bundle.json"), kernel)
    works(kernel, "6.12.")
