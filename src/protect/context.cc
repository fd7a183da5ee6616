#include "context.h"

#include <algorithm>
#include <array>
#include <string_view>

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

const std::array<const Word*, kSlots>& table() {
  static const auto kTable = [] {
    std::array<const Word*, kSlots> out{};
    for (const Word& word : kAsciiWords) {
      uint32_t slot = slot_of(word.text);
      while (out.at(slot) != nullptr) slot = (slot + 1) % kSlots;
      out.at(slot) = &word;
    }
    return out;
  }();
  return kTable;
}

uint32_t meaning(std::string_view word) {
  const auto& slots = table();
  for (uint32_t slot = slot_of(word); slots.at(slot) != nullptr; slot = (slot + 1) % kSlots)
    if (slots.at(slot)->text == word) return slots.at(slot)->says;
  return 0;
}

// Of a label: as a whole, else of its last part ("home_phone", "billingPhone", "card-number").
uint32_t meaning_of_label(std::string_view word) {
  std::array<char, kReach> lowered{};
  for (size_t i = 0; i < word.size(); ++i) lowered.at(i) = lower(word[i]);
  const std::string_view whole(lowered.data(), word.size());
  if (const uint32_t says = meaning(whole); says != 0) return says;
  uint32_t says = 0;
  size_t end = word.size();
  for (size_t i = word.size(); i-- > 0;) {
    const bool hump = i > 0 && is(word[i], kUpper) && is(word[i - 1], kLower);
    const bool mark = word[i] == '_' || word[i] == '-';
    if (!hump && !mark && i != 0) continue;
    const size_t from = mark ? i + 1 : i;
    if (end > from) says |= meaning(whole.substr(from, end - from));
    if (says != 0) return says;
    end = i;
  }
  return says;
}

// Where the field of the value begins in `text`: behind the last thing that separates fields.
size_t field_start(std::string_view text) {
  for (size_t i = text.size(); i-- > 0;) {
    const char c = text[i];
    if (c == '\n' || c == '\t' || c == '|' || c == '{' || c == '}' || c == '&' || c == ';')
      return i + 1;
    if (c == ',' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\''))
      return i + 1;
    if (c == ',' && i + 2 < text.size() && text[i + 1] == ' ' &&
        (text[i + 2] == '"' || text[i + 2] == '\'')) {
      return i + 1;
    }
    if (c == ',' && i > 0 && text[i - 1] == '"') return i + 1;
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
    while (from > 0 && (is(text[from - 1], kAlnum) || is(text[from - 1], kWordMark))) --from;
    const uint32_t word = meaning_of_label(text.substr(from, end - from));
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
