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

// Of a word in any case of letters; 0: nothing.
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

// Of a label with parts: as a whole, else of its last part that means something ("home_phone",
// "billingPhone", "card-number").
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

// One bit a byte of what is read before a value, the byte before it at the top.
struct Kinds {
  uint64_t alpha = 0;
  uint64_t upper = 0;
  uint64_t digit = 0;
  uint64_t word = 0;  // alpha, digit, '_', '-'
  uint64_t high = 0;
  uint64_t field = 0;  // separates fields, or may
};

template <typename... Bytes>
__m128i any_of(__m128i text, Bytes... bytes) {
  return (... | _mm_cmpeq_epi8(text, _mm_set1_epi8(bytes)));
}
// The `count` bytes from `first` on.
__m128i any_from(__m128i text, char first, int count) {
  const __m128i less = _mm_sub_epi8(text, _mm_set1_epi8(first));
  return _mm_cmpeq_epi8(_mm_min_epu8(less, _mm_set1_epi8(static_cast<char>(count - 1))), less);
}
uint64_t bits_of(__m128i set) {
  return static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(set)));
}

// Adds what 16 bytes are, at `from`.
void classify(const char* data, size_t from, Kinds& out) {
  const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
  const __m128i case_bit = _mm_set1_epi8(0x20);
  const __m128i alpha = any_from(text | case_bit, 'a', 26);
  const __m128i digit = any_from(text, '0', 10);
  const __m128i upper = _mm_andnot_si128(_mm_cmpeq_epi8(text & case_bit, case_bit), alpha);
  out.alpha |= bits_of(alpha) << from;
  out.upper |= bits_of(upper) << from;
  out.digit |= bits_of(digit) << from;
  out.word |= bits_of(alpha | digit | any_of(text, '_', '-')) << from;
  out.high |= bits_of(text) << from;
  out.field |=
      bits_of(any_from(text, '\t', 2) | any_from(text, '{', 3) | any_of(text, '&', ';', ','))
      << from;
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

// The bits below the one at `end`.
uint64_t below(size_t end) { return end >= 64 ? ~uint64_t{0} : (uint64_t{1} << end) - 1; }
size_t top(uint64_t mask) { return static_cast<size_t>(std::bit_width(mask)); }

// Reads from the end of the text back to where the field of the value begins: behind the last thing
// that separates fields. Returns where that is; nothing before it is in the masks.
size_t read_field(std::string_view text, Kinds& kinds) {
  constexpr size_t kPart = 16;
  for (size_t end = text.size(); end > 0;) {
    const size_t from = end - std::min(end, kPart);
    if (end - from < kPart) {
      std::array<char, kPart> rest{};  // the bytes before the last whole part
      std::memcpy(rest.data(), text.data(), end);
      classify(rest.data(), 0, kinds);
    } else {
      classify(text.data() + from, from, kinds);
    }
    for (uint64_t marks = kinds.field & below(end); marks != 0;) {
      const size_t mark = top(marks) - 1;
      if (ends_field(text, mark)) {
        const uint64_t kept = ~below(mark + 1);
        kinds.alpha &= kept;
        kinds.upper &= kept;
        kinds.digit &= kept;
        kinds.word &= kept;
        kinds.high &= kept;
        return mark + 1;
      }
      marks ^= uint64_t{1} << mark;
    }
    end = from;
  }
  return 0;
}

}

uint32_t context_before(const Window& window, size_t start) {
  std::string_view text = window.behind(start, kReach);
  Kinds kinds;
  const size_t field = read_field(text, kinds);
  uint32_t says = 0;
  bool high = false;
  bool digits = false;
  // Words from the last to the first: each ends with a letter, what is between them are gaps.
  for (size_t end = text.size(); end > field;) {
    const size_t last = top(kinds.alpha & below(end));
    const uint64_t gap = below(end) & ~below(last);
    high = high || (kinds.high & gap) != 0;
    // Words before another value speak of that one.
    digits = digits || (kinds.digit & gap) != 0;
    if (says != 0 && digits) return says;
    if (last == 0) break;
    const size_t from = top(~kinds.word & below(last));
    const uint64_t word = below(last) & ~below(from);
    const uint64_t marks = kinds.word & ~(kinds.alpha | kinds.digit);
    const uint64_t humps = kinds.upper & ((kinds.alpha & ~kinds.upper & word) << 1);
    const std::string_view written = text.substr(from, last - from);
    const uint32_t meant =
        ((marks | humps) & word) != 0 ? meaning_of_label(written) : meaning(written);
    // The start of the reach may have cut this word: then it says nothing.
    const bool cut = from == 0 && text.size() == kReach;
    if (!cut) {
      if (says == 0 && !high && meant == kSaysOther) return digits ? 0 : uint32_t{kSaysOther};
      says |= meant & ~uint32_t{kSaysOther};
    }
    end = from;
  }
  text.remove_prefix(field);
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
