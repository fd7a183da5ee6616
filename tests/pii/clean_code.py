"""Source code that Debian's packages bring, and what of the finds in it is no find: for pii.false_per_mib_code.

C and C++ headers, JavaScript and Python, as far as they are installed here; each content once. A find is judged right
  - where it is an email address: those of authors and lists, and those of examples, are ones. Right is what reads NAME@HOST with a
    host whose last label is one of TOPS, a copy of the domains that the code's authors have;
  - where code_values.txt lists it: a line CLASS VALUE, each looked at in its place and being what the class says.
Every other find is false. No file and no line is left out.
"""
import collections
import pathlib
import re

PLACES = [
    ("C", ["/usr/include/linux", "/usr/include/c++", "/usr/include/openssl", "/usr/include/gtest", "/usr/include/google", "/usr/include/nlohmann",
           "/usr/include/spdlog", "/usr/include/x86_64-linux-gnu", "/usr/include"], re.compile(r"\.(h|hh|hpp|tcc)$|/c\+\+/.*/[a-z_]+$")),
    ("JavaScript", ["/usr/lib/node_modules", "/usr/share/nodejs"], re.compile(r"\.[cm]?js$")),
    ("Python", ["/usr/lib/python3.11", "/usr/lib/python3/dist-packages"], re.compile(r"\.py$")),
]
TOPS = set("""com org net edu gov int biz info de fr uk au us ca ch at it es pt pl cz sk si hu ro ru ua jp kr cn in hk tw nz za br il tr fi se no
    dk is ie nl be lu li lt lv ee gr su eu io co me so cx sh dev app xxx ms mil nu tv""".split())
EMAIL = re.compile(rb"[\w.+%=/-]+@(?:[A-Za-z0-9-]+\.)+([A-Za-z]{2,})")


class Code:
    def __init__(self):
        self.paths, self.texts, self.languages, self.sizes, seen = [], [], [], collections.Counter(), set()
        for language, folders, names in PLACES:
            for folder in folders:
                for path in sorted(pathlib.Path(folder).rglob("*")):
                    if not names.search(str(path)) or not path.is_file():
                        continue
                    text = path.read_bytes()
                    if text in seen:
                        continue
                    seen.add(text)
                    self.paths.append(path)
                    self.texts.append(text)
                    self.languages.append(language)
                    self.sizes[language] += len(text)
        lines = (pathlib.Path(__file__).resolve().parent / "code_values.txt").read_text().splitlines()
        self.values = {tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")}

    @property
    def mebibytes(self):
        return max(1, sum(self.sizes.values())) / 2**20

    def told(self, false):
        counts = collections.Counter(language for language, *_ in false)
        return ", ".join(f"{counts[language]} in {size / 2**20:.1f} MiB of {language}" for language, size in self.sizes.items())

    def right(self, kind, text):
        if kind == "email":
            match = EMAIL.fullmatch(text)
            return match is not None and match[1].decode().lower() in TOPS
        return (kind, text.decode(errors="replace")) in self.values

    def false_finds(self, found):
        false = []
        for language, path, text, finds in zip(self.languages, self.paths, self.texts, found):
            for kind, start, length in finds:
                value = text[start:start + length]
                if not self.right(kind, value):
                    begin = max(text.rfind(b"\n", 0, start) + 1, start - 60)
                    false.append((language, str(path), kind, value, text[begin:start + length + 40].split(b"\n")[0]))
        return false
