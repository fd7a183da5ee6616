// What a guest can write into an audit record: values that it puts into paths, names and models are
// not there, in no way of writing them.
#include "../../../src/sandbox/withhold.h"

#include <array>

#include <gmock/gmock.h>

#include "mvm/audit/record.h"
#include "mvm/base/text.h"
#include "mvm/secret/text.h"

namespace mvm::sandbox {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSecret = "sk-real-value-0123456789";

Withholder withholder(std::vector<std::string> patterns = {}) {
  proto::SecretsConfig config;
  config.rules.resize(1);
  config.rules[0].name = "KEY";
  config.rules[0].hosts = {"api.example"};
  config.values = {{"KEY", kSecret}};
  proto::NetworkConfig network;
  network.pii.patterns = std::move(patterns);
  return {std::make_shared<secret::Secrets>(config), network};
}

// As it stands in the log.
std::string recorded(Withholder& withholder, const std::string& host, const std::string& path) {
  egress::Event event;
  event.kind = egress::EventKind::Http;
  event.host = host;
  event.path = path;
  event.method = "GET";
  return audit::encode({}, {}, audit::LogId("sb-1"),
                       audit::egress_record(withholder.cleaned(event)), {});
}

TEST(Withholder, PersonalDataInAPathIsNotRecorded) {
  Withholder one = withholder({"ticket TCK-[0-9]{4}"});
  for (const auto& [path, is] : {
           std::pair{"/users/jane.doe@example.com/mail", "/users/withheld/mail"},
           {"/users/jane.doe%40example.com", "/users/withheld"},
           {"/users/%6aane.doe%40example.com", "/users/withheld"},
           {"/pay/4111111111111111", "/pay/withheld"},
           {"/ssn/234-56-7891", "/ssn/withheld"},
           {"/iban/DE89370400440532013000", "/iban/withheld"},
           {"/passport/C01X00T47", "/passport/withheld"},
           {"/call/+14155552671", "/call/withheld"},
           {"/t/TCK-1234", "/t/withheld"},
           {"/v1/chat/completions", "/v1/chat/completions"},
           {"/pool/main/g/gcc-12/gcc-12_12.2.0-14_amd64.deb",
            "/pool/main/g/gcc-12/gcc-12_12.2.0-14_amd64.deb"},
           {"/", "/"},
           {"", ""},
       }) {
    egress::Event event;
    event.path = path;
    EXPECT_EQ(one.cleaned(event).path, is);
  }
}

TEST(Withholder, PersonalDataInANameIsNotRecorded) {
  Withholder one = withholder();
  EXPECT_EQ(one.host("234-56-7891.evil.example"), "withheld.evil.example");
  EXPECT_EQ(one.host("4111111111111111.evil.example"), "withheld.evil.example");
  for (const char* plain : {"api.example", "eu-west-1.api.example", "a.b.c", "", "x"})
    EXPECT_EQ(one.host(plain), plain);
}

TEST(Withholder, ASecretIsNotRecordedInAnyWriting) {
  Withholder one = withholder();
  const std::string value = kSecret;
  for (const std::string& text :
       {value, secret::base64(value), secret::written("a/" + value, secret::Writing::Percent)}) {
    const std::string line = recorded(one, "api.example", "/x/" + text + "/y");
    EXPECT_THAT(line, Not(HasSubstr(text)));
    EXPECT_THAT(line, HasSubstr("\"/withheld\""));
  }
  EXPECT_THAT(recorded(one, value + ".evil.example", "/"), Not(HasSubstr("0123456789")));
  // Names are written in small letters, and labels are short.
  EXPECT_EQ(one.host("sk-REAL-val.ue-0123456789.evil.example"), "withheld");
}

TEST(Withholder, AModelsNameMayHoldNeither) {
  Withholder one = withholder();
  EXPECT_TRUE(one.holds(kSecret));
  EXPECT_TRUE(one.holds("m-jane.doe@example.com"));
  EXPECT_TRUE(one.holds("mvmpiik3qxyz@pii.invalid"));
  for (const char* model : {"gpt-4o-2024-08-06", "claude-3-5-sonnet-20241022", "gemini-2.0-flash",
                            "meta.llama3-1-405b-instruct-v1:0", "mistral-large-2407"})
    EXPECT_FALSE(one.holds(model)) << model;
}

struct Sample {
  protect::PiiClass kind;
  const char* segment;  // before the value, which it gives its name; may be empty
  const char* value;
};
using enum protect::PiiClass;
constexpr std::array kSamples = std::to_array<Sample>({
    {Email, "", "jane.doe@example.com"},
    {Phone, "", "+4915112345678"},
    {Card, "", "4111111111111111"},
    {Iban, "", "DE89370400440532013000"},
    {UsSsn, "", "234-56-7891"},
    {UsItin, "", "912-70-1234"},
    {UkNino, "", "AB123456C"},
    {UkNhs, "nhs_number", "9434765919"},
    {NationalId, "", "756.9217.0769.85"},
    {BankRouting, "routing_number", "021000021"},
    {Vin, "", "1HGCM82633A004352"},
    {CryptoAddress, "", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
    {Ipv4, "", "192.0.2.17"},
    {Ipv6, "", "2001:db8::8a2e:370:7334"},
    {Mac, "", "3c:22:fb:12:34:56"},
    {Coordinates, "coordinates", "48.85837,2.29448"},
    {BirthDate, "birth_date", "1980-01-31"},
    {Passport, "passport", "C01X00T47"},
    {DrivingLicence, "driving_licence", "MORGA753116SM9IJ"},
    {Jwt, "", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"},
    {PrivateKey, "",
     "-----BEGIN EC PRIVATE "
     "KEY-----\nMHcCAQEEIKzOdq0VnU4oWnv3XkG0b8yq2xJ6cW5dTf1LrQe7HsYpoAoGCCqGSM49\n"
     "AwEHoUQDQgAE5cQ8Xy7r0mWv2Jt9kLz4bN6pHs3GfDq1RaUeTiYoPx\n-----END EC PRIVATE KEY-----"},
    {ApiKey, "", "AKIAIOSFODNN7EXAMPLE"},
    {HighEntropy, "client_secret", "q7Rk2Vx9Lm4Tz8Wb1Nc6Hd3Jf5Gs0Pa"},
    {Custom, "", "TCK-1234"},
});

TEST(Withholder, EveryClassOfPersonalDataStaysOutOfTheLog) {
  Withholder one = withholder({"ticket TCK-[0-9]{4}"});
  protect::ClassSet seen;
  for (const auto& [kind, segment, value] : kSamples) {
    SCOPED_TRACE(protect::class_name(kind));
    seen.insert(kind);
    if (kind != Custom) {
      // It is one of its class, so that the rest says something.
      protect::ValueScanner scanner{protect::Detectors()};
      std::vector<protect::PiiClass> found;
      scanner.look(segment, value, [&](const protect::Finding& finding, std::string_view) {
        found.push_back(finding.kind);
        return std::string();
      });
      EXPECT_THAT(found, ::testing::Contains(kind));
    }
    std::string percent;
    for (const char c : std::string_view(value))
      percent += "%" + hex(as_bytes(std::string_view(&c, 1)));
    for (const std::string& written : {std::string(value), percent}) {
      for (const char* behind : {"", "/b"}) {
        const std::string line =
            recorded(one, "api.example", "/a/" + std::string(segment) + "/" + written + behind);
        EXPECT_THAT(line, Not(HasSubstr(written)));
        EXPECT_THAT(line, HasSubstr("withheld"));
      }
    }
  }
  for (size_t i = 0; i < protect::kPiiClasses; ++i)
    EXPECT_TRUE(seen.has(static_cast<protect::PiiClass>(i)))
        << "no value of the class " << protect::class_name(static_cast<protect::PiiClass>(i));
}

}
}
