// JKS (OpenJDK, sun/security/provider/JavaKeyStore.java): big-endian numbers, a list of entries,
// and behind them SHA-1 over a password, a constant and all before. For "cacerts" the password is
// "changeit", everywhere and by agreement: it is a checksum.
//
// PKCS #12 (RFC 7292): an AuthenticatedSafe, a list of contents, each of them a list of bags. What
// we add is one content with one bag. Encrypted contents and a MAC need the password; a store with
// a MAC is left alone.
#include "java_store.h"

#include <algorithm>
#include <filesystem>

#include "mvm/base/sha1.h"

namespace mvm::guest {
namespace {

constexpr std::string_view kAlias = "mvm-sandbox";

// ---- JKS ----------------------------------------------------------------------------------------

constexpr uint32_t kJksMagic = 0xfeedfeed;
constexpr uint32_t kJksVersion = 2;  // 1, of Java 1.1, has entries without types
constexpr uint32_t kPrivateKey = 1;
constexpr uint32_t kTrusted = 2;
constexpr size_t kDigest = 20;

Bytes jks_digest(ByteView store) {
  Bytes text;
  Writer out(text);
  for (const char c : std::string_view("changeit")) out.u16be(static_cast<unsigned char>(c));
  out.text("Mighty Aphrodite");
  out.bytes(store);
  const auto digest = sha1(text);
  const ByteView bytes = std::as_bytes(std::span(digest));
  return {bytes.begin(), bytes.end()};
}

void skip_certificate(Reader& in) {
  in.skip(in.u16be());  // its type
  in.skip(in.u32be());
}

// The next entry's alias; `in` is behind the entry then.
std::string_view skip_entry(Reader& in) {
  const uint32_t tag = in.u32be();
  const std::string_view alias = as_text(in.bytes(in.u16be()));
  in.skip(8);  // its date
  if (tag == kTrusted) {
    skip_certificate(in);
  } else if (tag == kPrivateKey) {
    in.skip(in.u32be());
    for (uint32_t chain = in.u32be(); chain > 0 && in; --chain) skip_certificate(in);
  } else {
    in.fail();
  }
  return alias;
}

std::optional<Bytes> with_jks_entry(ByteView store, ByteView certificate) {
  if (store.size() < kDigest) return std::nullopt;
  const ByteView content = store.first(store.size() - kDigest);
  if (!std::ranges::equal(store.last(kDigest), jks_digest(content)))
    return std::nullopt;  // another password
  Reader in(content);
  if (in.u32be() != kJksMagic || in.u32be() != kJksVersion) return std::nullopt;
  const uint32_t count = in.u32be();
  uint32_t kept = 0;
  Bytes entries;
  for (uint32_t i = 0; i < count && in; ++i) {
    const ByteView before = in.rest();
    if (skip_entry(in) == kAlias) continue;
    const ByteView entry = before.first(before.size() - in.rest().size());
    entries.insert(entries.end(), entry.begin(), entry.end());
    ++kept;
  }
  if (!in || in.remaining() > 0) return std::nullopt;
  Bytes out;
  Writer to(out);
  to.u32be(kJksMagic);
  to.u32be(kJksVersion);
  to.u32be(kept + 1);
  to.bytes(entries);
  to.u32be(kTrusted);
  to.u16be(static_cast<uint16_t>(kAlias.size()));
  to.text(kAlias);
  to.u64be(0);
  constexpr std::string_view kType = "X.509";
  to.u16be(static_cast<uint16_t>(kType.size()));
  to.text(kType);
  to.u32be(static_cast<uint32_t>(certificate.size()));
  to.bytes(certificate);
  const Bytes digest = jks_digest(out);
  to.bytes(digest);
  return out;
}

// ---- PKCS #12 -----------------------------------------------------------------------------------

enum DerTag : uint8_t {
  kOctets = 0x04,
  kBmpText = 0x1e,
  kSequence = 0x30,
  kSet = 0x31,
  kFirst = 0xa0
};

// One value: its tag must be this one. Lengths are definite, as DER has them.
ByteView take(Reader& in, DerTag tag) {
  if (in.u8() != tag) in.fail();
  size_t length = in.u8();
  if (length == 0x80 || length > 0x84) in.fail();
  if (length > 0x80) {
    const size_t bytes = length - 0x80;
    length = 0;
    for (size_t i = 0; i < bytes; ++i) length = length << 8 | in.u8();
  }
  return in.bytes(length);
}

Bytes der(DerTag tag, std::initializer_list<ByteView> parts) {
  size_t length = 0;
  for (const ByteView part : parts) length += part.size();
  Bytes out;
  Writer to(out);
  to.u8(tag);
  size_t bytes = 0;  // of a length in the long form: no more than it takes, or Java refuses it
  while (length >= 0x80 && length >> (8 * bytes) != 0) ++bytes;
  if (bytes > 0) to.u8(static_cast<uint8_t>(0x80 + bytes));
  for (size_t left = std::max<size_t>(bytes, 1); left-- > 0;)
    to.u8(static_cast<uint8_t>(length >> (8 * left)));
  for (const ByteView part : parts) to.bytes(part);
  return out;
}

// Object identifiers, whole.
constexpr std::string_view kData{"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01", 11};
constexpr std::string_view kCertBag{"\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x0a\x01\x03", 13};
constexpr std::string_view kX509{"\x06\x0a\x2a\x86\x48\x86\xf7\x0d\x01\x09\x16\x01", 12};
constexpr std::string_view kFriendlyName{"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x09\x14", 11};
// Oracle's mark of a trusted certificate, 2.16.840.1.113894.746875.1.1, and what for:
// anyExtendedKeyUsage.
constexpr std::string_view kTrustedUsage{"\x06\x0c\x60\x86\x48\x01\x86\xf9\x66\xad\xca\x7b\x01\x01",
                                         14};
constexpr std::string_view kAnyUsage{"\x06\x04\x55\x1d\x25\x00", 6};

Bytes data_content(ByteView content) {
  return der(kSequence, {as_bytes(kData), der(kFirst, {der(kOctets, {content})})});
}

Bytes pkcs12_content(ByteView certificate) {
  Bytes alias;
  for (const char c : kAlias) Writer(alias).u16be(static_cast<unsigned char>(c));
  const Bytes name = der(kSequence, {as_bytes(kFriendlyName), der(kSet, {der(kBmpText, {alias})})});
  const Bytes usage = der(kSequence, {as_bytes(kTrustedUsage), der(kSet, {as_bytes(kAnyUsage)})});
  const Bytes bag = der(kSequence, {as_bytes(kX509), der(kFirst, {der(kOctets, {certificate})})});
  return data_content(der(kSequence, {der(kSequence, {as_bytes(kCertBag), der(kFirst, {bag}),
                                                      der(kSet, {name, usage})})}));
}

// Whether a content is one that pkcs12_content() made: its end is the same, whatever it holds.
bool is_ours(ByteView content) {
  Bytes alias;
  for (const char c : kAlias) Writer(alias).u16be(static_cast<unsigned char>(c));
  return as_text(content).find(as_text(alias)) != std::string_view::npos;
}

std::optional<Bytes> with_pkcs12_entry(ByteView store, ByteView certificate) {
  Reader file(store);
  Reader pfx(take(file, kSequence));
  const ByteView version = pfx.bytes(3);
  Reader content(take(pfx, kSequence));
  if (as_text(content.bytes(kData.size())) != kData) return std::nullopt;
  Reader wrapped(take(content, kFirst));
  Reader safe(take(wrapped, kOctets));
  Reader contents(take(safe, kSequence));
  if (!file || !pfx || !content || !wrapped || !safe) return std::nullopt;
  if (file.remaining() + pfx.remaining() > 0) return std::nullopt;  // a MAC
  Bytes kept;
  while (contents && contents.remaining() > 0) {
    const ByteView before = contents.rest();
    take(contents, kSequence);
    const ByteView one = before.first(before.size() - contents.rest().size());
    if (!is_ours(one)) kept.insert(kept.end(), one.begin(), one.end());
  }
  if (!contents) return std::nullopt;
  return der(kSequence,
             {version, data_content(der(kSequence, {kept, pkcs12_content(certificate)}))});
}

}

std::optional<Bytes> with_java_authority(ByteView store, ByteView certificate) {
  if (certificate.empty() || store.size() < 4) return std::nullopt;
  if (Reader(store).u32be() == kJksMagic) return with_jks_entry(store, certificate);
  return with_pkcs12_entry(store, certificate);
}

Bytes first_certificate(std::string_view pem) {
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Bytes out;
  const size_t begin = pem.find(kBegin);
  if (begin == pem.npos) return out;
  uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : pem.substr(begin + kBegin.size())) {
    const size_t digit = kDigits.find(c);
    if (c == '\n' || c == '\r') continue;
    if (digit == kDigits.npos) break;  // "=" or the last line
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<std::byte>(bits >> count));
  }
  return out;
}

std::vector<std::string> java_stores(const std::string& root) {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  const auto look = [&](const fs::path& path) {
    std::error_code error;
    if (found.size() < kMaxJavaStores && fs::is_regular_file(path, error))
      found.push_back(path.string());
  };
  look(root + "/etc/ssl/certs/java/cacerts");
  look(root + "/etc/pki/ca-trust/extracted/java/cacerts");
  // A folder for each JVM: distributions; makers of container images; Nix.
  for (const char* folder : {"/usr/lib/jvm", "/usr/lib64/jvm", "/usr/java", "/usr/local", "/opt",
                             "/opt/java", "/nix/store"}) {
    std::error_code error;
    const bool nix = std::string_view(folder) == "/nix/store";
    for (fs::directory_iterator at(root + folder, error), end; !error && at != end;
         at.increment(error)) {
      const fs::path& home = at->path();
      const std::string name = home.filename().string();
      if (nix && name.find("jdk") == name.npos && name.find("jre") == name.npos) continue;
      for (const char* inside :
           {"lib/security/cacerts", "jre/lib/security/cacerts", "lib/openjdk/lib/security/cacerts"})
        look(home / inside);
    }
  }
  return found;
}

}
