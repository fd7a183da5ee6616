// Each class: what is found, exactly; and what looks like it and is not.

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/protect/scanner.h"

namespace mvm::protect {
namespace {

// "class:value" of each finding.
std::vector<std::string> found(std::string_view text) {
  std::vector<std::string> out;
  for (const Finding& finding : scan(text))
    out.push_back(std::string(class_name(finding.kind)) + ":" +
                  std::string(text.substr(finding.offset, finding.length)));
  return out;
}

struct Case {
  std::string_view text;
  std::vector<std::string> findings;
};

void expect(const std::vector<Case>& cases) {
  for (const Case& one : cases) EXPECT_EQ(found(one.text), one.findings) << one.text;
}

TEST(Email, IsFoundWithoutWhatSurroundsIt) {
  expect({{"to john.doe+x@mail.example.com.", {"email:john.doe+x@mail.example.com"}},
          {"<a@b.co.uk>,'c@d.org'", {"email:a@b.co.uk", "email:c@d.org"}},
          {"mailto:o'neil@example.ie", {"email:o'neil@example.ie"}},
          {"git@github.com:owner/repo ssh://git@host.example/x", {}},
          {"icon@2x.png photo@home.jpg user@localhost pkg@1.2.3", {}},
          {"a..b@example.com @example.com x@y x@.com x@-a.com x@a..com", {}}});
}

// In scripts without spaces a sentence goes on right beside it.
TEST(Email, IsFoundBesideAnyScript) {
  expect({{"メールはjane@example.comです。", {"email:jane@example.com"}},
          {"邮箱：jane@example.com，电话", {"email:jane@example.com"}},
          {"이메일jane@example.com입니다", {"email:jane@example.com"}},
          {"อีเมลjane@example.comค่ะ", {"email:jane@example.com"}},
          {"“jane@example.com” «jane@example.org» jane@example.net…",
           {"email:jane@example.com", "email:jane@example.org", "email:jane@example.net"}},
          {"jane@example.com–bob@example.com", {"email:jane@example.com", "email:bob@example.com"}},
          {"почта:jane@example.com, Борис", {"email:jane@example.com"}},
          {"\xff\xfejane@example.com\xc3", {"email:jane@example.com"}}});
}

// RFC 6531, and domains as people write them.
TEST(Email, MayHaveLettersBeyondAscii) {
  expect({{"an müller@firma.de, josé.peña@example.com",
           {"email:müller@firma.de", "email:josé.peña@example.com"}},
          {"jane@müller.de und jane@mail.straße-köln.de.",
           {"email:jane@müller.de", "email:jane@mail.straße-köln.de"}},
          {"иван@почта.рф", {"email:иван@почта.рф"}},
          {"user@例え.jpです user@例子.中国", {"email:user@例え.jp", "email:user@例子.中国"}},
          {"jane@example.com.です x@é é@x @例え.jp x@、.jp", {"email:jane@example.com"}}});
}

TEST(Phone, WithCountryCode) {
  expect({{"+1 415 555 2671", {"phone:+1 415 555 2671"}},
          {"+44 (0)20 7946 0958", {"phone:+44 (0)20 7946 0958"}},
          {"(+49) 30 901820", {"phone:+49) 30 901820"}},
          {"tel 0033 1 42 68 53 00", {"phone:0033 1 42 68 53 00"}},
          {"call 0.005994", {}},
          {"+1 115 555 2671 +999 123 456 789 +44 12", {}}});
}

TEST(Phone, NationalByItsGroupsOrByWords) {
  expect({{"(415) 555-2671 and 415-555-2671", {"phone:(415) 555-2671", "phone:415-555-2671"}},
          {"020 7946 0958, 06 12 34 56 78", {"phone:020 7946 0958", "phone:06 12 34 56 78"}},
          {"090-1234-5678 and 010-1234-5678", {"phone:090-1234-5678", "phone:010-1234-5678"}},
          {"(11) 91234-5678", {"phone:(11) 91234-5678"}},
          {"phone: 4155552671", {"phone:4155552671"}},
          {"Telefon 030 1234567", {"phone:030 1234567"}},
          {"{\"homePhone\": \"612345678\"}", {"phone:612345678"}},
          {"phone 0711.123456, cell 415.555.2671, mobile 555.1234",
           {"phone:0711.123456", "phone:415.555.2671", "phone:555.1234"}},
          {"max cell rate: 353207.547 cells, phone 1412830.188", {}},
          {"order 4155552671, phone 2024-11-30", {}},
          {"{\"phone\": null, \"count\": 4155552671}", {}}});
}

TEST(Card, NeedsIssuerAndLuhn) {
  expect({{"4111 1111 1111 1111 12/27", {"card:4111 1111 1111 1111"}},
          {"5555555555554444", {"card:5555555555554444"}},
          {"3782-822463-10005", {"card:3782-822463-10005"}},
          {"6011000990139424", {"card:6011000990139424"}},
          {"4111111111111112 1234567812345670 0000000000000000", {}},
          {"order 4111111111111111", {}},
          {"x4111111111111111 4111111111111111x 41111111111111111", {}},
          {"4111 1111 1111 1111 1111", {}}});
}

TEST(Iban, NeedsItsCountrysLengthAndMod97) {
  expect({{"DE89370400440532013000", {"iban:DE89370400440532013000"}},
          {"GB29 NWBK 6016 1331 9268 19", {"iban:GB29 NWBK 6016 1331 9268 19"}},
          {"NO9386011117947", {"iban:NO9386011117947"}},
          {"DE89370400440532013001 DE8937040044053201300 XX89370400440532013000", {}}});
}

TEST(UnitedStates, TaxpayersAndBanks) {
  expect({{"536-90-4399 912-70-1234", {"us_ssn:536-90-4399", "us_itin:912-70-1234"}},
          {"ssn: 536904399", {"us_ssn:536904399"}},
          {"000-12-3456 666-12-3456 536-00-4399 536-90-0000 078-05-1120 912-10-1234", {}},
          {"536904399", {}},
          {"routing number 021000021", {"bank_routing:021000021"}},
          {"routing number 021000022", {}},
          {"021000021", {}}});
}

TEST(UnitedKingdom, InsuranceAndHealth) {
  expect({{"AB123456C or AB 12 34 56 C", {"uk_nino:AB123456C", "uk_nino:AB 12 34 56 C"}},
          {"NHS number 943 476 5919", {"uk_nhs:943 476 5919"}},
          {"BG123456C DA123456A AB123456E xAB123456C AB123456CD", {}},
          {"NHS number 943 476 5918", {}}});
}

TEST(NationalId, OfManyCountries) {
  expect({{"12345678Z", {"national_id:12345678Z"}},
          {"X1234567L", {"national_id:X1234567L"}},
          {"RSSMRA85T10A562S", {"national_id:RSSMRA85T10A562S"}},
          {"111.444.777-35", {"national_id:111.444.777-35"}},
          {"131052-308T", {"national_id:131052-308T"}},
          {"PESEL 44051401359", {"national_id:44051401359"}},
          {"1 85 05 78 006 084 91", {"national_id:1 85 05 78 006 084 91"}},
          {"BSN 111222333", {"national_id:111222333"}},
          {"11010519491231002X", {"national_id:11010519491231002X"}},
          {"Aadhaar 2345 6789 0124", {"national_id:2345 6789 0124"}},
          {"756.9217.0769.85", {"national_id:756.9217.0769.85"}},
          {"S1234567D", {"national_id:S1234567D"}},
          {"811228-9874", {"national_id:811228-9874"}},
          {"SIN 123 456 782", {"national_id:123 456 782"}},
          {"12345678A X1234567A 111.444.777-36 131052-308U", {}},
          {"PESEL 44051401358, order PESEL-44051401359", {}},
          {"44051401359", {}}});
}

// Those that docs/pii.md names and neither the test above nor the corpus (tests/pii) has; the check
// digits are python3-stdnum's.
TEST(NationalId, OfTheOtherCountries) {
  expect({{"EGN 8505165937", {"national_id:8505165937"}},
          {"OIB 59922693318", {"national_id:59922693318"}},
          {"isikukood 38503125163", {"national_id:38503125163"}},
          {"asmens kodas 38503123626", {"national_id:38503123626"}},
          {"AMKA 12038577958", {"national_id:12038577958"}},
          {"teudat zehut 080673940", {"national_id:080673940"}},
          {"1-9609-09780-98-6", {"national_id:1-9609-09780-98-6"}},
          {"PPS 0333608B", {"national_id:0333608B"}},
          {"CPR-nr. 120385-7738", {"national_id:120385-7738"}},
          {"855312/1214", {"national_id:855312/1214"}},
          {"national id A104163107", {"national_id:A104163107"}},
          {"マイナンバー733039151062", {"national_id:733039151062"}},
          {"EGN 8505165938, OIB 59922693319, isikukood 38503125161, AMKA 12038577959", {}},
          {"teudat zehut 080673941, 1-9609-09780-98-7, PPS 0333608C, national id A104163108", {}},
          {"マイナンバー733039151063", {}}});
}

TEST(Vin, NeedsItsCheckDigit) {
  expect({{"1M8GDM9AXKP042788", {"vin:1M8GDM9AXKP042788"}},
          {"1M8GDM9A1KP042788 1M8GDM9AXKPO42788 1M8GDM9AXKP042788X", {}}});
}

TEST(CryptoAddress, NeedsItsChecksum) {
  expect({{"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
           {"crypto_address:1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"}},
          {"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
           {"crypto_address:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}},
          {"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
           {"crypto_address:bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"}},
          {"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
           {"crypto_address:bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"}},
          {"56 71 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
           {"crypto_address:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}},
          {"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb", {}},
          {"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD", {}},
          {"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdw", {}}});
}

TEST(NetworkAddresses, OfSomebody) {
  expect(
      {{"from 10.1.2.3, 8.8.8.8:53", {"ipv4:10.1.2.3", "ipv4:8.8.8.8"}},
       {"v1.2.3.4 version 1.2.3.4 Chrome/120.0.0.0 1.2.3.4.5 1.2.3.256 01.2.3.4", {}},
       {"127.0.0.1 0.0.0.0 255.255.255.0", {}},
       {"[2001:db8::ff00:42:8329]:80", {"ipv6:2001:db8::ff00:42:8329"}},
       {"fe80::1%eth0", {"ipv6:fe80::1"}},
       {"2001:0db8:85a3:0000:0000:8a2e:0370:7334",
        {"ipv6:2001:0db8:85a3:0000:0000:8a2e:0370:7334"}},
       {"std::string a::b ::1 12:34:56 dead::beef::1", {}},
       {"00:1A:2B:3C:4D:5E 00-1a-2b-3c-4d-5e", {"mac:00:1A:2B:3C:4D:5E", "mac:00-1a-2b-3c-4d-5e"}},
       {"aa:bb:cc:dd:ee:ff:00:11 ff:ff:ff:ff:ff:ff 00:1A:2B:3C:4D", {}}});
}

// Sections, versions and object identifiers look the same where the numbers are small.
TEST(NetworkAddresses, OfSmallNumbersOnlyWhereTheyAreWrittenAsOnes) {
  expect(
      {{"/* 5.2.3.11 */ [27.4.2.2] (17.4.3.6) from section 4.1.2.222, `3.1.3.6` C++14 20.8.2.3",
        {}},
       {"capi.h,v 1.4.6.1 2001/09/23", {}},
       {"\"2.5.29.15\" '2.5.4.3' OID = 1.3.101.112", {}},
       {"nameserver 8.8.8.8", {"ipv4:8.8.8.8"}},
       {"connection from 8.8.4.4 closed, client 5.2.3.11 gone", {"ipv4:8.8.4.4", "ipv4:5.2.3.11"}},
       {"{\"ip\": \"2.5.29.15\", \"x\": \"1.1.1.1\"}", {"ipv4:2.5.29.15", "ipv4:1.1.1.1"}},
       {"dns=8.8.8.8 http://8.8.8.8/ 8.8.8.8:53 1.1.1.0/24 a@8.8.8.8",
        {"ipv4:8.8.8.8", "ipv4:8.8.8.8", "ipv4:8.8.8.8", "ipv4:1.1.1.0", "ipv4:8.8.8.8"}},
       {"8.8.8.8 - - [01/Jan/2024:00:00:00 +0000] \"GET / HTTP/1.1\"", {"ipv4:8.8.8.8"}},
       {"connect to 5.2.3.11 failed, blocked 5.2.3.12", {"ipv4:5.2.3.11", "ipv4:5.2.3.12"}},
       {"seen 35.40.12.7, not 5.2.3.11", {"ipv4:35.40.12.7"}},
       {"seen 10.0.0.1 and 93.18.21.34", {"ipv4:10.0.0.1", "ipv4:93.18.21.34"}}});
}

TEST(Coordinates, ByLabelOrHemisphere) {
  expect({{"location 48.8566, 2.3522", {"coordinates:48.8566, 2.3522"}},
          {"{\"lat\": 48.8566, \"lng\": -2.3522}", {"coordinates:48.8566", "coordinates:-2.3522"}},
          {"48.8566° N, 2.3522° E", {"coordinates:48.8566° N, 2.3522° E"}},
          {"48°51'24\"N 2°21'08\"E", {"coordinates:48°51'24\"N 2°21'08\"E"}},
          {"0.12345, 0.34567 and 98.6° F", {}}});
}

TEST(BirthDate, NeedsWords) {
  expect({{"born 12 March 1985", {"birth_date:12 March 1985"}},
          {"born on March 12, 1985", {"birth_date:March 12, 1985"}},
          {"\"date_of_birth\": \"1985-03-12\"", {"birth_date:1985-03-12"}},
          {"geboren am 12.03.1985", {"birth_date:12.03.1985"}},
          {"生年月日：1985年3月12日", {"birth_date:1985年3月12日"}},
          {"updated 1985-03-12, 12 March 1985, born 31.02.1985", {}}});
}

TEST(Papers, NeedWords) {
  expect({{"passport no. X1234567", {"passport:X1234567"}},
          {"Reisepass C01X00T47", {"passport:C01X00T47"}},
          {"driver license D1234567", {"driving_licence:D1234567"}},
          {"MORGA657054SM9IJ", {"driving_licence:MORGA657054SM9IJ"}},
          {"part X1234567", {}}});
}

TEST(Secrets, OfKnownForms) {
  expect({{"AKIAIOSFODNN7EXAMPLE", {"api_key:AKIAIOSFODNN7EXAMPLE"}},
          {"key=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;",
           {"api_key: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"}},
          {"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
           {"api_key:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}},
          {"password=\"kJ8sd7Hq2LmN0pQr5T\"", {"high_entropy:kJ8sd7Hq2LmN0pQr5T"}},
          {"postgres://user:s3cretPass@db.example.com/x", {"high_entropy:s3cretPass"}},
          {"PublicKey[\"PKIX_RSA_PSS_2048_SHA256\"] = 16, key = \"PKIX_RSA_PKCS1V15_2048_SHA256\"",
           {}},
          {"password=kJ8sd7Hq2LmN0pQr5T token=kJ8sd7Hq2LmN0pQr5T",
           {"high_entropy:kJ8sd7Hq2LmN0pQr5T", "high_entropy:kJ8sd7Hq2LmN0pQr5T"}},
          {"exports.X509SubjectKeyIDExtension = X509SubjectKeyIDExtension;", {}},
          {"key: \"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE1Olb3zMAFFxXKHiIkQO5cJ3Yhl5i6UPp\"", {}},
          {"密码：kJ8sd7Hq2LmN0pQr5T。", {"high_entropy:kJ8sd7Hq2LmN0pQr5T"}},
          {"パスワードはkJ8sd7Hq2LmN0pQr5Tです", {"high_entropy:kJ8sd7Hq2LmN0pQr5T"}},
          {"Passwort: „kJ8sd7Hq2LmN0pQr5T“", {"high_entropy:kJ8sd7Hq2LmN0pQr5T"}},
          {"mot de passe : kJ8sd7Hq2LmN0pQr5T", {"high_entropy:kJ8sd7Hq2LmN0pQr5T"}},
          {"版本kJ8sd7Hq2LmN0pQr5T", {}},
          {"xAKIAIOSFODNN7EXAMPLE AKIAIOSFODNN7EXAMPL sk_live_xxxxxxxxxxxxxxxxxxxxxxxx", {}},
          {"token=550e8400-e29b-41d4-a716-446655440000 sha256: "
           "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
           {}}});
}

TEST(Secrets, GithubTokensNeedTheirChecksum) {
  // The last six characters by another implementation (Python's zlib).
  expect({{"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",
           {"api_key: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"}},
          {"ghp_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq18", {}}});
}

TEST(Secrets, TokensAndPrivateKeys) {
  const std::string body(64, 'A');
  const std::string key =
      "-----BEGIN EC PRIVATE KEY-----\n" + body + "\n" + body + "\n-----END EC PRIVATE KEY-----";
  expect(
      {{"x " + key + "\n", {"private_key:" + key}},
       {"strstr(x, \"-----BEGIN PRIVATE KEY-----\") != NULL", {}},
       {"-----BEGIN CERTIFICATE-----\n" + body + "\n-----END CERTIFICATE-----", {}},
       {"Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
        {"jwt:eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"}},
       {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0 eyJmb28iOiJiYXIifQ.eyJzdWIiOiIxIn0.abcdefgh", {}}});
}

TEST(Classes, HaveNamesThatReadBack) {
  for (size_t i = 0; i < kPiiClasses; ++i) {
    const auto kind = static_cast<PiiClass>(i);
    EXPECT_EQ(class_from_name(class_name(kind)), kind);
  }
  EXPECT_FALSE(class_from_name("unknown"));
}

TEST(Classes, OnlyWantedOnesAreFound) {
  ClassSet set;
  set.insert(PiiClass::Email);
  const auto findings = scan("a@b.org 4111111111111111 10.1.2.3", set);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, PiiClass::Email);
}

}
}
