#include "context.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include <emmintrin.h>

#include "letters.h"

namespace mvm::protect {
namespace {

constexpr size_t kReach = 64;

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
constexpr uint32_t slot_of(std::string_view word) {
  uint32_t hash = 2166136261U;
  for (const char c : word) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619U;
  return (hash ^ (hash >> 15)) % kSlots;
}

// Indices into the words, from 1; 0: nothing.
constexpr std::array<uint16_t, kSlots> kTable = [] {
  std::array<uint16_t, kSlots> out{};
  uint16_t index = 0;
  for (const Word& word : kAsciiWords) {
    uint32_t slot = slot_of(word.text);
    while (out.at(slot) != 0) slot = (slot + 1) % kSlots;
    out.at(slot) = ++index;
  }
  return out;
}();

// By length the letters that words of the table begin with: most of a text's words are none of
// them, and that is known before they are read.
constexpr size_t kLengths = 32;
constexpr std::array<uint32_t, kLengths> kFirstLetters = [] {
  std::array<uint32_t, kLengths> out{};
  for (const Word& word : kAsciiWords)
    out.at(word.text.size()) |= 1U << (static_cast<uint8_t>(word.text.front()) & 31U);
  return out;
}();

// Whether a word of that length and first letter, of either case, may be one.
bool may_mean(size_t length, char first) {
  return length < kLengths &&
         (kFirstLetters[length] >> (static_cast<uint8_t>(first) & 31U) & 1U) != 0;
}

uint32_t meaning(std::string_view word) {
  if (!may_mean(word.size(), word.front())) return 0;
  for (uint32_t slot = slot_of(word); kTable[slot] != 0; slot = (slot + 1) % kSlots) {
    const Word& known = kAsciiWords[kTable[slot] - 1];
    if (known.text == word) return known.says;
  }
  return 0;
}

// Of a label: as a whole, else of its last part ("home_phone", "billingPhone", "card-number").
// `parts`: it may have some.
uint32_t meaning_of_label(std::string_view word, bool parts) {
  if (!parts && !may_mean(word.size(), word.front())) return 0;
  std::array<char, kReach> lowered;  // only what is of the word is written
  for (size_t i = 0; i < word.size(); ++i) lowered[i] = lower(word[i]);
  const std::string_view whole(lowered.data(), word.size());
  if (const uint32_t says = meaning(whole); says != 0 || !parts) return says;
  size_t end = word.size();
  for (size_t i = word.size(); i-- > 0;) {
    const bool hump = i > 0 && is(word[i], kUpper) && is(word[i - 1], kLower);
    const bool mark = is(word[i], kWordMark);
    if (!hump && !mark && i != 0) continue;
    const size_t from = mark ? i + 1 : i;
    const uint32_t says = end > from ? meaning(whole.substr(from, end - from)) : 0;
    if (says != 0) return says;
    end = i;
  }
  return 0;
}

// Which of 16 bytes separate fields, or may.
uint32_t field_marks(const char* text) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
  __m128i marks = _mm_setzero_si128();
  for (const char mark : {'\n', '\t', '|', '{', '}', '&', ';', ','})
    marks = _mm_or_si128(marks, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(mark)));
  return static_cast<uint32_t>(_mm_movemask_epi8(marks));
}

// Whether the mark at `i` ends a field: of commas only those beside quotes do.
bool ends_field(std::string_view text, size_t i) {
  const auto quote = [&](size_t at) {
    return at < text.size() && (text[at] == '"' || text[at] == '\'');
  };
  return text[i] != ',' || quote(i + 1) ||
         (i + 1 < text.size() && text[i + 1] == ' ' && quote(i + 2)) ||
         (i > 0 && text[i - 1] == '"');
}

// Where the field of the value begins in `text`: behind the last thing that separates fields.
size_t field_start(std::string_view text) {
  constexpr size_t kBlock = 16;
  std::array<char, kBlock> first{};  // the bytes before the last whole block
  for (size_t end = text.size(); end > 0;) {
    const size_t from = end - std::min(end, kBlock);
    const char* block = text.data() + from;
    if (end - from < kBlock) {
      std::memcpy(first.data(), block, end - from);
      block = first.data();
    }
    for (uint32_t marks = field_marks(block); marks != 0;) {
      const auto at = static_cast<uint32_t>(std::bit_width(marks)) - 1;
      if (ends_field(text, from + at)) return from + at + 1;
      marks &= ~(1U << at);
    }
    end = from;
  }
  return 0;
}

}

uint32_t context_before(const Window& window, size_t start) {
  std::string_view text = window.behind(start, kReach);
  text.remove_prefix(field_start(text));
  uint32_t says = 0;
  bool high = false;
  bool digits = false;
  for (size_t end = text.size(); end > 0;) {
    const char last = text[end - 1];
    high = high || is(last, kHigh);
    // Words before another value speak of that one.
    digits = digits || is(last, kDigit);
    if (says != 0 && digits) return says;
    if (!is(last, kAlpha)) {
      --end;
      continue;
    }
    size_t from = end;
    uint8_t kinds = 0;
    for (; from > 0 && is(text[from - 1], kAlnum | kWordMark); --from)
      kinds |= kKinds[static_cast<uint8_t>(text[from - 1])];
    const bool parts = (kinds & kWordMark) != 0 || (kinds & kAlpha) == kAlpha;
    const uint32_t word = meaning_of_label(text.substr(from, end - from), parts);
    // The start of the reach may have cut this word: then it says nothing.
    const bool cut = from == 0 && text.size() == kReach;
    if (!cut) {
      if (says == 0 && !high && word == kSaysOther) return digits ? 0 : uint32_t{kSaysOther};
      says |= word & ~uint32_t{kSaysOther};
    }
    end = from;
  }
  if (!high) return says;
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
