// The words that say what a value is. Those of ASCII letters are found by a hash; most of a text's
// words are known to be none of them by their length and a few of their letters.

#include "context_words.h"

#include <algorithm>
#include <array>

#include "context.h"
#include "letters.h"

namespace mvm::protect {
namespace {

struct Word {
  std::string_view text;  // lowercase
  uint32_t says;
};

// Words of one script without spaces (and words with letters beyond ASCII) are searched as text.
constexpr Word kAsciiWords[] = {
    // phone
    {"phone", kSaysPhone},
    {"phones", kSaysPhone},
    {"telephone", kSaysPhone},
    {"tel", kSaysPhone},
    {"mobile", kSaysPhone},
    {"cell", kSaysPhone},
    {"cellphone", kSaysPhone},
    {"fax", kSaysPhone},
    {"call", kSaysPhone},
    {"whatsapp", kSaysPhone},
    {"sms", kSaysPhone},
    {"telefon", kSaysPhone},
    {"telefono", kSaysPhone},
    {"telefone", kSaysPhone},
    {"telefonnummer", kSaysPhone},
    {"handy", kSaysPhone},
    {"handynummer", kSaysPhone},
    {"rufnummer", kSaysPhone},
    {"mobil", kSaysPhone},
    {"movil", kSaysPhone},
    {"celular", kSaysPhone},
    {"portable", kSaysPhone},
    {"telefoon", kSaysPhone},
    {"telefoonnummer", kSaysPhone},
    {"mobiel", kSaysPhone},
    {"cellulare", kSaysPhone},
    {"mobilnummer", kSaysPhone},
    {"msisdn", kSaysPhone},
    {"phonenumber", kSaysPhone},
    {"dial", kSaysPhone},
    {"telemovel", kSaysPhone},
    {"komorka", kSaysPhone},
    {"tlf", kSaysPhone},
    {"hotline", kSaysPhone},
    {"voicemail", kSaysPhone},
    // card
    {"card", kSaysCard},
    {"cards", kSaysCard},
    {"credit", kSaysCard},
    {"debit", kSaysCard},
    {"visa", kSaysCard},
    {"mastercard", kSaysCard},
    {"amex", kSaysCard},
    {"pan", kSaysCard},
    {"cc", kSaysCard},
    {"ccnum", kSaysCard},
    {"karte", kSaysCard},
    {"kreditkarte", kSaysCard},
    {"carte", kSaysCard},
    {"tarjeta", kSaysCard},
    {"carta", kSaysCard},
    {"cartao", kSaysCard},
    {"kaart", kSaysCard},
    {"karta", kSaysCard},
    {"cardnumber", kSaysCard},
    // US taxpayers
    {"ssn", kSaysSsn},
    {"social", kSaysSsn},
    {"itin", kSaysSsn},
    {"taxpayer", kSaysSsn},
    {"ssns", kSaysSsn},
    {"socialsecurity", kSaysSsn},
    {"tin", kSaysSsn | kSaysNational},
    // national ids
    {"national", kSaysNational},
    {"identity", kSaysNational},
    {"nationalid", kSaysNational},
    {"identification", kSaysNational},
    {"tax", kSaysNational},
    {"taxid", kSaysNational},
    {"nationalinsurance", kSaysNational},
    {"nino", kSaysNational},
    {"insurance", kSaysNational},
    {"cpf", kSaysNational},
    {"cnpj", kSaysNational},
    {"pesel", kSaysNational},
    {"bsn", kSaysNational},
    {"burgerservicenummer", kSaysNational},
    {"nif", kSaysNational},
    {"nie", kSaysNational},
    {"dni", kSaysNational},
    {"personnummer", kSaysNational},
    {"cpr", kSaysNational},
    {"cprnr", kSaysNational},
    {"cprnummer", kSaysNational},
    {"fodselsnummer", kSaysNational},
    {"cnp", kSaysNational},
    {"egn", kSaysNational},
    {"aadhaar", kSaysNational},
    {"aadhar", kSaysNational},
    {"uidai", kSaysNational},
    {"tfn", kSaysNational},
    {"sin", kSaysNational},
    {"kimlik", kSaysNational},
    {"tckn", kSaysNational},
    {"tckimlik", kSaysNational},
    {"curp", kSaysNational},
    {"rut", kSaysNational},
    {"cuit", kSaysNational},
    {"cuil", kSaysNational},
    {"oib", kSaysNational},
    {"steuer", kSaysNational},
    {"steuerid", kSaysNational},
    {"idnr", kSaysNational},
    {"steuernummer", kSaysNational},
    {"identifikationsnummer", kSaysNational},
    {"steueridentifikationsnummer", kSaysNational},
    {"nir", kSaysNational},
    {"insee", kSaysNational},
    {"secu", kSaysNational},
    {"codicefiscale", kSaysNational},
    {"fiscale", kSaysNational},
    {"ppsn", kSaysNational},
    {"pps", kSaysNational},
    {"nric", kSaysNational},
    {"fin", kSaysNational},
    {"rrn", kSaysNational},
    {"mynumber", kSaysNational},
    {"teudat", kSaysNational},
    {"hetu", kSaysNational},
    {"henkilotunnus", kSaysNational},
    {"ahv", kSaysNational},
    {"avs", kSaysNational},
    {"rijksregisternummer", kSaysNational},
    {"rodne", kSaysNational},
    {"cislo", kSaysNational},
    {"isikukood", kSaysNational},
    {"asmens", kSaysNational},
    {"citizen", kSaysNational},
    {"resident", kSaysNational},
    {"idnumber", kSaysNational},
    {"id_number", kSaysNational},
    {"amka", kSaysNational},
    {"contribuinte", kSaysNational},
    {"cedula", kSaysNational},
    {"pan_number", kSaysNational},
    {"permanent", kSaysNational},
    // health
    {"nhs", kSaysHealth},
    {"patient", kSaysHealth},
    {"medicare", kSaysHealth | kSaysNational},
    // bank routing
    {"routing", kSaysRouting},
    {"aba", kSaysRouting},
    {"rtn", kSaysRouting},
    {"transit", kSaysRouting},
    {"routingnumber", kSaysRouting},
    // birth
    {"birth", kSaysBirth},
    {"birthday", kSaysBirth},
    {"dob", kSaysBirth},
    {"born", kSaysBirth},
    {"birthdate", kSaysBirth},
    {"dateofbirth", kSaysBirth},
    {"geburtsdatum", kSaysBirth},
    {"geboren", kSaysBirth},
    {"geburtstag", kSaysBirth},
    {"naissance", kSaysBirth},
    {"nacimiento", kSaysBirth},
    {"nascita", kSaysBirth},
    {"nascimento", kSaysBirth},
    {"geboortedatum", kSaysBirth},
    {"nato", kSaysBirth},
    {"nata", kSaysBirth},
    {"nacido", kSaysBirth},
    {"nacida", kSaysBirth},
    {"nascido", kSaysBirth},
    {"urodzenia", kSaysBirth},
    {"urodzony", kSaysBirth},
    {"urodzona", kSaysBirth},
    {"bday", kSaysBirth},
    {"nee", kSaysBirth},
    {"fodselsdato", kSaysBirth},
    // papers
    {"passport", kSaysPassport},
    {"passports", kSaysPassport},
    {"reisepass", kSaysPassport},
    {"passeport", kSaysPassport},
    {"pasaporte", kSaysPassport},
    {"passaporto", kSaysPassport},
    {"passaporte", kSaysPassport},
    {"paspoort", kSaysPassport},
    {"paszport", kSaysPassport},
    {"paszportu", kSaysPassport},
    {"passnummer", kSaysPassport},
    {"paspoortnummer", kSaysPassport},
    {"reisepassnummer", kSaysPassport},
    {"passportnumber", kSaysPassport},
    {"licence", kSaysLicence},
    {"license", kSaysLicence},
    {"driver", kSaysLicence},
    {"drivers", kSaysLicence},
    {"driving", kSaysLicence},
    {"fuehrerschein", kSaysLicence},
    {"fuhrerschein", kSaysLicence},
    {"permis", kSaysLicence},
    {"conduire", kSaysLicence},
    {"conducir", kSaysLicence},
    {"patente", kSaysLicence},
    {"guida", kSaysLicence},
    {"rijbewijs", kSaysLicence},
    {"rijbewijsnummer", kSaysLicence},
    {"jazdy", kSaysLicence},
    {"habilitacao", kSaysLicence},
    {"cnh", kSaysLicence},
    {"dl", kSaysLicence},
    {"driverslicense", kSaysLicence},
    {"fuehrerscheinnummer", kSaysLicence},
    // secrets
    {"password", kSaysSecret},
    {"passwd", kSaysSecret},
    {"pwd", kSaysSecret},
    {"secret", kSaysSecret},
    {"token", kSaysSecret},
    {"apikey", kSaysSecret},
    {"api_key", kSaysSecret},
    {"key", kSaysSecret},
    {"access_key", kSaysSecret},
    {"secret_key", kSaysSecret},
    {"private_key", kSaysSecret},
    {"credential", kSaysSecret},
    {"credentials", kSaysSecret},
    {"bearer", kSaysSecret},
    {"auth", kSaysSecret},
    {"access_token", kSaysSecret},
    {"auth_token", kSaysSecret},
    {"client_secret", kSaysSecret},
    {"refresh_token", kSaysSecret},
    {"passphrase", kSaysSecret},
    {"passwort", kSaysSecret},
    {"kennwort", kSaysSecret},
    {"passe", kSaysSecret},
    {"motdepasse", kSaysSecret},
    {"mdp", kSaysSecret},
    {"contrasena", kSaysSecret},
    {"senha", kSaysSecret},
    {"wachtwoord", kSaysSecret},
    {"haslo", kSaysSecret},
    {"authorization", kSaysSecret},
    {"signing_key", kSaysSecret},
    {"encryption_key", kSaysSecret},
    {"accountkey", kSaysSecret},
    {"sharedaccesskey", kSaysSecret},
    {"accesskey", kSaysSecret},
    {"secretkey", kSaysSecret},
    {"clientsecret", kSaysSecret},
    {"accesstoken", kSaysSecret},
    {"authtoken", kSaysSecret},
    // vehicles, places, networks
    {"vin", kSaysVehicle},
    {"vehicle", kSaysVehicle},
    {"chassis", kSaysVehicle},
    {"fahrgestellnummer", kSaysVehicle},
    {"car", kSaysVehicle},
    {"lat", kSaysPlace},
    {"lng", kSaysPlace},
    {"lon", kSaysPlace},
    {"long", kSaysPlace},
    {"latitude", kSaysPlace},
    {"longitude", kSaysPlace},
    {"gps", kSaysPlace},
    {"coordinates", kSaysPlace},
    {"coords", kSaysPlace},
    {"location", kSaysPlace},
    {"geo", kSaysPlace},
    {"position", kSaysPlace},
    {"latlng", kSaysPlace},
    {"latlon", kSaysPlace},
    {"koordinaten", kSaysPlace},
    {"coordonnees", kSaysPlace},
    {"coordenadas", kSaysPlace},
    {"coordinate", kSaysPlace},
    {"standort", kSaysPlace},
    {"ip", kSaysAddress},
    {"client_ip", kSaysAddress},
    {"addr", kSaysAddress},
    {"ipv4", kSaysAddress},
    {"from", kSaysAddress},
    {"host", kSaysAddress},
    {"address", kSaysAddress},
    {"ip_address", kSaysAddress},
    {"remote_addr", kSaysAddress},
    {"server", kSaysAddress},
    {"nameserver", kSaysAddress},
    {"client", kSaysAddress},
    {"peer", kSaysAddress},
    {"gateway", kSaysAddress},
    {"dns", kSaysAddress},
    {"ping", kSaysAddress},
    {"inet", kSaysAddress},
    {"src", kSaysAddress},
    {"dst", kSaysAddress},
    {"ssh", kSaysAddress},
    {"telnet", kSaysAddress},
    {"traceroute", kSaysAddress},
    {"connect", kSaysAddress},
    {"connected", kSaysAddress},
    {"connecting", kSaysAddress},
    {"blocked", kSaysAddress},
    {"banned", kSaysAddress},
    // something else
    {"order", kSaysOther},
    {"orders", kSaysOther},
    {"invoice", kSaysOther},
    {"tracking", kSaysOther},
    {"ticket", kSaysOther},
    {"sku", kSaysOther},
    {"ref", kSaysOther},
    {"reference", kSaysOther},
    {"serial", kSaysOther},
    {"build", kSaysOther},
    {"commit", kSaysOther},
    {"version", kSaysOther},
    {"ver", kSaysOther},
    {"release", kSaysOther},
    {"isbn", kSaysOther},
    {"ean", kSaysOther},
    {"upc", kSaysOther},
    {"part", kSaysOther},
    {"section", kSaysOther},
    {"sections", kSaysOther},
    {"clause", kSaysOther},
    {"chapter", kSaysOther},
    {"spec", kSaysOther},
    {"timestamp", kSaysOther},
    {"epoch", kSaysOther},
    {"ts", kSaysOther},
    {"order_id", kSaysOther},
    {"orderid", kSaysOther},
    {"sha", kSaysOther},
    {"hash", kSaysOther},
    {"checksum", kSaysOther},
    {"digest", kSaysOther},
    {"revision", kSaysOther},
    {"request_id", kSaysOther},
    {"trace", kSaysOther},
    {"trace_id", kSaysOther},
    {"span_id", kSaysOther},
    {"session_id", kSaysOther},
    {"article", kSaysOther},
    {"bestellung", kSaysOther},
    {"bestellnummer", kSaysOther},
    {"rechnung", kSaysOther},
    {"commande", kSaysOther},
    {"pedido", kSaysOther},
    {"factura", kSaysOther},
    {"facture", kSaysOther},
    {"ordine", kSaysOther},
    {"fattura", kSaysOther},
    {"zamowienie", kSaysOther},
    {"bestelling", kSaysOther},
    {"uuid", kSaysOther},
    {"guid", kSaysOther},
    {"etag", kSaysOther},
    {"nonce", kSaysOther},
    {"integrity", kSaysOther},
    {"md5", kSaysOther},
    {"sha1", kSaysOther},
    {"sha256", kSaysOther},
    {"sha512", kSaysOther},
    {"fingerprint", kSaysOther},
    {"batch", kSaysOther},
    {"lot", kSaysOther},
    {"counter", kSaysOther},
    {"seq", kSaysOther},
    {"sequence", kSaysOther},
    {"offset", kSaysOther},
    {"bytes", kSaysOther},
    {"size", kSaysOther},
    {"length", kSaysOther},
    {"firmware", kSaysOther},
    {"shipment", kSaysOther},
    {"parcel", kSaysOther},
    {"transaction", kSaysOther},
};

constexpr Word kOtherWords[] = {
    {"電話", kSaysPhone},
    {"携帯", kSaysPhone},
    {"电话", kSaysPhone},
    {"手机", kSaysPhone},
    {"전화", kSaysPhone},
    {"휴대폰", kSaysPhone},
    {"телефон", kSaysPhone},
    {"Телефон", kSaysPhone},
    {"teléfono", kSaysPhone},
    {"Teléfono", kSaysPhone},
    {"téléphone", kSaysPhone},
    {"Téléphone", kSaysPhone},
    {"tél", kSaysPhone},
    {"Tél", kSaysPhone},
    {"móvil", kSaysPhone},
    {"telemóvel", kSaysPhone},
    {"komórk", kSaysPhone},
    {"फ़ोन", kSaysPhone},
    {"फोन", kSaysPhone},
    {"カード", kSaysCard},
    {"信用卡", kSaysCard},
    {"cartão", kSaysCard},
    {"карт", kSaysCard},
    {"身份证", kSaysNational},
    {"マイナンバー", kSaysNational},
    {"주민등록", kSaysNational},
    {"sécu", kSaysNational},
    {"fødselsnummer", kSaysNational},
    {"rodné", kSaysNational},
    {"číslo", kSaysNational},
    {"ЕГН", kSaysNational},
    {"आधार", kSaysNational},
    {"contribuição", kSaysNational},
    {"cédula", kSaysNational},
    {"תעודת", kSaysNational},
    {"生年月日", kSaysBirth},
    {"出生", kSaysBirth},
    {"생년월일", kSaysBirth},
    {"né le", kSaysBirth},
    {"née le", kSaysBirth},
    {"рождения", kSaysBirth},
    {"fødselsdato", kSaysBirth},
    {"パスポート", kSaysPassport},
    {"旅券", kSaysPassport},
    {"护照", kSaysPassport},
    {"여권", kSaysPassport},
    {"паспорт", kSaysPassport},
    {"führerschein", kSaysLicence},
    {"Führerschein", kSaysLicence},
    {"運転免許", kSaysLicence},
    {"驾驶证", kSaysLicence},
    {"habilitação", kSaysLicence},
    {"パスワード", kSaysSecret},
    {"密码", kSaysSecret},
    {"비밀번호", kSaysSecret},
    {"пароль", kSaysSecret},
    {"contraseña", kSaysSecret},
    {"注文", kSaysOther},
    {"订单", kSaysOther},
    {"주문", kSaysOther},
    {"заказ", kSaysOther},
    {"zamówieni", kSaysOther},
    {"coordonnées", kSaysPlace},
    {"座標", kSaysPlace},
    {"坐标", kSaysPlace},
    {"位置", kSaysPlace},
    {"좌표", kSaysPlace},
};

constexpr size_t kSlots = 1024;
constexpr uint32_t kHashStart = 2166136261U;
constexpr uint32_t hash_step(uint32_t hash, char c) {
  return (hash ^ static_cast<uint8_t>(c)) * 16777619U;
}
constexpr uint32_t slot_of(uint32_t hash) { return (hash ^ (hash >> 15)) % kSlots; }

// Indices into the words, from 1; 0: nothing.
constexpr std::array<uint16_t, kSlots> kTable = [] {
  std::array<uint16_t, kSlots> out{};
  uint16_t index = 0;
  for (const Word& word : kAsciiWords) {
    uint32_t hash = kHashStart;
    for (const char c : word.text) hash = hash_step(hash, c);
    uint32_t slot = slot_of(hash);
    while (out.at(slot) != 0) slot = (slot + 1) % kSlots;
    out.at(slot) = ++index;
  }
  return out;
}();

// By length the letters that words of the table begin and end with, and by first letter those that
// follow it: most of a text's words are none of the table's, and that is known before they are
// read.
constexpr size_t kLengths = 32;
constexpr uint32_t letter(char c) { return static_cast<uint8_t>(c) & 31U; }  // of either case
struct Letters {
  std::array<uint32_t, kLengths> first{};
  std::array<uint32_t, kLengths> last{};
  std::array<uint32_t, 32> second{};
};
constexpr Letters kLetters = [] {
  Letters out;
  for (const Word& word : kAsciiWords) {
    out.first.at(word.text.size()) |= 1U << letter(word.text.front());
    out.last.at(word.text.size()) |= 1U << letter(word.text.back());
    out.second.at(letter(word.text[0])) |= 1U << letter(word.text[1]);
  }
  return out;
}();

}

uint32_t meaning(std::string_view word) {
  const size_t length = word.size();
  if (length < 2 || length >= kLengths) return 0;
  const uint32_t first = letter(word[0]);
  if (((kLetters.first[length] >> first) & (kLetters.last[length] >> letter(word[length - 1])) &
       (kLetters.second[first] >> letter(word[1])) & 1U) == 0)
    return 0;
  std::array<char, kLengths> lowered;  // only what is of the word is written
  uint32_t hash = kHashStart;
  for (size_t i = 0; i < length; ++i) hash = hash_step(hash, lowered[i] = lower(word[i]));
  for (uint32_t slot = slot_of(hash); kTable[slot] != 0; slot = (slot + 1) % kSlots) {
    const Word& known = kAsciiWords[kTable[slot] - 1];
    if (known.text == std::string_view(lowered.data(), length)) return known.says;
  }
  return 0;
}

uint32_t meaning_of_label(std::string_view word) {
  if (const uint32_t says = meaning(word); says != 0) return says;
  size_t end = word.size();
  for (size_t i = word.size(); i-- > 0;) {
    const bool hump = i > 0 && is(word[i], kUpper) && is(word[i - 1], kLower);
    const bool mark = is(word[i], kWordMark);
    if (!hump && !mark && i != 0) continue;
    const size_t from = mark ? i + 1 : i;
    const uint32_t says = end > from ? meaning(word.substr(from, end - from)) : 0;
    if (says != 0) return says;
    end = i;
  }
  return 0;
}

uint32_t says_in(std::string_view text, uint32_t says) {
  size_t other_at = 0;
  size_t best_at = 0;
  for (const Word& word : kOtherWords) {
    const size_t at = text.rfind(word.text);
    if (at == std::string_view::npos) continue;
    if (word.says == kSaysOther) {
      other_at = std::max(other_at, at + 1);
    } else {
      says |= word.says;
      best_at = std::max(best_at, at + 1);
    }
  }
  return says == 0 && other_at > best_at ? uint32_t{kSaysOther} : says;
}

}
