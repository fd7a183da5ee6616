"""Values of every class and things that look like them, drawn from a seeded generator.

Check digits come from python3-stdnum (but those of VINs and wallets, which it has not), phone numbers from python3-phonenumbers,
people and where they live from python3-fake-factory (Debian packages): nothing here knows how the detectors work. A value is (class, text, label key): where the key is not None the text is only what it is beside such a label. A class may
be followed by a "/" and which of its forms this is, for the measure of each.
"""
import base64
import datetime
import hashlib
import importlib
import json
import random
import string
import uuid
import zlib

import faker
import phonenumbers
from phonenumbers import PhoneNumberFormat as Format

WORDS = "amber birch cedar delta ember fjord grove haven indigo juniper kestrel lagoon meadow nimbus orchid pebble".split()
NAMES = "anna ben carla david emma felix greta hugo ines jonas klara luca maria nico olga paul rosa tom uwe vera".split()
SURNAMES = "smith jones mueller rossi garcia dupont silva jansen kowalski tanaka novak olsen costa weber moreau".split()
TOPS = "com org net de fr es it co.uk nl jp io pl com.br ch eu".split()
LOCALES = {"en": "en_US", "de": "de_DE", "fr": "fr_FR", "es": "es_ES", "it": "it_IT", "pt": "pt_PT", "nl": "nl_NL", "ja": "ja_JP"}
PHONES = "US CA GB FR DE ES IT NL BE CH AT SE NO DK PL PT IE AU NZ JP KR CN IN BR MX RU ZA TR IL SG".split()
BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase


class Source:
    def __init__(self, seed):
        self.random, self.decks = random.Random(seed), {}
        self.people = {language: faker.Faker(locale) for language, locale in LOCALES.items()}
        for people in self.people.values():
            people.seed_instance(seed)

    def deal(self, name, items):
        """As pick(), but all of them before one comes again."""
        deck = self.decks.setdefault(name, [])
        if not deck:
            deck.extend(items)
            self.random.shuffle(deck)
        return deck.pop()

    def pick(self, items):
        return self.random.choice(items)

    def digits(self, count):
        return "".join(self.random.choices(string.digits, k=count))

    def chars(self, alphabet, count):
        return "".join(self.random.choices(alphabet, k=count))

    def until(self, draw, valid):
        while True:
            text = draw()
            if valid(text):
                return text

    # ---- classes with a check rule ----
    def card(self):
        def draw():
            prefix, length = self.pick([("4", 16), ("51", 16), ("55", 16), ("2221", 16), ("34", 15), ("37", 15), ("6011", 16), ("3528", 16)])
            return prefix + self.digits(length - len(prefix))
        text = self.until(draw, module("luhn").is_valid)
        form = self.random.random()
        if form < 0.4:
            mark = self.pick([" ", "-"])
            cut = [4, 10] if len(text) == 15 else [4, 8, 12]
            text = mark.join(text[a:b] for a, b in zip([0] + cut, cut + [len(text)]))
        return "card", text, None

    def iban(self):
        lengths = {"DE": "n18", "GB": "a4n14", "FR": "n10c11n2", "NL": "a4n10", "ES": "n20", "BE": "n12", "CH": "n5c12", "PL": "n24", "NO": "n11", "AT": "n16", "PT": "n21", "SE": "n20"}
        country = self.pick(sorted(lengths))
        shape, body = lengths[country], ""
        i = 0
        while i < len(shape):
            kind, i = shape[i], i + 1
            j = i
            while j < len(shape) and shape[j].isdigit():
                j += 1
            body += self.chars({"n": string.digits, "a": string.ascii_uppercase, "c": string.digits + string.ascii_uppercase}[kind], int(shape[i:j]))
            i = j
        text = country + module("iban").calc_check_digits(country + "00" + body) + body
        if self.random.random() < 0.5:
            text = " ".join(text[i:i + 4] for i in range(0, len(text), 4))
        return "iban", text, None

    def ssn(self):
        text = self.until(lambda: f"{self.digits(3)}-{self.digits(2)}-{self.digits(4)}", module("us.ssn").is_valid)
        if self.random.random() < 0.25:
            return "us_ssn", text.replace("-", ""), "ssn"
        return "us_ssn", text, None

    def itin(self):
        return "us_itin", self.until(lambda: f"9{self.digits(2)}-{self.digits(2)}-{self.digits(4)}", module("us.itin").is_valid), None

    def nino(self):
        while True:
            first, second = self.pick("ABCEGHJKLMNOPRSTWXYZ"), self.pick("ABCEGHJKLMNPRSTWXYZ")
            if first + second not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ"):
                break
        number, last = self.digits(6), self.pick("ABCD")
        if self.random.random() < 0.5:
            return "uk_nino", f"{first}{second} {number[:2]} {number[2:4]} {number[4:]} {last}", None
        return "uk_nino", first + second + number + last, None

    def nhs(self):
        text = self.until(lambda: self.pick("467") + self.digits(9), module("gb.nhs").is_valid)
        return "uk_nhs", self.pick([text, f"{text[:3]} {text[3:6]} {text[6:]}"]), "nhs"

    NATIONAL = """ar.cuit au.tfn be.nn br.cnpj br.cpf ca.sin ch.ssn cl.rut cn.ric cz.rc de.idnr es.dni es.nie fi.hetu fr.nir in_.aadhaar in_.pan
        it.codicefiscale kr.rrn mx.curp nl.bsn no.fodselsnummer pl.pesel pt.nif ro.cnp se.personnummer tr.tckimlik za.idnr""".split()

    def national(self):
        d, u = self.digits, string.ascii_uppercase
        date = self.birth()
        short, long = date.strftime("%y%m%d"), date.strftime("%Y%m%d")
        draws = {
            "br.cpf": (lambda: d(11), lambda t: f"{t[:3]}.{t[3:6]}.{t[6:9]}-{t[9:]}", "cpf"),
            "br.cnpj": (lambda: d(8) + "0001" + d(2), lambda t: f"{t[:2]}.{t[2:5]}.{t[5:8]}/{t[8:12]}-{t[12:]}", "cnpj"),
            "es.dni": (lambda: d(8) + self.pick(u), lambda t: t, None),
            "es.nie": (lambda: self.pick("XYZ") + d(7) + self.pick(u), lambda t: t, None),
            "fr.nir": (lambda: self.pick("12") + short[:4] + d(10), lambda t: f"{t[0]} {t[1:3]} {t[3:5]} {t[5:7]} {t[7:10]} {t[10:13]} {t[13:]}", None),
            "de.idnr": (lambda: self.pick("123456789") + d(10), lambda t: t, "tax"),
            "nl.bsn": (lambda: self.pick("123456789") + d(8), lambda t: t, "bsn"),
            "be.nn": (lambda: short + d(5), lambda t: f"{t[:2]}.{t[2:4]}.{t[4:6]}-{t[6:9]}.{t[9:]}", "national"),
            "pl.pesel": (lambda: short + d(5), lambda t: t, "pesel"),
            "se.personnummer": (lambda: short + "-" + d(4), lambda t: t, None),
            "no.fodselsnummer": (lambda: date.strftime("%d%m%y") + d(5), lambda t: f"{t[:6]} {t[6:]}", "national"),
            "fi.hetu": (lambda: date.strftime("%d%m%y") + ("A" if date.year > 1999 else "-") + d(3) + self.pick("0123456789ABCDEFHJKLMNPRSTUVWXY"), lambda t: t, None),
            "cz.rc": (lambda: short + "/" + d(4), lambda t: t, None),
            "pt.nif": (lambda: self.pick("12359") + d(8), lambda t: t, "nif"),
            "ro.cnp": (lambda: ("1" if date.year < 2000 else "5") + short + d(6), lambda t: t, "cnp"),
            "ch.ssn": (lambda: "756" + d(10), lambda t: f"{t[:3]}.{t[3:7]}.{t[7:11]}.{t[11:]}", "ahv"),
            "cn.ric": (lambda: "110105" + long + d(3) + self.pick("0123456789X"), lambda t: t, None),
            "kr.rrn": (lambda: short + "-" + self.pick("1234" if date.year < 2000 else "34") + d(6), lambda t: t, None),
            "za.idnr": (lambda: short + d(4) + self.pick("01") + "8" + d(1), lambda t: t, "national"),
            "tr.tckimlik": (lambda: self.pick("123456789") + d(10), lambda t: t, "tckimlik"),
            "ar.cuit": (lambda: self.pick(["20", "23", "27", "30"]) + d(9), lambda t: f"{t[:2]}-{t[2:10]}-{t[10:]}", "cuit"),
            "cl.rut": (lambda: self.pick("12") + d(7) + self.pick("0123456789K"), lambda t: f"{t[:2]}.{t[2:5]}.{t[5:8]}-{t[8]}", None),
            "in_.aadhaar": (lambda: self.pick("23456789") + d(11), lambda t: f"{t[:4]} {t[4:8]} {t[8:]}", "aadhaar"),
            "in_.pan": (lambda: self.chars(u, 3) + "P" + self.chars(u, 1) + d(4) + self.pick(u), lambda t: t, None),
            "it.codicefiscale": (None, lambda t: t, None),
            "ca.sin": (lambda: self.pick("1234567") + d(8), lambda t: f"{t[:3]}-{t[3:6]}-{t[6:]}", "sin"),
            "au.tfn": (lambda: self.pick("123456789") + d(8), lambda t: f"{t[:3]} {t[3:6]} {t[6:]}", "tfn"),
            "mx.curp": (None, lambda t: t, None),
        }
        name = self.deal("national", self.NATIONAL)
        draw, shaped, label = draws[name]
        if name == "it.codicefiscale":
            base = self.chars("BCDFGLMNPRSTVZ", 6) + short[:2] + self.pick("ABCDEHLMPRST") + f"{date.day:02d}" + "H501"
            return "national_id/" + name, base + module("it.codicefiscale").calc_check_digit(base), None
        if name == "mx.curp":
            base = self.chars("BCDFG", 1) + "A" + self.chars("BCDFG", 2) + short + self.pick("HM") + "DF" + self.chars("BCDFG", 3) + ("0" if date.year < 2000 else "A")
            return "national_id/" + name, base + module("mx.curp").calc_check_digit(base), None
        text = self.until(draw, module(name).is_valid)
        always = name in ("br.cpf", "br.cnpj", "be.nn", "ch.ssn", "ar.cuit", "ca.sin", "no.fodselsnummer")
        if always and self.random.random() < 0.6:
            return "national_id/" + name, shaped(text), None
        return "national_id/" + name, (text if always else shaped(text)), label

    def routing(self):
        text = self.until(lambda: self.pick(["01", "02", "11", "21", "31", "26", "32"]) + self.digits(7), module("us.rtn").is_valid)
        return "bank_routing", text, "routing"

    def vin(self):
        alphabet = "ABCDEFGHJKLMNPRSTUVWXYZ0123456789"
        values = dict(zip("ABCDEFGH", range(1, 9))) | dict(zip("JKLMN", range(1, 6))) | {"P": 7, "R": 9} | dict(zip("STUVWXYZ", range(2, 10)))
        weights = [8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2]
        text = list(self.pick(["1HG", "WVW", "JTD", "2T1", "5YJ"]) + self.chars(alphabet, 8) + self.chars("ABCDEFGH", 1) + self.digits(5))
        rest = sum(w * (int(c) if c.isdigit() else values[c]) for w, c in zip(weights, text)) % 11
        text[8] = "X" if rest == 10 else str(rest)
        return "vin", "".join(text), None

    def wallet(self):
        if self.random.random() < 0.4:
            return "crypto_address", "0x" + self.chars("0123456789abcdef", 40), None
        alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
        raw = bytes([self.pick([0, 5])]) + self.random.randbytes(20)
        raw += hashlib.sha256(hashlib.sha256(raw).digest()).digest()[:4]
        number, text = int.from_bytes(raw, "big"), ""
        while number:
            number, digit = divmod(number, 58)
            text = alphabet[digit] + text
        return "crypto_address", "1" * (len(raw) - len(raw.lstrip(b"\0"))) + text, None

    # ---- the others ----
    def email(self):
        if self.random.random() < 0.4:
            return "email", self.people[self.pick(sorted(LOCALES))].email(), None
        local = self.pick([f"{self.pick(NAMES)}.{self.pick(SURNAMES)}", self.pick(NAMES) + self.digits(2), f"{self.pick(NAMES)}+{self.pick(WORDS)}", f"{self.pick(NAMES)[0]}_{self.pick(SURNAMES)}"])
        return "email", f"{local}@{self.pick(['', 'mail.'])}{self.pick(WORDS)}.{self.pick(TOPS)}", None

    def phone(self):
        region, national = self.deal("phone", [(region, national) for region in PHONES for national in (False, True)])
        kind = self.pick([0, 1])  # fixed line, mobile
        example = phonenumbers.example_number_for_type(region, kind)
        text = str(example.national_number)
        number = None
        for _ in range(20):
            drawn = text[:-4] + self.digits(4)
            number = phonenumbers.PhoneNumber(country_code=example.country_code, national_number=int(drawn), italian_leading_zero=example.italian_leading_zero)
            if phonenumbers.is_valid_number(number):
                break
            number = None
        number = number or example
        if not national:
            return f"phone/{region}", phonenumbers.format_number(number, self.pick([Format.E164, Format.INTERNATIONAL])), None
        return f"phone/{region} national", phonenumbers.format_number(number, Format.NATIONAL), "phone"

    def ipv4(self):
        return "ipv4", ".".join(map(str, [self.pick([10, 172, 192, 8, 52, 93, 185]), self.random.randrange(256), self.random.randrange(256), self.random.randrange(1, 255)])), None

    def ipv6(self):
        groups = ["2001", self.pick(["db8", "470", "67c"])] + [self.chars("123456789abcdef", self.pick([1, 3, 4])) for _ in range(6)]
        if self.random.random() < 0.5:
            groups[3:6] = [""]
        return "ipv6", ":".join(groups), None

    def mac(self):
        text = self.pick("048c") + self.pick("048c") + self.chars("0123456789abcdef", 10)
        text = self.pick([text, text.upper()])
        return "mac", self.pick([":", "-"]).join(text[i:i + 2] for i in range(0, 12, 2)), None

    def coordinates(self):
        return "coordinates", f"{self.random.uniform(-80, 80):.{self.pick([4, 5, 6])}f}, {self.random.uniform(-179, 179):.5f}", "location"

    def birth(self):
        return datetime.date(1940, 1, 1) + datetime.timedelta(days=self.random.randrange(25000))

    def birth_date(self):
        return "birth_date", self.birth().strftime(self.pick(["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y"])), "birth"

    def passport(self):
        return "passport", self.pick([self.digits(9), self.chars(string.ascii_uppercase, 1) + self.digits(8), self.chars(string.ascii_uppercase, 2) + self.digits(7)]), "passport"

    def licence(self):
        return "driving_licence", self.pick([self.chars(string.ascii_uppercase, 1) + self.digits(7), self.chars(string.ascii_uppercase, 1) + self.digits(12)]), "licence"

    def jwt(self):
        def part(value):
            return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
        header = json.dumps({"alg": self.pick(["HS256", "RS256", "ES256"]), "typ": "JWT"}).encode()
        body = json.dumps({"sub": self.digits(8), "iat": 1700000000 + self.random.randrange(10**7)}).encode()
        return "jwt", ".".join([part(header), part(body), part(self.random.randbytes(32))]), None

    def private_key(self):
        body = base64.b64encode(self.random.randbytes(200)).decode()
        lines = "\n".join(body[i:i + 64] for i in range(0, len(body), 64))
        kind = self.pick(["RSA ", "EC ", "", "OPENSSH "])
        return "private_key", f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----", None

    def api_key(self):
        hexa, dash = "0123456789abcdef", BASE62 + "_-"
        body = self.chars(BASE62, 30)
        crc, check = zlib.crc32(body.encode()), ""
        for _ in range(6):
            crc, digit = divmod(crc, 62)
            check = BASE62[digit] + check
        text = self.pick([
            "AKIA" + self.chars("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16), "ghp_" + body + check, "npm_" + body + check,
            "sk_live_" + self.chars(BASE62, 24), "AIza" + self.chars(dash, 34) + "x", "xoxb-" + self.digits(12) + "-" + self.digits(12) + "-" + self.chars(BASE62, 24),
            "glpat-" + self.chars(BASE62, 20), "sk-ant-api03-" + self.chars(dash, 93) + "AA", "sk-proj-" + self.chars(BASE62, 48),
            "hf_" + self.chars(BASE62, 34), "dop_v1_" + self.chars(hexa, 64), "SG." + self.chars(BASE62, 22) + "." + self.chars(BASE62, 43),
            "shpat_" + self.chars(hexa, 32), "gsk_" + self.chars(BASE62, 52), "dckr_pat_" + self.chars(BASE62, 27), "lin_api_" + self.chars(BASE62, 40),
            "key-" + self.chars(hexa, 32), "r8_" + self.chars(BASE62, 37), "GOCSPX-" + self.chars(BASE62, 28), "PMAK-" + self.chars(hexa, 24) + "-" + self.chars(hexa, 34),
            "hvs." + self.chars(BASE62, 90), "tskey-auth-" + self.chars(BASE62, 12) + "-" + self.chars(BASE62, 32), "NRAK-" + self.chars(string.ascii_uppercase + string.digits, 27),
            "xkeysib-" + self.chars(hexa, 64) + "-" + self.chars(BASE62, 16), "figd_" + self.chars(BASE62, 40), "sgp_" + self.chars(hexa, 40)])
        return "api_key", text, None

    def high_entropy(self):
        return "high_entropy", self.pick([lambda: self.chars(BASE62, 24) + "7aQ", lambda: self.chars("0123456789abcdef", 40), lambda: self.chars(BASE62, 38) + "x9"])(), "secret"

    # ---- what is none of these ----
    def person(self, language):
        people = self.people[language]
        return people.name() + ", " + people.address().replace("\n", ", ")

    def decoy(self):
        d = self.digits
        wrong_card = self.until(lambda: "4" + d(15), lambda t: not module("luhn").is_valid(t))
        return self.pick([
            lambda: "order " + d(self.pick([8, 10, 12, 16])), lambda: "invoice no. INV-" + d(8), lambda: "version " + ".".join(d(1) for _ in range(4)),
            lambda: "v" + d(1) + "." + d(2) + "." + d(1), lambda: str(uuid.UUID(bytes=self.random.randbytes(16), version=4)), lambda: "commit " + self.chars("0123456789abcdef", 40),
            lambda: "sha256:" + self.chars("0123456789abcdef", 64), lambda: "md5 " + self.chars("0123456789abcdef", 32), lambda: "card-like " + wrong_card,
            lambda: datetime.datetime.fromtimestamp(1600000000 + self.random.randrange(10**8), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            lambda: "tracking 1Z" + self.chars(string.ascii_uppercase + string.digits, 16), lambda: "isbn 978" + d(10), lambda: "EUR " + d(3) + "." + d(2),
            lambda: f"icon@2x.png", lambda: "git@" + self.pick(WORDS) + ".com:team/repo.git", lambda: "fingerprint " + ":".join(self.chars("0123456789abcdef", 2) for _ in range(16)),
            lambda: f"[{self.random.random():.5f}, {self.random.random():.5f}]", lambda: "std::" + self.pick(WORDS) + "::" + self.pick(WORDS), lambda: "127.0.0.1:" + d(4),
            lambda: "epoch " + d(10), lambda: "timestamp " + d(13), lambda: "sku " + d(4) + "-" + d(4), lambda: "section " + d(1) + "." + d(1) + "." + d(2), lambda: "1" + d(3) + "x" + d(4) + " px",
            lambda: "build " + d(9), lambda: self.pick(WORDS) + "_" + self.pick(WORDS) + "_" + d(3), lambda: "Chrome/" + d(3) + ".0.0.0", lambda: "ports " + d(4) + "-" + d(4),
            lambda: "updated " + self.birth().strftime("%d.%m.%Y"), lambda: "::1", lambda: "row " + d(7)])()

    CHECKED = "card iban ssn itin nino nhs national national routing vin wallet".split()
    OTHERS = "email email phone phone ipv4 ipv6 mac coordinates birth_date passport licence jwt private_key api_key api_key high_entropy".split()

    def value(self):
        return getattr(self, self.pick(self.CHECKED if self.random.random() < 0.45 else self.OTHERS))()


def module(name):
    return importlib.import_module("stdnum." + name)
