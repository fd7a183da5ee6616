#!/usr/bin/env python3
"""Checks every #include against the module table that CMake wrote, and heavy third-party headers against their owners."""
import pathlib
import re
import sys

# Where a heavy or privileged third-party header may be included: module, or the folder of a program.
THIRD_PARTY = {
    "nlohmann/": {"json"},
    "CLI/": {"cli"},
    "toml++/": {"config"},
    "spdlog/": {"obs"},
    "nghttp2/": {"http"},
    "openssl/": {"crypto", "registry"},
    "sqlite3.h": {"state"},
    "archive": {"image"},
    "netlink/": {"net"},
    "linux/kvm.h": {"kvm"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def main() -> int:
    root, table = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    uses = {}
    for line in table.read_text().splitlines():
        name, _, deps = line.partition(":")
        uses[name] = set(deps.split())
    bad, files = [], 0
    for base in ("include/mvm", "src"):
        for path in sorted((root / base).rglob("*.[hc]*")):
            module = path.relative_to(root / base).parts[0]
            if module not in uses:
                continue  # src/main.cc and src/role/ build the parts of a process and may use any module
            files += 1
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                header, where = match.group(1), f"{path.relative_to(root)}:{number}"
                if header.startswith("mvm/"):
                    other = header.split("/")[1]
                    if other != module and other not in uses[module]:
                        bad.append(f"{where}: {module} includes mvm/{other}/ but does not list it in USES")
                for prefix, owners in THIRD_PARTY.items():
                    if header.startswith(prefix) and module not in owners:
                        bad.append(f"{where}: <{header}> belongs to {', '.join(sorted(owners))} only")
    for line in bad:
        print(line)
    if files == 0:
        print("layering.py: found no file to check")
        return 1
    print(f"{files} files, {len(bad)} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
