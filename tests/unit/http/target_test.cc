#include "mvm/http/target.h"

#include <gtest/gtest.h>

namespace mvm::http {
namespace {

RequestHead head(std::string method, std::string target, const char* host, int minor = 1) {
  RequestHead out{std::move(method), std::move(target), minor, {}, {}};
  if (host != nullptr) out.headers.push_back({"Host", host});
  return out;
}

TEST(Authority, ReadsNamesAddressesAndPorts) {
  EXPECT_EQ(parse_authority("Example.COM"), (Authority{"example.com", std::nullopt}));
  EXPECT_EQ(parse_authority("example.com."), (Authority{"example.com", std::nullopt}));
  EXPECT_EQ(parse_authority("example.com:8443"), (Authority{"example.com", 8443}));
  EXPECT_EQ(parse_authority("192.0.2.1:80"), (Authority{"192.0.2.1", 80}));
  EXPECT_EQ(parse_authority("[2001:DB8::1]:443"), (Authority{"2001:db8::1", 443}));
  EXPECT_EQ(parse_authority("[::1]"), (Authority{"::1", std::nullopt}));
  EXPECT_EQ(parse_authority("a_b.c:65535"), (Authority{"a_b.c", 65535}));
}

TEST(Authority, RefusesWhatReadersDifferOn) {
  for (const char* text :
       {"",          ".",        ":80",         "a:",      "a:0",          "a:080",
        "a:+80",     "a:65536",  "a:800000",    "a:80:80", "u@a",          "u:p@a",
        "a/b",       "a?b",      "a b",         " a",      "a\t",          "a,b",
        "a;b",       "a%41",     "*.a",         "-a",      "a..b",         "::1",
        "[::1",      "::1]",     "[192.0.2.1]", "[::1]x",  "[::1%25eth0]", "[]",
        "127.1",     "1.2.3",    "0x7f000001",  "0x7f.1",  "2130706433",   "1.2.3.4.5",
        "256.1.1.1", "01.2.3.4", "1.2.3.4."})
    EXPECT_FALSE(parse_authority(text)) << text;
  EXPECT_FALSE(parse_authority(std::string(300, 'a')));
}

TEST(RequestTarget, OriginFormTakesItsAuthorityFromHost) {
  RequestTarget target;
  ASSERT_EQ(read_target(head("GET", "/a?b=c", "X:81"), target), TargetFault::None);
  EXPECT_EQ(target, (RequestTarget{TargetForm::Origin, "", Authority{"x", 81}, "/a?b=c"}));
}

TEST(RequestTarget, AbsoluteFormHasItsOwn) {
  RequestTarget target;
  ASSERT_EQ(read_target(head("GET", "HTTP://Example.com/a?b", "example.com:80"), target),
            TargetFault::None);
  EXPECT_EQ(target, (RequestTarget{TargetForm::Absolute, "http",
                                   Authority{"example.com", std::nullopt}, "/a?b"}));
  read_target(head("GET", "https://a:8443", "a:8443"), target);
  EXPECT_EQ(target, (RequestTarget{TargetForm::Absolute, "https", Authority{"a", 8443}, "/"}));
  read_target(head("GET", "http://a?b", "a"), target);
  EXPECT_EQ(target.origin, "/?b");
  read_target(head("OPTIONS", "http://a", "a"), target);
  EXPECT_EQ(target.origin, "*");
}

TEST(RequestTarget, ConnectAndAsteriskAreForTheirMethods) {
  RequestTarget target;
  ASSERT_EQ(read_target(head("CONNECT", "a:443", "a:443"), target), TargetFault::None);
  EXPECT_EQ(target, (RequestTarget{TargetForm::Authority, "", Authority{"a", 443}, ""}));
  ASSERT_EQ(read_target(head("OPTIONS", "*", "a"), target), TargetFault::None);
  EXPECT_EQ(target, (RequestTarget{TargetForm::Asterisk, "", Authority{"a", std::nullopt}, "*"}));
  for (const auto& [method, text] :
       std::vector<std::pair<const char*, const char*>>{{"GET", "*"},
                                                        {"GET", "a:443"},
                                                        {"CONNECT", "a"},
                                                        {"CONNECT", "/"},
                                                        {"CONNECT", "http://a:443/"},
                                                        {"GET", "ftp://a/"},
                                                        {"GET", "http:/a"},
                                                        {"GET", "http://"},
                                                        {"GET", "http:///x"},
                                                        {"GET", "ws://a/"}})
    EXPECT_EQ(read_target(head(method, text, "a"), target), TargetFault::BadTarget) << text;
}

TEST(RequestTarget, HostMustAgreeWithTheTarget) {
  RequestTarget target;
  const auto fault = [&](const char* method, const char* text, const char* host) {
    return read_target(head(method, text, host), target);
  };
  EXPECT_EQ(fault("GET", "http://a/", "A:80"), TargetFault::None);
  EXPECT_EQ(fault("GET", "https://a/", "a:443"), TargetFault::None);
  EXPECT_EQ(fault("GET", "https://a/", "a:80"), TargetFault::HostMismatch);
  EXPECT_EQ(fault("GET", "http://a/", "b"), TargetFault::HostMismatch);
  EXPECT_EQ(fault("CONNECT", "a:443", "a"), TargetFault::None);
  // Of CONNECT the target counts, whatever a Host says that is one.
  EXPECT_EQ(fault("CONNECT", "a:443", "a:80"), TargetFault::None);
  EXPECT_EQ(fault("CONNECT", "a:443", "b:443"), TargetFault::None);
  EXPECT_EQ(fault("CONNECT", "a:443", "u@a:443"), TargetFault::BadHost);
}

TEST(RequestTarget, HostMayBeMissingInHttp10Only) {
  RequestTarget target;
  EXPECT_EQ(read_target(head("GET", "/", nullptr, 0), target), TargetFault::None);
  EXPECT_FALSE(target.authority);
  EXPECT_EQ(read_target(head("GET", "/", nullptr), target), TargetFault::BadHost);
  EXPECT_EQ(read_target(head("GET", "http://a/", nullptr), target), TargetFault::BadHost);
}

}
}
