// The same findings however the stream is cut, in bounded memory.

#include "mvm/protect/scanner.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../../../src/protect/letters.h"
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

// What trigger.h says, a byte at a time.
class SlowTriggers {
 public:
  explicit SlowTriggers(std::string_view text) : text_(text) {}

  bool at(size_t i) const {
    return mail(i) || (digit(i) && is(i + 1, kHigh)) ||
           run(i, 16, [&](size_t k) { return word(k); }) || label(i) || colons(i) ||
           run(i, 5, [&](size_t k) { return (*this)[k] == '-'; }) || number(i);
  }

 private:
  char operator[](size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  bool is(size_t i, uint8_t kinds) const { return protect::is((*this)[i], kinds); }
  bool digit(size_t i) const { return is(i, kDigit); }
  bool word(size_t i) const { return is(i, kAlnum | kWordMark); }
  bool address(size_t i) const { return is_hex((*this)[i]) || (*this)[i] == ':'; }

  template <typename Kind>
  bool run(size_t i, size_t least, Kind kind) const {
    if (kind(i - 1)) return false;
    for (size_t k = i; k < i + least; ++k)
      if (!kind(k)) return false;
    return true;
  }
  bool mail(size_t i) const {
    const auto none = [&](size_t k) {
      return (*this)[k] == '@' || ((*this)[k] >= 1 && (*this)[k] <= ' ');
    };
    return (*this)[i] == '@' && !none(i - 1) && !none(i + 1);
  }
  bool label(size_t i) const {
    if (!is(i, kUpper) || word(i - 1)) return false;
    bool digits = false;
    for (size_t k = i + 1; k < i + 9; ++k) {
      if (!is(k, kUpper | kDigit)) return false;
      digits = digits || digit(k);
    }
    return digits;
  }
  bool colons(size_t i) const {
    if ((*this)[i] == ':' && (*this)[i + 1] == ':')
      if (address(i - 1) && address(i - 2) && address(i - 3) && address(i - 4)) return true;
    bool early = false;
    for (size_t k = i + 1; k <= i + 4; ++k) early = early || (*this)[k] == ':';
    return early && run(i, 15, [&](size_t k) { return address(k); });
  }
  bool number(size_t i) const {
    if (!digit(i) || is(i - 1, kDigit | kLower)) return false;
    std::vector<size_t> groups;
    size_t digits = 0;
    size_t end = i;
    for (bool inside = false; end < i + 64; ++end) {
      if (digit(end)) {
        if (!inside) groups.push_back(0);
        ++groups.back();
        ++digits;
      } else if ((*this)[end] == '\0' ||
                 std::string_view(" ()-./").find((*this)[end]) == std::string_view::npos) {
        break;
      }
      inside = digit(end);
    }
    const bool open = is(end, kHigh);
    const char behind = (*this)[i + groups[0]];
    size_t third = 0;  // digits from the third group on
    bool three = false;
    for (size_t group = 1; group < groups.size(); ++group) {
      three = three || groups[group] >= 3;
      third += group >= 2 ? groups[group] : 0;
    }
    const std::string_view year = text_.substr(i, 2);
    if (digits >= 7) return true;
    if (digits == 6 && (groups.size() > 1 || is(i - 1, kAlpha) || protect::is(behind, kAlpha) ||
                        behind == '+' || open))
      return true;
    if (digits < 4) return false;
    return third >= 2 || three || (third > 0 && open) ||
           (groups.size() == 1 && digits == 4 && (year == "19" || year == "20"));
  }

  std::string_view text_;
};

TEST(Triggers, AreWhatTheyAreSaidToBeWithEveryKindOfVectors) {
  std::mt19937 random(7);
  constexpr std::string_view kSets[] = {"aF9:@-_ .\x80zG0", "aF9:@-", "120 9-.()/a+\xc2",
                                        "AZ09z-@ ", "0123456789 .-"};
  // More blocks than a batch has, and less than vectors have lanes.
  for (const size_t blocks : {size_t{1}, size_t{4}, size_t{13}, size_t{65}, size_t{150}}) {
    for (size_t round = 0; round < 40; ++round) {
      const std::string_view bytes = kSets[round % std::size(kSets)];
      std::string text(64 * blocks, '\0');
      for (char& c : text) c = bytes[random() % bytes.size()];
      if (round % 3 == 0) text[random() % text.size()] = static_cast<char>(random());
      const SlowTriggers slow(text);
      std::vector<uint64_t> expected(blocks);
      for (size_t i = 0; i < text.size(); ++i) expected[i / 64] |= uint64_t{slow.at(i)} << (i % 64);
      const std::string padded = text + std::string(64, '\0');
      for (const Vectors vectors : {Vectors::None, Vectors::Avx2, Vectors::Avx512}) {
        std::vector<uint64_t> found(blocks);
        if (find_triggers_with(vectors, padded.data(), blocks, '\0', found.data())) {
          ASSERT_EQ(found, expected) << static_cast<int>(vectors) << ' ' << text;
        }
      }
      // From the middle: the byte before counts, and nothing more.
      if (blocks < 2) continue;
      std::vector<uint64_t> plain(blocks - 1);
      std::vector<uint64_t> best(blocks - 1);
      ASSERT_TRUE(find_triggers_with(Vectors::None, padded.data() + 64, blocks - 1, text[63],
                                     plain.data()));
      find_triggers(padded.data() + 64, blocks - 1, text[63], best.data());
      ASSERT_EQ(best, plain) << text;
    }
  }
}

}
}
