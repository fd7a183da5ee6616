#include "mvm/secret/finder.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "mvm/secret/text.h"

namespace mvm::secret {
namespace {

using Kind = Finder::Hit::Kind;

constexpr std::string_view kValue = "sk-T0p/Secret+\"Value\"%&<end>";

Finder finder(std::string_view text = kValue) {
  Finder out;
  out.add(text, 7, Finder::Written::Twice);
  return out;
}

Finder::Hit find(std::string_view text, bool last = true) {
  static const Finder found = finder();
  return found.find(text, 0, last);
}

std::string percent_all(std::string_view text) {
  std::string out;
  for (const char c : text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out += '%';
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

std::string hex(std::string_view text, bool upper) {
  std::string out;
  for (const char c : text) {
    const std::string_view digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

std::string html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '+')
      out += "&#43;";
    else if (c == '/')
      out += "&#x2F;";
    else
      out += c;
  }
  return out;
}

// ASCII, with characters beyond it as units.
std::string utf16(std::string_view text, Units units) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto lead = static_cast<unsigned char>(text[at]);
    std::vector<unsigned> letters{lead};
    if (lead >= 0xf0)
      letters = {0xd83d, 0xde00}, at += 3;  // the one that the tests use
    else if (lead >= 0xc0)
      letters = {(lead & 0x1fU) << 6 | (static_cast<unsigned char>(text[++at]) & 0x3fU)};
    for (const unsigned unit : letters) {
      const auto high = static_cast<char>(unit >> 8);
      const auto low = static_cast<char>(unit & 255);
      out += units == Units::Little ? low : high;
      out += units == Units::Little ? high : low;
    }
  }
  return out;
}

TEST(Finder, FindsNothingInOtherText) {
  EXPECT_EQ(find("").kind, Kind::None);
  EXPECT_EQ(find("sk-T0p/Secret+ and what else there is %41%zz \\u0041 &amp; &#x;").kind,
            Kind::None);
}

TEST(Finder, FindsEveryWayOfWriting) {
  const std::string value(kValue);
  for (const std::string& written :
       {value, percent_all(value), secret::written(value, Writing::Percent),
        secret::written(value, Writing::Json), html(value), hex(value, false), hex(value, true),
        std::string("\\u0073\\x6b-T0p\\/Secret%2B\\\"Value&#34;%25%26%3C\\u0065nd%3e")}) {
    const auto hit = find("before " + written + " after");
    EXPECT_EQ(hit.kind, Kind::Whole) << written;
    EXPECT_EQ(hit.at, 7U) << written;
    EXPECT_EQ(hit.length, written.size()) << written;
    EXPECT_EQ(hit.id, 7U);
  }
}

TEST(Finder, FindsEveryWayOfWritingInUtf16) {
  const std::string value(kValue);
  for (const Units units : {Units::Little, Units::Big}) {
    for (const std::string& written :
         {value, percent_all(value), secret::written(value, Writing::Json), html(value),
          hex(value, true), base64(value).substr(0, 37)}) {
      // Letters beside it that have no zero byte, so that there is one way to read it.
      const std::string text = utf16("\xd0\xb4" + written + "\xd0\xb4", units);
      const auto hit = find(text);
      EXPECT_EQ(hit.kind, Kind::Whole) << written;
      EXPECT_EQ(hit.at, 2U) << written;
      EXPECT_EQ(hit.length, 2 * written.size()) << written;
      EXPECT_EQ(hit.units, units) << written;
      for (size_t end = 1; end < hit.length; ++end)
        EXPECT_EQ(find(text.substr(0, 2 + end), false).kind, Kind::Partial)
            << written << " " << end;
    }
    // Among ASCII letters: in one of the two ways to read it, which are the same bytes.
    const std::string text = utf16("x" + value + "y", units);
    const auto hit = find(text);
    ASSERT_EQ(hit.kind, Kind::Whole);
    std::string replaced = text;
    replaced.replace(hit.at, hit.length, in_units("other", hit.units));
    EXPECT_EQ(replaced, utf16("xothery", units));
  }
  EXPECT_EQ(find(utf16(value.substr(0, 20), Units::Little) + "\0" + value.substr(20)).kind,
            Kind::None);
}

TEST(Finder, FindsCharactersBeyondAscii) {
  // U+00E9, U+0434, U+1F600
  const std::string value = "p\xc3\xa9-\xd0\xb4-secret-\xf0\x9f\x98\x80";
  const std::string odd = "\xd0\xb4secret-\xf0\x9f\x98\x80";
  for (const std::string& text : {value, odd}) {
    const Finder found = finder(text);
    for (const std::string& written :
         {text, percent_all(text), utf16(text, Units::Little), utf16(text, Units::Big)}) {
      const auto hit = found.find(written, 0, true);
      EXPECT_EQ(hit.kind, Kind::Whole) << written;
      EXPECT_EQ(hit.length, written.size()) << written;
      for (size_t end = 1; end < written.size(); ++end)
        EXPECT_EQ(found.find(written.substr(0, end), 0, false).kind, Kind::Partial) << end;
    }
  }
  const Finder found = finder(value);
  for (const std::string_view written :
       {"p\\u00e9-\\u0434-secret-\\ud83d\\uDE00", "p&#233;-&#x434;-secret-&#128512;",
        "p\\u00E9-%d0%B4-secret-\xf0\x9f\x98\x80"}) {
    const auto hit = found.find(written, 0, true);
    EXPECT_EQ(hit.kind, Kind::Whole) << written;
    EXPECT_EQ(hit.length, written.size()) << written;
    for (size_t end = 1; end < written.size(); ++end)
      EXPECT_EQ(found.find(written.substr(0, end), 0, false).kind, Kind::Partial)
          << written << " " << end;
  }
  EXPECT_EQ(found.find("p\\u00e9-\\u0434-secret-\\ud83d\\uDE01", 0, true).kind, Kind::None);
}

TEST(Finder, FindsWhatWasPercentEncodedTwice) {
  constexpr std::string_view kPlain = "sk-live/0123+456";
  std::string twice;
  for (const char c : percent_all(kPlain))
    twice += c == '%' ? std::string("%25") : std::string(1, c);
  EXPECT_EQ(finder(kPlain).find(twice, 0, true).length, twice.size());
}

TEST(Finder, FindsBase64AtEveryAlignment) {
  const std::string value(kValue);
  for (const std::string_view before : {"", "x", "xy", "xyz", "user:", "{\"token\":\""}) {
    for (const std::string_view after : {"", "1", "12", "123"}) {
      const std::string encoded = base64(std::string(before) + value + std::string(after));
      const auto hit = find(encoded);
      ASSERT_EQ(hit.kind, Kind::Whole) << before << " " << after;
      EXPECT_EQ(hit.form, Form::Base64);
      // At most the two letters that hold bits of the neighbours are left.
      EXPECT_GE(hit.length + 2, value.size() * 8 / 6);
      std::string url = encoded;
      for (char& c : url) c = c == '+' ? '-' : c == '/' ? '_' : c;
      EXPECT_EQ(find(url).kind, Kind::Whole);
      EXPECT_EQ(find(secret::written(encoded, Writing::Percent)).kind, Kind::Whole);
    }
  }
}

// As base64(1) and `xxd -p` end lines, wherever in the value that is.
TEST(Finder, FindsItInLines) {
  for (size_t before = 0; before < 76; ++before) {
    const std::string text = std::string(before, 'p') + std::string(kValue) + "suffix";
    for (const auto& [coded, width] :
         {std::pair{base64(text), size_t{76}}, {base64(text), 20}, {hex(text, false), 60}}) {
      for (const std::string_view end : {"\n", "\r\n", "\\n", "\\r\\n", "\\\\n", "\n    "}) {
        std::string lines;
        for (size_t at = 0; at < coded.size(); at += width) {
          lines += coded.substr(at, width);
          lines += end;
        }
        EXPECT_EQ(find(lines).kind, Kind::Whole) << lines;
      }
    }
  }
}

TEST(Finder, FindsHexWithSeparators) {
  const std::string digits = hex(kValue, false);
  for (const std::string_view between : {":", " ", "-", ", ", ", 0x", ",\n  0x"}) {
    std::string text;
    for (size_t at = 0; at < digits.size(); at += 2) {
      if (at > 0) text += between;
      text += digits.substr(at, 2);
    }
    const auto hit = find("0x" + text + " end");
    EXPECT_EQ(hit.kind, Kind::Whole) << text;
    EXPECT_EQ(hit.length, text.size());
  }
}

// Kubernetes' registry credentials, PowerShell's -EncodedCommand, what a program does to what
// another one gave it.
TEST(Finder, FindsWhatWasWrittenTwice) {
  const auto utf16 = [](std::string_view text, bool big) {
    return in_units(text, big ? Units::Big : Units::Little);
  };
  for (const std::string_view value :
       {"sk-live-0123456789-abcdefgh", "T0p/Secret+Value==", "pass\"word\"42"}) {
    const Finder found = finder(value);
    for (const std::string_view before : {"", "x", "user:", "{\"auth\":\""}) {
      const std::string text = std::string(before) + std::string(value) + "; more";
      std::string url = base64(text);
      std::ranges::replace(url, '+', '-');
      std::ranges::replace(url, '/', '_');
      for (const std::string& once :
           {base64(text), url, hex(text, false), hex(text, true), utf16(text, false),
            utf16(text, true), secret::written(text, Writing::Json),
            secret::written(text, Writing::Percent)})
        for (const std::string_view outer : {"", "a", "ab"})
          EXPECT_EQ(found.find(base64(std::string(outer) + once + "."), 0, true).kind, Kind::Whole)
              << once;
      EXPECT_EQ(found.find(hex(base64(text), true), 0, true).kind, Kind::Whole);
      std::string json = secret::written(text, Writing::Json);
      for (int depth = 1; depth < 4; ++depth, json = secret::written(json, Writing::Json))
        EXPECT_EQ(found.find(json, 0, true).kind, Kind::Whole) << json;
    }
  }
}

TEST(Finder, TakesTheLongestOfSeveral) {
  Finder both;
  both.add("abcdefgh", 1, Finder::Written::Never);
  both.add("abcdefgh-and-more", 2, Finder::Written::Never);
  EXPECT_EQ(both.find("abcdefgh-and-more", 0, true).id, 2U);
  EXPECT_EQ(both.find("abcdefgh-and-less", 0, true).id, 1U);
  // The shorter one is there, and the longer may be.
  EXPECT_EQ(both.find("..abcdefgh-and", 0, false).kind, Kind::Partial);
  EXPECT_EQ(both.find("..abcdefgh-and", 0, true).id, 1U);
}

TEST(Finder, WaitsOnlyForATrueBeginning) {
  const auto hit = find("some text sk-T0p/Sec", false);
  EXPECT_EQ(hit.kind, Kind::Partial);
  EXPECT_EQ(hit.at, 10U);
  EXPECT_EQ(find("some text sk-T0p/Sec ", false).kind, Kind::None);
  // The end of an event of a stream is not held back, whatever stands there.
  EXPECT_EQ(find("data: {\"delta\":\"hello\"}\n\n", false).kind, Kind::None);
  for (size_t before = 0; before < 3; ++before) {
    const std::string coded = base64(std::string(before, 'x') + std::string(kValue));
    for (size_t length = 1; length < 20; ++length)
      for (const std::string_view end : {"\n\n", "\r\n\r\n"})
        EXPECT_EQ(find("data: " + coded.substr(0, length) + std::string(end), false).kind,
                  Kind::None);
  }
}

TEST(Finder, ATextThatLooksEscapedIsFoundAsItIs) {
  Finder odd = finder("100%25\\n&amp;!");
  EXPECT_EQ(odd.find("=100%25\\n&amp;!", 0, true).kind, Kind::Whole);
  EXPECT_EQ(odd.find("=100%2525%5Cn%26amp%3B!", 0, true).kind, Kind::Whole);
}

}
}
