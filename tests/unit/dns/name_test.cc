#include "mvm/dns/name.h"

#include <gtest/gtest.h>

namespace mvm::dns {
namespace {

// Reads a name at `at` in `message`; "bad" when it is none. `used`: bytes it took there.
std::string read_at(std::string_view message, size_t at, size_t* used = nullptr) {
  const ByteView all = as_bytes(message);
  Reader in(all.subspan(at));
  const Name name = Name::read(all, in);
  if (used != nullptr) *used = message.size() - at - in.remaining();
  return in ? name.text() : "bad";
}

TEST(Name, IsOneWhateverItsCaseAndItsFinalDot) {
  EXPECT_EQ(Name::parse("Example.COM."), Name::parse("example.com"));
  EXPECT_EQ(Name::parse("Example.COM")->text(), "example.com");
  EXPECT_EQ(as_text(Name::parse("a.bc")->wire()), std::string_view("\1a\2bc\0", 6));
  EXPECT_EQ(Name::parse(".")->text(), ".");
  EXPECT_EQ(*Name::parse("."), Name());
}

TEST(Name, RefusesTextThatIsNoHost) {
  const std::string label(64, 'a');
  std::string too_long;
  for (int i = 0; i < 128; ++i) too_long += "a.";
  for (const std::string& text :
       {std::string(), std::string(".."), std::string("a..b"), std::string(".a"),
        std::string("a b"), std::string("a/b"), std::string("-a.b"), std::string("a-.b"),
        std::string("a\\.b"), std::string("\xc3\xa4.de"), label, too_long})
    EXPECT_FALSE(Name::parse(text)) << text;
  EXPECT_TRUE(Name::parse("_dmarc.x--y.example"));
  EXPECT_TRUE(Name::parse(too_long.substr(0, 2 * 127 - 1)));
}

TEST(Name, FollowsPointersToEarlierPlacesOnly) {
  using namespace std::string_literals;
  // 0: "com", 5: "example" + pointer to 0, 15: pointer to 5
  const std::string message = "\3com\0\7example\xc0\0\xc0\5"s;
  size_t used = 0;
  EXPECT_EQ(read_at(message, 5, &used), "example.com");
  EXPECT_EQ(used, 10U);
  EXPECT_EQ(read_at(message, 15, &used), "example.com");
  EXPECT_EQ(used, 2U);

  EXPECT_EQ(read_at("\xc0\0"s, 0), "bad");             // to itself
  EXPECT_EQ(read_at("\1a\xc0\0"s, 0), "bad");          // to its own start: a loop
  EXPECT_EQ(read_at("\1a\0\xc0\5\xc0\3"s, 3), "bad");  // forwards
  EXPECT_EQ(read_at("\1a\0\xc0\5\xc0\3"s, 5), "bad");  // a pointer to one that leads forwards
  EXPECT_EQ(read_at("\1a\0\1b\xc0"s, 3), "bad");       // half a pointer
}

TEST(Name, RefusesWhatIsCutShortOrTooLong) {
  using namespace std::string_literals;
  EXPECT_EQ(read_at(""s, 0), "bad");
  EXPECT_EQ(read_at("\3ab"s, 0), "bad");
  EXPECT_EQ(read_at("\1a"s, 0), "bad");
  EXPECT_EQ(read_at("\x40"s + std::string(64, 'a') + "\0"s, 0), "bad");
  EXPECT_EQ(read_at("\x80"s + std::string(200, 'a'), 0), "bad");
  std::string labels;
  for (int i = 0; i < 127; ++i) labels += "\1a";
  EXPECT_NE(read_at(labels + "\0"s, 0), "bad");     // 255 bytes
  EXPECT_EQ(read_at(labels + "\1a\0"s, 0), "bad");  // 257
  EXPECT_EQ(read_at("\1a"s + labels.substr(2) + "\1b\0"s, 0), "bad");
}

TEST(Name, ShowsBytesThatNoHostHas) {
  using namespace std::string_literals;
  EXPECT_EQ(read_at("\3a.b\1\n\0"s, 0), "a\\046b.\\010");
  const std::string odd = "\3a.b\0"s;
  Reader in(as_bytes(odd));
  EXPECT_FALSE(Name::read(as_bytes(odd), in).is_host());
  EXPECT_TRUE(Name::parse("a.b")->is_host());
}

}
}
