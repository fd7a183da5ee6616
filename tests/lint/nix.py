#!/usr/bin/env python3
"""Checks that nix/package.nix and the dev shell have what CMake looks for, and that nothing needs glibc alone: they are built
with musl, where no test of ours runs."""
import pathlib
import re
import sys

# What CMake calls a library: what nixpkgs calls the package that it is in. "" is in every compiler.
PACKAGES = {
    "PkgConfig": "pkg-config", "Threads": "", "OpenSSL": "openssl", "nlohmann_json": "nlohmann_json", "GTest": "gtest",
    "sqlite3": "sqlite", "liburing.a": "liburing", "archive": "libarchive", "z": "zlib", "lzma": "xz", "bz2": "bzip2",
    "zstd": "zstd", "nghttp2": "nghttp2", "brotlienc": "brotli", "brotlidec": "brotli", "brotlicommon": "brotli", "re2": "re2",
    "nl-3": "libnl", "nl-route-3": "libnl", "libnl-3.0": "libnl",
}
# Header-only ones, which no line of CMake names.
HEADERS = {"CLI/": "cli11", "toml++/": "tomlplusplus", "spdlog/": "spdlog", "fmt/": "fmt"}
LOOKED_FOR = re.compile(r"^\s*(?:find_package\((\S+)|find_library\(\S+ (\S+)|pkg_check_modules\(\S+ REQUIRED (\S+?)\))", re.M)
GLIBC_ALONE = re.compile(r"::(renameat2|sigabbrev_np|sigdescr_np|strerrorname_np|strerrordesc_np|get_current_dir_name|"
                         r"canonicalize_file_name|gnu_get_libc_version|malloc_trim|mallinfo2?|backtrace|fopencookie|qsort_r)\b")


def needed(root: pathlib.Path) -> dict[str, str]:
    """Package: who needs it."""
    out = {}
    for path in [root / "CMakeLists.txt", *root.glob("*/CMakeLists.txt"), *root.glob("tests/*/CMakeLists.txt")]:
        for match in LOOKED_FOR.finditer(path.read_text()):
            name = next(group for group in match.groups() if group)
            if name not in PACKAGES:
                sys.exit(f"{path}: {name}: which package of nixpkgs has it? (tests/lint/nix.py)")
            if PACKAGES[name]:
                out.setdefault(PACKAGES[name], f"{path.relative_to(root)} looks for {name}")
    for path in sorted(root.glob("src/**/*.[hc]*")):
        text = path.read_text()
        for prefix, package in HEADERS.items():
            if f"#include <{prefix}" in text:
                out.setdefault(package, f"{path.relative_to(root)} includes {prefix}")
    return out


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    bad = []
    package = (root / "nix/package.nix").read_text()
    arguments = set(re.findall(r"[\w-]+", package[package.index("{") + 1:package.index("}")])) - {"stdenv"}
    body = package[package.index("}") + 1:]
    inputs = {name for text in re.findall(r"[iI]nputs = \[([^]]*)\]", body) for name in text.split()}
    shell = (root / "nix/flake.nix").read_text().partition("devShells")[2]
    for name, why in needed(root).items():
        if name == "gtest":  # -DMVM_TESTS=OFF
            if not re.search(r"\bgtest\b", shell):
                bad.append(f"nix/flake.nix: the dev shell lacks {name}: {why}")
        elif name not in inputs:
            bad.append(f"nix/package.nix lacks {name}: {why}")
    bad += [f"nix/package.nix: {name} is an input and no argument" for name in sorted(inputs - arguments)]
    bad += [f"nix/package.nix: {name} is an argument and no input" for name in sorted(arguments - inputs)]
    if "-DMVM_TESTS=OFF" not in package:
        bad.append("nix/package.nix builds the tests, whose libraries it has not")
    if "inputsFrom" not in shell or "pkgsStatic" not in shell:
        bad.append("nix/flake.nix: the dev shell does not take the package's inputs, static ones")
    for path in [*root.glob("src/**/*.cc"), *root.glob("guest-agent/*.cc"), *root.glob("include/**/*.h")]:
        guarded = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("#ifdef __GLIBC__"):
                guarded = True
            elif line.startswith(("#else", "#endif")):
                guarded = False
            elif not guarded and (match := GLIBC_ALONE.search(line)):
                bad.append(f"{path.relative_to(root)}:{number}: {match.group(1)} is glibc's alone")
    print("\n".join(bad) or "nix: all is there")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
