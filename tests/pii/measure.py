#!/usr/bin/env python3
"""Precision and recall of the detectors on the generated corpus, and false finds in source code.

  measure.py FINDER [DOCUMENTS] [--show] [--check]   prints one JSON object of the figures pii.*
--show lists each class and some of what was missed or wrong; --check fails where a figure is short. FINDER is tests/pii/find.cc.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import corpus  # noqa: E402

CHECKED = {"card", "iban", "us_ssn", "us_itin", "uk_nino", "uk_nhs", "national_id", "bank_routing", "vin", "crypto_address"}


def find(finder, documents):
    data = b"".join(b"%d\n" % len(text) + text for text in documents)
    out = subprocess.run([finder], input=data, capture_output=True, check=True, timeout=600).stdout.decode()
    found = [[] for _ in documents]
    for line in out.splitlines():
        index, kind, start, length = line.split()
        found[int(index)].append((kind, int(start), int(length)))
    return found


def same(one, other):
    """The same class, and nearly the same bytes: a parenthesis more or less is no fault."""
    start, end = max(one[1], other[1]), min(one[1] + one[2], other[1] + other[2])
    return one[0] == other[0] and end - start >= 0.8 * max(one[2], other[2])


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    finder, count = arguments[0], int(arguments[1]) if len(arguments) > 1 else 20000
    documents = corpus.corpus(count)
    found = find(finder, [text for text, _ in documents])
    hit, missed, wrong = collections.Counter(), collections.Counter(), collections.Counter()
    examples = collections.defaultdict(list)
    for (text, labels), finds in zip(documents, found):
        for label in labels:
            if any(same(label, one) for one in finds):
                hit[label[0]] += 1
            else:
                missed[label[0]] += 1
                examples["missed " + label[0]].append(text[max(0, label[1] - 30):label[1] + label[2] + 8])
        for one in finds:
            if not any(same(label, one) for label in labels):
                wrong[one[0]] += 1
                examples["wrong " + one[0]].append(text[max(0, one[1] - 30):one[1] + one[2] + 8])
    figures = {}
    for name, kinds in (("checksum", CHECKED), ("other", set(hit) | set(missed) | set(wrong) - CHECKED)):
        kinds = kinds - CHECKED if name == "other" else kinds
        right, lost, bad = (sum(c[k] for k in kinds) for c in (hit, missed, wrong))
        figures[f"pii.{name}.precision"] = round(right / max(1, right + bad), 4)
        figures[f"pii.{name}.recall"] = round(right / max(1, right + lost), 4)
    # Debian's own Python sources; lines that name a real person or host are left out by other means than the detectors'.
    code, size = [], 0
    for path in sorted(pathlib.Path("/usr/lib/python3.11").glob("*.py")):
        lines = [line for line in path.read_bytes().splitlines(True) if b"@" not in line and b"://" not in line and line.count(b".") < 3 and line.count(b":") < 4
                 and not re.search(rb"\b[0-9a-f]{1,4}::", line)]
        code.append(b"".join(lines))
        size += len(code[-1])
    in_code = find(finder, code)
    figures["pii.false_per_mib_code"] = round(sum(map(len, in_code)) / (size / 2**20), 3)
    if "--show" in sys.argv:
        for kind in sorted(set(hit) | set(missed) | set(wrong)):
            print(f"{kind:16} right {hit[kind]:6} missed {missed[kind]:5} wrong {wrong[kind]:5}")
        for name in sorted(examples):
            for text in examples[name][:6]:
                print(f"  {name}: {text!r}")
        for text, finds in zip(code, in_code):
            for one in finds:
                print("  code", one[0], text[max(0, one[1] - 20):one[1] + one[2] + 10])
        print(f"{count} documents, {sum(len(t) for t, _ in documents)} bytes, {sum(hit.values()) + sum(missed.values())} values; {size} bytes of code")
    print(json.dumps(figures))
    if "--check" in sys.argv:
        bounds = json.loads((pathlib.Path(__file__).resolve().parents[1] / "bench/figures.json").read_text())
        for name, value in figures.items():
            bound = bounds[name]
            if value < bound.get("at_least", value) or value > bound.get("at_most", value):
                sys.exit(f"{name} is {value}, which is not {bound}")


if __name__ == "__main__":
    main()
