#include "certificate.h"

#include <array>

namespace mvm::crypto {

static constexpr size_t kMaxCommonName = 64;  // RFC 5280, ub-common-name
static constexpr int kSerialBits = 127;       // positive in 16 bytes

KeyPtr make_key() { return KeyPtr(need_object(EVP_EC_gen("P-256"), "making a P-256 key")); }

GeneralNamePtr dns_name(std::string_view name) {
  GeneralNamePtr general(need_object(GENERAL_NAME_new(), "making a certificate"));
  ASN1_IA5STRING* text = need_object(ASN1_IA5STRING_new(), "making a certificate");
  GENERAL_NAME_set0_value(general.get(), GEN_DNS, text);
  need(ASN1_STRING_set(text, name.data(), static_cast<int>(name.size())) == 1,
       "making a certificate");
  return general;
}

static GeneralNamePtr bytes_name(std::span<const uint8_t> bytes) {
  GeneralNamePtr general(need_object(GENERAL_NAME_new(), "making a certificate"));
  ASN1_OCTET_STRING* octets = need_object(ASN1_OCTET_STRING_new(), "making a certificate");
  GENERAL_NAME_set0_value(general.get(), GEN_IPADD, octets);
  need(ASN1_OCTET_STRING_set(octets, bytes.data(), static_cast<int>(bytes.size())) == 1,
       "making a certificate");
  return general;
}

GeneralNamePtr address_name(const IpAddress& address) { return bytes_name(address.bytes()); }

GeneralNamePtr range_name(const IpPrefix& range) {
  const auto address = range.address().bytes();
  std::array<uint8_t, 32> both{};
  std::copy(address.begin(), address.end(), both.begin());
  for (unsigned bit = 0; bit < range.length(); ++bit)
    both[address.size() + bit / 8] |= static_cast<uint8_t>(0x80U >> (bit % 8));
  return bytes_name(std::span(both).first(2 * address.size()));
}

static void set_random_serial(X509* certificate) {
  const BignumPtr number(need_object(BN_new(), "making a certificate"));
  // The top bit set, so that every serial is as long as every other.
  need(BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
           BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr,
       "making a certificate's serial number");
}

static void set_name(X509_NAME* name, std::string_view common_name) {
  const auto add = [&](const char* field, std::string_view text) {
    // char may alias unsigned char.
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    need(X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, bytes,
                                    static_cast<int>(text.size()), -1, 0) == 1,
         "naming a certificate");
  };
  add("O", "mvm");
  add("CN", common_name.substr(0, kMaxCommonName));
}

CertificateBuilder::CertificateBuilder(std::string_view common_name, EVP_PKEY* key, X509* issuer)
    : certificate_(need_object(X509_new(), "making a certificate")), issuer_(issuer) {
  X509* const made = certificate_.get();
  need(X509_set_version(made, X509_VERSION_3) == 1 && X509_set_pubkey(made, key) == 1,
       "making a certificate");
  set_random_serial(made);
  set_name(X509_get_subject_name(made), common_name);
  const X509_NAME* by =
      issuer == nullptr ? X509_get_subject_name(made) : X509_get_subject_name(issuer);
  need(X509_set_issuer_name(made, by) == 1, "making a certificate");
}

CertificateBuilder& CertificateBuilder::valid(Time from, Time until) {
  X509* const made = certificate_.get();
  need(ASN1_TIME_set(X509_getm_notBefore(made), std::chrono::system_clock::to_time_t(from)) !=
               nullptr &&
           ASN1_TIME_set(X509_getm_notAfter(made), std::chrono::system_clock::to_time_t(until)) !=
               nullptr,
       "dating a certificate");
  return *this;
}

CertificateBuilder& CertificateBuilder::add(int nid, const char* value) {
  X509V3_CTX context;
  X509* const issuer = issuer_ == nullptr ? certificate_.get() : issuer_;
  X509V3_set_ctx(&context, issuer, certificate_.get(), nullptr, nullptr, 0);
  const ExtensionPtr extension(
      need_object(X509V3_EXT_conf_nid(nullptr, &context, nid, value), "extending a certificate"));
  need(X509_add_ext(certificate_.get(), extension.get(), -1) == 1, "extending a certificate");
  return *this;
}

CertificateBuilder& CertificateBuilder::alternative_name(GeneralNamePtr name) {
  const GeneralNamesPtr names(need_object(GENERAL_NAMES_new(), "making a certificate"));
  need(sk_GENERAL_NAME_push(names.get(), name.get()) > 0, "making a certificate");
  name.release();
  need(X509_add1_ext_i2d(certificate_.get(), NID_subject_alt_name, names.get(), 0,
                         X509V3_ADD_DEFAULT) == 1,
       "extending a certificate");
  return *this;
}

static void add_subtree(STACK_OF(GENERAL_SUBTREE) * *list, GeneralNamePtr name) {
  if (*list == nullptr) *list = need_object(sk_GENERAL_SUBTREE_new_null(), "making a certificate");
  GENERAL_SUBTREE* tree = need_object(GENERAL_SUBTREE_new(), "making a certificate");
  GENERAL_NAME_free(tree->base);
  tree->base = name.release();
  if (sk_GENERAL_SUBTREE_push(*list, tree) > 0) return;
  GENERAL_SUBTREE_free(tree);
  need(false, "making a certificate");
}

// RFC 5280 §4.2.1.10. A kind of name that no constraint is about is unconstrained, so both kinds
// that leaves can have always get one: "" is every DNS name, a mask of no bits every address.
CertificateBuilder& CertificateBuilder::constraints(const AuthorityScope& scope) {
  const NameConstraintsPtr made(need_object(NAME_CONSTRAINTS_new(), "making a certificate"));
  if (!scope.any_name) {
    for (const std::string& name : scope.names)
      add_subtree(&made->permittedSubtrees, dns_name(name));
    if (scope.names.empty()) add_subtree(&made->excludedSubtrees, dns_name(""));
  }
  bool v4 = false;
  bool v6 = false;
  for (const IpPrefix& range : scope.ranges) {
    add_subtree(&made->permittedSubtrees, range_name(range));
    (range.address().is_v4() ? v4 : v6) = true;
  }
  if (!v4) add_subtree(&made->excludedSubtrees, range_name(IpPrefix(IpAddress(), 0)));
  if (!v6)
    add_subtree(&made->excludedSubtrees, range_name(IpPrefix(IpAddress(IpAddress::V6{}), 0)));
  if (made->permittedSubtrees != nullptr || made->excludedSubtrees != nullptr)
    need(X509_add1_ext_i2d(certificate_.get(), NID_name_constraints, made.get(), 1,
                           X509V3_ADD_DEFAULT) == 1,
         "extending a certificate");
  return *this;
}

CertificatePtr CertificateBuilder::sign(EVP_PKEY* issuer_key) {
  need(X509_sign(certificate_.get(), issuer_key, EVP_sha256()) > 0, "signing a certificate");
  return std::move(certificate_);
}

std::string to_pem(X509* certificate) {
  const BioPtr bio(need_object(BIO_new(BIO_s_mem()), "writing a certificate"));
  need(PEM_write_bio_X509(bio.get(), certificate) == 1, "writing a certificate");
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<size_t>(length)};
}

}
