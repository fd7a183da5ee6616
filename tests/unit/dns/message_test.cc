#include "mvm/dns/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mvm::dns {
namespace {

using namespace std::string_literals;

Name name(std::string_view text) { return Name::parse(text).value(); }

// id 0x1234, RD, one question ("Example.com", A, IN) and what follows.
std::string query_text(std::string_view rest = "", char additionals = 0) {
  return "\x12\x34\1\0\0\1\0\0\0\0\0"s + additionals + "\7Example\3com\0\0\1\0\1"s +
         std::string(rest);
}
const std::string kOpt = "\0\0\x29\x10\0\0\0\0\0\0\0"s;  // 4096 bytes

Expected<Query, QueryError> parse(const std::string& text) { return parse_query(as_bytes(text)); }

TEST(ParseQuery, ReadsTheOneQuestion) {
  const auto query = parse(query_text());
  ASSERT_TRUE(query);
  EXPECT_EQ(query->id, 0x1234);
  EXPECT_TRUE(query->recursion_desired);
  EXPECT_EQ(query->name, name("example.com"));
  EXPECT_EQ(query->type, RecordType::A);
  EXPECT_FALSE(query->edns_size);
}

TEST(ParseQuery, TakesTheClientsDatagramSize) {
  EXPECT_EQ(parse(query_text(kOpt, 1))->edns_size, 4096);
  // RFC 6891 §6.2.3: less than 512 is 512.
  EXPECT_EQ(parse(query_text("\0\0\x29\0\1\0\0\0\0\0\0"s, 1))->edns_size, 512);
}

TEST(ParseQuery, TellsTheClientWhatIsWrong) {
  const auto rcode = [](const std::string& text) {
    const auto query = parse(text);
    EXPECT_FALSE(query);
    EXPECT_EQ(query.error().id, 0x1234);
    return query.error().rcode;
  };
  std::string notify = query_text();
  notify[2] = '\x20';
  EXPECT_EQ(rcode(notify), Rcode::NotImp);
  std::string two = query_text();
  two[5] = 2;
  EXPECT_EQ(rcode(two), Rcode::FormErr);
  std::string chaos = query_text();
  chaos.back() = 3;
  EXPECT_EQ(rcode(chaos), Rcode::Refused);
  EXPECT_EQ(rcode(query_text("\0\0\x29\x10\0\0\1\0\0\0\0"s, 1)), Rcode::BadVers);
  EXPECT_EQ(rcode(query_text("x")), Rcode::FormErr);    // bytes left over
  EXPECT_EQ(rcode(query_text("", 1)), Rcode::FormErr);  // no OPT where one is announced
  EXPECT_EQ(rcode(query_text("\0\0\1\0\1\0\0\0\0\0\0"s, 1)), Rcode::FormErr);  // not an OPT
  EXPECT_EQ(rcode(query_text().substr(0, 20)), Rcode::FormErr);
  EXPECT_EQ(rcode("\x12\x34\1\0\0\1\0\0\0\0\0\0\xc0\0\0\1\0\1"s), Rcode::FormErr);
}

TEST(ParseQuery, NeverAnswersAnAnswerOrAScrap) {
  EXPECT_FALSE(parse("").error().id);
  EXPECT_FALSE(parse("\x12\x34\1\0\0\1"s).error().id);
  std::string answer = query_text();
  answer[2] = '\x81';
  EXPECT_FALSE(parse(answer).error().id);
}

TEST(EncodeQuery, IsAQueryThatWeWouldTake) {
  const auto query = parse_query(encode_query(7, name("Crates.io"), RecordType::Https));
  ASSERT_TRUE(query);
  EXPECT_EQ(query->id, 7);
  EXPECT_EQ(query->name, name("crates.io"));
  EXPECT_EQ(query->type, RecordType::Https);
  EXPECT_EQ(query->edns_size, kUdpSize);
}

// An answer to "a.example A" of id 7, with `records` behind the question.
std::string reply_text(std::string_view records, char answers, char authorities = 0) {
  return "\0\7\x81\x80\0\1\0"s + answers + "\0"s + authorities + "\0\0"s +
         "\1a\7example\0\0\1\0\1"s + std::string(records);
}
std::optional<Reply> read(const std::string& text) {
  return parse_reply(as_bytes(text), 7, name("a.example"), RecordType::A);
}
const std::string kAddress = "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1"s;

TEST(ParseReply, FollowsAnAliasToItsAddress) {
  // a.example CNAME b.example (compressed), b.example A 192.0.2.1
  const std::string records =
      "\xc0\x0c\0\5\0\1\0\0\0\x3c\0\4\1b\xc0\x0e"s + "\1b\xc0\x0e\0\1\0\1\0\0\0\x1e\0\4\xc0\0\2\1"s;
  const auto reply = read(reply_text(records, 2));
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->answers.size(), 2U);
  EXPECT_EQ(reply->answers[0].target(), name("b.example"));
  EXPECT_EQ(reply->answers[1].owner, name("b.example"));
  EXPECT_EQ(reply->answers[1].address()->text(), "192.0.2.1");
  EXPECT_EQ(reply->answers[1].ttl, 30U);
}

TEST(ParseReply, TakesOnlyTheAnswerToItsQuestion) {
  const std::string good = reply_text(kAddress, 1);
  ASSERT_TRUE(read(good));
  EXPECT_FALSE(parse_reply(as_bytes(good), 8, name("a.example"), RecordType::A));
  EXPECT_FALSE(parse_reply(as_bytes(good), 7, name("b.example"), RecordType::A));
  EXPECT_FALSE(parse_reply(as_bytes(good), 7, name("a.example"), RecordType::Aaaa));
  std::string query = good;
  query[2] = 1;
  EXPECT_FALSE(read(query));
  EXPECT_FALSE(read(reply_text(kAddress, 2)));  // one record less than announced
}

TEST(ParseReply, LeavesOutWhatIsBrokenOrUnknown) {
  const std::string short_address = "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\3\xc0\0\2"s;
  const std::string txt = "\xc0\x0c\0\x10\0\1\0\0\0\x3c\0\2\1x"s;
  const std::string run_on = "\xc0\x0c\0\5\0\1\0\0\0\x3c\0\2\1b"s;  // a name without its end
  const auto reply = read(reply_text(short_address + txt + run_on + kAddress, 4));
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->answers.size(), 1U);
  EXPECT_EQ(reply->answers[0].address()->text(), "192.0.2.1");
}

TEST(ParseReply, KnowsHowLongNothingHolds) {
  // SOA with TTL 900 and minimum 300, and the names of its data at the root.
  const std::string soa =
      "\xc0\x0e\0\6\0\1\0\0\3\x84\0\x16\0\0"s + std::string(16, 1) + "\0\0\1\x2c"s;
  const auto reply = read(reply_text(soa, 0, 1));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->negative_ttl, 300U);
}

TEST(ParseReply, UsesNothingOfATruncatedAnswer) {
  std::string text = reply_text(kAddress, 1);
  text[2] = '\x83';
  const auto reply = read(text);
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->truncated);
  EXPECT_TRUE(reply->answers.empty());
}

Record address_record(const Name& owner, uint8_t last) {
  return {owner, RecordType::A, 60, {std::byte{192}, std::byte{0}, std::byte{2}, std::byte{last}}};
}

TEST(EncodeReply, RepeatsTheQuestionAsItCame) {
  const auto query = parse(query_text(kOpt, 1)).value();
  const std::vector<Record> records{address_record(query.name, 1), address_record(name("x.y"), 2)};
  const Bytes bytes = encode_reply(query, Rcode::NoError, records, kUdpSize);
  EXPECT_NE(as_text(bytes).find("\7Example\3com"), std::string_view::npos);
  const auto reply = parse_reply(bytes, 0x1234, query.name, RecordType::A);
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->answers.size(), 2U);
  EXPECT_EQ(reply->answers[1].owner, name("x.y"));
  EXPECT_EQ(reply->answers[1].address()->text(), "192.0.2.2");
}

TEST(EncodeReply, SendsTheClientToTcpWhenItDoesNotFit) {
  const auto query = parse(query_text()).value();
  const std::vector<Record> records(40, address_record(query.name, 1));
  const Bytes bytes = encode_reply(query, Rcode::NoError, records, kPlainUdpSize);
  EXPECT_LE(bytes.size(), kPlainUdpSize);
  EXPECT_TRUE(parse_reply(bytes, 0x1234, query.name, RecordType::A)->truncated);
  EXPECT_FALSE(parse_reply(encode_reply(query, Rcode::NoError, records, kMaxTcpMessage), 0x1234,
                           query.name, RecordType::A)
                   ->truncated);
}

TEST(EncodeError, SpellsTheRcode) {
  const Bytes refused = encode_error(0x1234, Rcode::Refused);
  EXPECT_EQ(as_text(refused), "\x12\x34\x80\x85\0\0\0\0\0\0\0\0"s);
  EXPECT_EQ(as_text(encode_error(1, Rcode::BadVers)),
            "\0\1\x80\x80\0\0\0\0\0\0\0\1"s + "\0\0\x29\4\xd0\1\0\0\0\0\0"s);
}

std::string stripped(const std::string& text) {
  const auto kept = without_shortcuts(as_bytes(text));
  return kept ? std::string(as_text(*kept)) : "none";
}

TEST(Svcb, LosesHintsEncryptedHelloAndHttp3) {
  const std::string head = "\0\1\0"s;
  const std::string alpn = "\0\1\0\6\2h3\2h2"s;
  const std::string hint4 = "\0\4\0\4\xc0\0\2\1"s;
  const std::string ech = "\0\5\0\2xx"s;
  const std::string hint6 = "\0\6\0\x10"s + std::string(16, 1);
  const std::string dohpath = "\0\7\0\1/"s;
  EXPECT_EQ(stripped(head + alpn + hint4 + ech + hint6 + dohpath),
            head + "\0\1\0\3\2h2"s + dohpath);
  EXPECT_EQ(stripped(head + "\0\1\0\3\2h3"s), head);
  EXPECT_EQ(stripped("\0\0\1a\0"s), "\0\0\1a\0"s);  // alias mode
}

TEST(Svcb, IsDroppedWhenItCannotBeUsedWithoutThem) {
  const std::string head = "\0\1\0"s;
  EXPECT_EQ(stripped(head + "\0\0\0\2\0\5\0\5\0\2xx"s), "none");    // ech is mandatory
  EXPECT_EQ(stripped(head + "\0\0\0\2\0\1\0\1\0\3\2h3"s), "none");  // so is alpn, now empty
  EXPECT_EQ(stripped(head + "\0\1\0\3\2h3\0\2\0\0"s), "none");      // nothing left to speak
}

TEST(Svcb, RefusesWhatIsMalformed) {
  const std::string head = "\0\1\0"s;
  EXPECT_EQ(stripped(""), "none");
  EXPECT_EQ(stripped("\0\1"s), "none");
  EXPECT_EQ(stripped("\0\1\xc0\0"s), "none");                           // a compressed target
  EXPECT_EQ(stripped(head + "\0\3\0\2\1\xbb\0\1\0\3\2h2"s), "none");    // keys out of order
  EXPECT_EQ(stripped(head + "\0\3\0\2\1\xbb\0\3\0\2\1\xbb"s), "none");  // a key twice
  EXPECT_EQ(stripped(head + "\0\3\0\5\1"s), "none");
  EXPECT_EQ(stripped(head + "\0\1\0\4\2h2\0"s), "none");  // an empty protocol
}

TEST(EncodeReply, SaysWhyToClientsThatSpeakEdns) {
  const ExtendedError why{kErrorBlocked, "because"};
  const auto asked = parse(query_text(kOpt, 1));
  const Bytes answer = encode_reply(*asked, Rcode::NxDomain, {}, 1232, &why);
  // RFC 8914 §2: option 15 of 9 bytes, the code, the text.
  EXPECT_THAT(std::string(as_text(answer)), ::testing::EndsWith("\0\15\0\17\0\11\0\17because"s));
  const ExtendedError long_one{kErrorOther, std::string(1000, 'x')};
  EXPECT_LT(encode_reply(*asked, Rcode::NxDomain, {}, 1232, &long_one).size(), 300U);
  const auto plain = parse(query_text());
  EXPECT_EQ(encode_reply(*plain, Rcode::NxDomain, {}, 512, &why),
            encode_reply(*plain, Rcode::NxDomain, {}, 512));
}

}
}
