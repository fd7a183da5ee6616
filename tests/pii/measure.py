#!/usr/bin/env python3
"""Precision and recall of the detectors on the generated corpus, and false finds in source code.

  measure.py FINDER [DOCUMENTS] [--show] [--check]   prints one JSON object of the figures pii.*
--show lists each class and some of what was missed or wrong; --check fails where a figure is short, or a class or one of its forms is
(BOUNDS). FINDER is tests/pii/find.cc.
"""
import collections
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import clean_code  # noqa: E402
import corpus  # noqa: E402
import values  # noqa: E402

CHECKED = {"card", "iban", "us_ssn", "us_itin", "uk_nino", "uk_nhs", "national_id", "bank_routing", "vin", "crypto_address"}
OTHERS = {"email", "phone", "ipv4", "ipv6", "mac", "coordinates", "birth_date", "passport", "driving_licence", "jwt", "private_key", "api_key",
          "high_entropy"}
# What each class has to reach by itself, precision and recall alike; and of what share of its values each form of one (a country's
# phone numbers, as it writes them or with +; a country's identity numbers) has to be found. None may be missing from the documents.
BOUNDS = {"checked": 0.98, "other": 0.95, "form": 0.8}
FORMS = {"phone": {region + how for region in values.PHONES for how in ("", " national")}, "national_id": set(values.Source.NATIONAL)}


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


class Tally:
    """Of classes, and of (class, form)."""
    def __init__(self):
        self.right, self.missed, self.wrong = collections.Counter(), collections.Counter(), collections.Counter()
        self.examples = collections.defaultdict(list)

    def add(self, text, labels, finds):
        for label in labels:
            found = any(same(label, one) for one in finds)
            (self.right if found else self.missed).update([label[0], (label[0], label[3])])
            if not found:
                self.examples[f"missed {label[0]} {label[3]}"].append(text[max(0, label[1] - 30):label[1] + label[2] + 8])
        for one in finds:
            if not any(same(label, one) for label in labels):
                self.wrong[one[0]] += 1
                self.examples["wrong " + one[0]].append(text[max(0, one[1] - 30):one[1] + one[2] + 8])

    def precision(self, kinds):
        right, wrong = (sum(c[k] for k in kinds) for c in (self.right, self.wrong))
        return right / max(1, right + wrong)

    def recall(self, kinds):
        right, missed = (sum(c[k] for k in kinds) for c in (self.right, self.missed))
        return right / max(1, right + missed)

    def faults(self):
        for kind in sorted(CHECKED | OTHERS):
            bound = BOUNDS["checked" if kind in CHECKED else "other"]
            for name, value in (("precision", self.precision([kind])), ("recall", self.recall([kind]))):
                if value < bound:
                    yield f"{kind}: {name} is {value:.4f}, which is below {bound}"
        for kind, forms in FORMS.items():
            for form in sorted(forms):
                if self.recall([(kind, form)]) < BOUNDS["form"]:
                    yield f"{kind} {form}: {self.right[kind, form]} found, {self.missed[kind, form]} missed"

    def show(self):
        for kind in sorted(CHECKED | OTHERS):
            print(f"{kind:16} right {self.right[kind]:6} missed {self.missed[kind]:5} wrong {self.wrong[kind]:5}")
        for kind, forms in FORMS.items():
            print(f"{kind}:", ", ".join(f"{form} {self.right[kind, form]}/{self.right[kind, form] + self.missed[kind, form]}" for form in sorted(forms)))
        for name in sorted(self.examples):
            for text in self.examples[name][:6]:
                print(f"  {name}: {text!r}")


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    finder, count = arguments[0], int(arguments[1]) if len(arguments) > 1 else 20000
    documents = corpus.corpus(count)
    tally = Tally()
    for (text, labels), finds in zip(documents, find(finder, [text for text, _ in documents])):
        tally.add(text, labels, finds)
    figures = {}
    for name, kinds in (("checksum", CHECKED), ("other", OTHERS)):
        figures[f"pii.{name}.precision"] = round(tally.precision(kinds), 4)
        figures[f"pii.{name}.recall"] = round(tally.recall(kinds), 4)
    code = clean_code.Code()
    false = code.false_finds(find(finder, code.texts))
    figures["pii.false_per_mib_code"] = round(len(false) / code.mebibytes, 3)
    if "--show" in sys.argv:
        tally.show()
        for _, path, kind, text, line in false:
            print("  code", path, kind, text, line)
        print(f"{count} documents, {sum(len(t) for t, _ in documents)} bytes; code: {code.told(false)}")
    print(json.dumps(figures))
    if "--check" in sys.argv:
        bounds = json.loads((pathlib.Path(__file__).resolve().parents[1] / "bench/figures.json").read_text())
        faults = list(tally.faults())
        for name, value in figures.items():
            bound = bounds[name]
            if value < bound.get("at_least", value) or value > bound.get("at_most", value):
                faults.append(f"{name} is {value}, which is not {bound}")
        if faults:
            sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
