"""Documents with labelled values: a list of (bytes, [(class, start, length, form)]), the same for the same seed."""
import json

import values

LANGUAGES = ["en", "de", "fr", "es", "it", "pt", "nl", "ja"]
LABELS = {
    "phone": {"en": ["phone", "mobile", "call me at"], "de": ["Telefon", "Handy"], "fr": ["téléphone", "tél."], "es": ["teléfono", "móvil"], "it": ["telefono", "cellulare"], "pt": ["telefone", "telemóvel"], "nl": ["telefoon", "mobiel"], "ja": ["電話番号", "携帯電話"]},
    "birth": {"en": ["date of birth", "born on", "DOB"], "de": ["Geburtsdatum", "geboren am"], "fr": ["date de naissance", "né le"], "es": ["fecha de nacimiento"], "it": ["data di nascita", "nato il"], "pt": ["data de nascimento"], "nl": ["geboortedatum"], "ja": ["生年月日"]},
    "passport": {"en": ["passport number", "passport no."], "de": ["Reisepass Nr.", "Reisepassnummer"], "fr": ["numéro de passeport"], "es": ["pasaporte"], "it": ["passaporto"], "pt": ["passaporte"], "nl": ["paspoortnummer"], "ja": ["パスポート番号"]},
    "licence": {"en": ["driver's license", "driving licence number"], "de": ["Führerschein"], "fr": ["permis de conduire"], "es": ["permiso de conducir"], "it": ["patente di guida"], "pt": ["carta de condução, driving licence"], "nl": ["rijbewijs"], "ja": ["運転免許証"]},
    "location": {"en": ["location", "gps", "coordinates"], "de": ["Koordinaten", "Standort"], "fr": ["coordonnées"], "es": ["coordenadas"], "it": ["coordinate"], "pt": ["coordenadas"], "nl": ["gps"], "ja": ["座標"]},
    "secret": {"en": ["password =", "api_key:", "client_secret="]},
    "ssn": {"en": ["SSN", "social security number"]},
    "nhs": {"en": ["NHS number", "patient NHS no."]},
    "routing": {"en": ["routing number", "ABA"]},
    "tax": {"en": ["tax id"], "de": ["Steuer-ID", "Identifikationsnummer"]},
    "national": {"en": ["national id", "national identity number"]},
}
KEYS = {"phone": "phone", "birth": "date_of_birth", "passport": "passport_number", "licence": "driver_license", "location": "location", "secret": "api_secret", "ssn": "ssn", "nhs": "nhs_number", "routing": "routing_number", "tax": "tax_id", "national": "national_id"}
PROSE = {
    "en": ["Thank you for the quick answer, the team looked at it again this morning.", "Please let me know whether the second draft is fine.", "We moved the meeting to Thursday because three of us are away.", "I have attached the minutes and the list of open questions."],
    "de": ["Vielen Dank für die schnelle Antwort, wir haben es heute noch einmal geprüft.", "Bitte geben Sie mir bis Freitag Bescheid.", "Die Sitzung wurde auf nächsten Monat verschoben."],
    "fr": ["Merci pour votre réponse rapide, nous l'avons relue ce matin.", "La réunion est reportée à jeudi prochain.", "Vous trouverez ci-joint le compte rendu."],
    "es": ["Gracias por la respuesta, el equipo lo revisó esta mañana.", "La reunión se ha aplazado hasta el jueves.", "Adjunto el acta y la lista de preguntas."],
    "it": ["Grazie per la risposta veloce, l'abbiamo riletta stamattina.", "La riunione è rinviata a giovedì.", "In allegato il verbale e le domande aperte."],
    "pt": ["Obrigado pela resposta rápida, a equipa reviu tudo esta manhã.", "A reunião foi adiada para quinta-feira.", "Segue em anexo a ata."],
    "nl": ["Bedankt voor het snelle antwoord, we hebben het vanochtend nog eens bekeken.", "De vergadering is verplaatst naar donderdag.", "In de bijlage vindt u de notulen."],
    "ja": ["早速のお返事ありがとうございます。今朝もう一度確認しました。", "会議は木曜日に延期されました。", "議事録を添付します。"],
}
CODE = [
    "static int read_header(struct reader *in, struct header *out) {\n  if (in->left < sizeof(*out)) return -22;\n", "for (size_t i = 0; i < count; ++i) total += table[i % 16] * 0x9e3779b9u;\n",
    "def load(path, limit=1048576):\n    with open(path, 'rb') as file:\n        return file.read(limit)\n", "import { readFile } from 'node:fs/promises';\nexport const limit = 65536;\n",
    "assert_eq!(checksum(&buffer[4..12]), 0xdeadbeef);\n", "SELECT id, total FROM orders WHERE created > '2024-01-31' LIMIT 100;\n", "#define MAX_ENTRIES 4096\n#define VERSION \"2.31.0\"\n",
    "const colors = ['#ff8800', '#00aaff'];\nmargin: 0 12px 24px 1.5rem;\n", "  \"integrity\": \"sha512-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9v==\",\n",
]


# What stands right before and behind a value in a sentence. In Japanese no space does.
AROUND = [("(", ") "), ("“", "” "), ("«", "» "), ("—", "— ")]
AROUND_JA = [("(", ") "), ("「", "」"), ("（", "）"), ("、", "です。"), ("今は", "ですが、")]


class Document:
    def __init__(self):
        self.data, self.labels = bytearray(), []

    def text(self, text):
        self.data += text.encode()

    def value(self, kind, text):
        raw = text.encode()
        kind, _, form = kind.partition("/")
        self.labels.append((kind, len(self.data), len(raw), form))
        self.data += raw


def label(source, key, language):
    if key in LABELS:
        words = LABELS[key].get(language) or LABELS[key]["en"]
        return source.pick(words)
    return key.upper() if len(key) < 6 else key.capitalize()


def write_value(document, source, language, between=": "):
    kind, text, key = source.value()
    if key is not None:
        name = label(source, key, language)
        document.text(name + (" " if name.endswith(("=", ":", "at", "on", "il", "le", "am")) else source.pick([between, " "]) if key != "secret" else ""))
        if key == "secret":
            document.text("")
    document.value(kind, text)


def prose(source, document, language):
    for _ in range(source.random.randrange(2, 6)):
        document.text(source.pick(PROSE[language]) + " ")
        choice = source.random.random()
        if choice < 0.45:
            before, behind = source.pick(AROUND_JA if language == "ja" else AROUND)
            document.text(before)
            write_value(document, source, language, source.pick(["：", "は"]) if language == "ja" else ": ")
            document.text(behind)
        elif choice < 0.7:
            document.text(source.decoy() + ", ")
        elif choice < 0.8:
            document.text(source.person(language) + ". ")
    document.text("\n")


def chat(source, document, language):
    for _ in range(source.random.randrange(2, 7)):
        document.text(source.pick(["user", "assistant", source.people[language].name()]) + "> " + source.pick(PROSE[language]) + " ")
        if source.random.random() < 0.4:
            write_value(document, source, language)
        elif source.random.random() < 0.5:
            document.text(source.decoy())
        document.text("\n")


def log(source, document, _):
    for _ in range(source.random.randrange(3, 8)):
        document.text(f"2026-{source.random.randrange(1, 13):02d}-11T0{source.digits(1)}:2{source.digits(1)}:31.{source.digits(3)}Z {source.pick(['INFO', 'WARN', 'ERROR'])} {source.pick(values.WORDS)}[{source.digits(4)}]: ")
        if source.random.random() < 0.35:
            document.text(source.pick(["rejected ", "user=", "sent to ", "got \""]))
            write_value(document, source, "en", "=")
            document.text("\"" if document.data.rfind(b'got "') > document.data.rfind(b"\n") else "")
        else:
            document.text(source.decoy())
        document.text(f" in {source.digits(3)} ms\n")


def table(source, document, _):
    makers = [getattr(source, name) for name in source.random.sample("card iban itin nino email ipv4 ipv6 mac wallet vin ssn".split(), 3)]
    document.text("id," + ",".join(maker.__name__ for maker in makers) + ",total\n")
    for row in range(source.random.randrange(2, 6)):
        document.text(f"{row + 1000}")
        for maker in makers:
            kind, text, key = maker()
            document.text(",")
            if key is None:
                document.value(kind, text)
        document.text(f",{source.digits(3)}.{source.digits(2)}\n")


def record(source, document, _):
    document.text("{\"id\": " + source.digits(6))
    for index in range(source.random.randrange(2, 6)):
        if source.random.random() < 0.6:
            kind, text, key = source.value()
            document.text(f", \"{KEYS.get(key, key) if key else 'field' + str(index)}\": \"")
            if kind == "private_key":
                text = json.dumps(text)[1:-1]
            document.value(kind, text)
            document.text("\"")
        else:
            document.text(f", \"note\": \"{source.decoy()}\"")
    document.text("}\n")


def code(source, document, _):
    for _ in range(source.random.randrange(3, 8)):
        document.text(source.pick(CODE))
        if source.random.random() < 0.3:
            document.text("// " + source.decoy() + "\n")
        elif source.random.random() < 0.12:
            document.text("const value = \"")
            kind, text, key = source.value()
            if key is None and "\n" not in text:
                document.value(kind, text)
            document.text("\";\n")


def corpus(count, seed=5):
    source = values.Source(seed)
    kinds = [log, table, record, prose, code, chat]
    out = []
    for index in range(count):
        document = Document()
        kinds[index % len(kinds)](source, document, LANGUAGES[index // len(kinds) % len(LANGUAGES)])
        out.append((bytes(document.data), document.labels))
    return out
