// The same findings however the stream is cut, in bounded memory.

#include "mvm/protect/scanner.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../../../src/protect/trigger.h"

namespace mvm::protect {
namespace {

struct Record : ScanSink {
  std::string stream;
  std::string findings;
  void clean(std::string_view bytes) override { stream += bytes; }
  void found(const Finding& finding, std::string_view value) override {
    EXPECT_EQ(finding.offset, stream.size());
    EXPECT_EQ(finding.length, value.size());
    stream += value;
    findings += std::string(class_name(finding.kind)) + "@" + std::to_string(finding.offset) + "+" +
                std::to_string(finding.length) + "\n";
  }
};

const std::string& sample() {
  static const std::string kText = [] {
    const std::string body(64, 'Q');
    return "to john.doe@example.com, AB 12 34 56 C; +44 (0)20 7946 0958 or (415) 555-2671\n"
           "card 4111 1111 1111 1111, GB29 NWBK 6016 1331 9268 19 ssn 536-90-4399.\n"
           "{\"lat\": 48.8566, \"lng\": -2.3522, \"dob\": \"1985-03-12\"} born March 12, 1985\n"
           "fe80::1 10.1.2.3 00:1A:2B:3C:4D:5E 131052-308T RSSMRA85T10A562S\n"
           "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\n"
           "postgres://user:s3cretPass@db.example.com/x password=\"kJ8sd7Hq2LmN0pQr5T\"\n"
           "-----BEGIN PRIVATE KEY-----\n" +
           body + "\n-----END PRIVATE KEY-----\n電話番号：03-1234-5678 passport X1234567";
  }();
  return kText;
}

TEST(Scanner, FindsTheSameInAnyTwoPieces) {
  const std::string& text = sample();
  Record whole;
  Scanner first;
  first.feed(text, whole);
  first.finish(whole);
  ASSERT_EQ(whole.stream, text);
  ASSERT_GT(std::count(whole.findings.begin(), whole.findings.end(), '\n'), 15);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Record record;
    Scanner scanner;
    scanner.feed(std::string_view(text).substr(0, cut), record);
    scanner.feed(std::string_view(text).substr(cut), record);
    scanner.finish(record);
    ASSERT_EQ(record.findings, whole.findings) << "cut at " << cut;
    ASSERT_EQ(record.stream, text) << "cut at " << cut;
  }
}

TEST(Scanner, FindsTheSameByteByByte) {
  Record whole;
  Scanner first;
  first.feed(sample(), whole);
  first.finish(whole);
  Record record;
  Scanner scanner;
  for (const char c : sample()) scanner.feed({&c, 1}, record);
  scanner.finish(record);
  EXPECT_EQ(record.findings, whole.findings);
  EXPECT_EQ(record.stream, sample());
}

TEST(Scanner, HoldsBackNothingBehindALinesEnd) {
  Record record;
  Scanner scanner;
  scanner.feed("an answer of 42 lines\n", record);
  EXPECT_EQ(scanner.held(), 0U);
  scanner.feed("john.doe", record);
  EXPECT_EQ(scanner.held(), 8U);
  scanner.feed("@example.com\n", record);
  EXPECT_EQ(scanner.held(), 0U);
  EXPECT_EQ(record.findings, "email@22+20\n");
}

TEST(Scanner, HoldsBackAtMostItsBound) {
  for (const std::string_view unit :
       {"A", "1", "1 ", "eyJ", "-----BEGIN PRIVATE KEY-----\nAAAA", "a.", ":", "@"}) {
    Record record;
    Scanner scanner;
    std::string text;
    while (text.size() < 200'000) text += unit;
    for (size_t at = 0; at < text.size(); at += 1000) {
      scanner.feed(std::string_view(text).substr(at, 1000), record);
      ASSERT_LE(scanner.held(), kMaxHold) << unit;
    }
    scanner.finish(record);
    EXPECT_EQ(record.stream, text) << unit;
  }
}

TEST(Scanner, OffsetsAreThoseOfALongStream) {
  Record record;
  Scanner scanner;
  const std::string filler(100'000, 'x');
  for (int i = 0; i < 10; ++i) scanner.feed(filler + " ", record);
  scanner.feed("a@example.com", record);
  scanner.finish(record);
  EXPECT_EQ(record.findings, "email@1000010+13\n");
}

TEST(Triggers, AreTheSameWithAndWithoutVectors) {
  std::mt19937 random(7);
  constexpr std::string_view kBytes = "aF9:@-_ .\x80zG0";
  for (int round = 0; round < 200; ++round) {
    std::string text(64 * 5, '\0');
    for (size_t i = 0; i < 64 * 4; ++i)
      text[i] = kBytes[random() % (round % 2 == 0 ? 6 : kBytes.size())];
    std::vector<uint64_t> plain(4);
    ASSERT_TRUE(find_triggers_with(Vectors::None, text.data(), 4, text[0], plain.data()));
    for (const Vectors vectors : {Vectors::Avx2, Vectors::Avx512}) {
      std::vector<uint64_t> fast(4);
      if (find_triggers_with(vectors, text.data(), 4, text[0], fast.data())) {
        ASSERT_EQ(fast, plain);
      }
    }
    std::vector<uint64_t> best(4);
    find_triggers(text.data(), 4, text[0], best.data());
    ASSERT_EQ(best, plain) << text;
  }
}

}
}
