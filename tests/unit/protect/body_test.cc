// Contents of every form, replaced as the form asks, however they are cut.

#include "mvm/protect/body.h"

#include <string>

#include <gtest/gtest.h>

#include "mvm/base/error.h"

namespace mvm::protect {
namespace {

std::optional<std::string> mark(const Finding& finding, std::string_view) {
  if (finding.kind == PiiClass::Custom) return "<" + std::string(finding.detail) + ">";
  return "<" + std::string(class_name(finding.kind)) + ">";
}

struct How {
  std::shared_ptr<const PatternSet> patterns;
  bool pass_opaque = false;
};

std::string once(std::string_view type, std::string_view text, size_t step, const How& how) {
  const auto media = parse_media_type(type);
  if (!media) return "[malformed type]";
  BodyRules rules{{ClassSet::all(), how.patterns}, mark, [&] { return how.pass_opaque; }};
  const auto rewriter = body_rewriter(*media, rules);
  if (!rewriter) return "[opaque]";
  std::string out;
  for (size_t at = 0; at < text.size(); at += step)
    if (!rewriter->feed(text.substr(at, step), out)) return "[undecodable]";
  return rewriter->finish(out) ? out : "[undecodable]";
}

std::string rewrite(std::string_view type, std::string_view text, const How& how = {}) {
  std::string whole = once(type, text, text.size() + 1, how);
  for (size_t step = 1; step < std::min<size_t>(text.size(), 100); ++step)
    EXPECT_EQ(once(type, text, step, how), whole) << step;
  return whole;
}

std::string utf16(std::string_view text, bool big) {
  std::string out;
  for (const char c : text) (out += big ? '\0' : c) += big ? c : '\0';
  return out;
}

}

TEST(MediaType, IsReadWithItsParameters) {
  const auto type = parse_media_type(R"(Multipart/Form-Data; Boundary="a b\"c" ; CHARSET=UTF-8)");
  ASSERT_TRUE(type);
  EXPECT_EQ(type->type, "multipart/form-data");
  EXPECT_EQ(type->boundary, "a b\"c");
  EXPECT_EQ(type->charset, "utf-8");
  EXPECT_EQ(parse_media_type("")->type, "");
  EXPECT_TRUE(parse_media_type("text/plain;"));
  for (const char* bad : {"json", "a/b/c", "text/plain; charset", "text/plain; charset=\"x",
                          "text/plain; charset=a; charset=b", "text /plain"})
    EXPECT_FALSE(parse_media_type(bad)) << bad;
}

TEST(MediaType, TellsTheForm) {
  const auto form = [](std::string_view text) { return body_form(*parse_media_type(text)); };
  EXPECT_EQ(form("application/vnd.api+json"), BodyForm::Json);
  EXPECT_EQ(form("application/x-ndjson"), BodyForm::Json);
  EXPECT_EQ(form("application/soap+xml; charset=utf-8"), BodyForm::Xml);
  EXPECT_EQ(form("text/csv"), BodyForm::Text);
  EXPECT_EQ(form(""), BodyForm::Text);
  EXPECT_EQ(form("image/png"), BodyForm::Opaque);
  EXPECT_EQ(form("application/octet-stream"), BodyForm::Opaque);
  EXPECT_EQ(form("text/plain; charset=utf-7"), BodyForm::Opaque);
  EXPECT_EQ(form("text/plain; charset=ibm037"), BodyForm::Opaque);
}

TEST(TextBody, IsRewrittenAcrossPieces) {
  EXPECT_EQ(rewrite("text/plain", "to a@b.org,\nor c@d.org"), "to <email>,\nor <email>");
  EXPECT_EQ(rewrite("", "to a@b.org"), "to <email>");
  EXPECT_EQ(rewrite("", " {\"to\":\"a\\u0040b.org\"}"), " {\"to\":\"<email>\"}");
  EXPECT_EQ(rewrite("text/plain", ""), "");
  // However much stands before the first letter, and however it is cut.
  const std::string blank(100, ' ');
  EXPECT_EQ(rewrite("", blank + "{\"to\":\"a\\u0040b.org\"}"), blank + "{\"to\":\"<email>\"}");
  EXPECT_EQ(rewrite("", "\xef\xbb\xbf \n[\"a\\u0040b.org\"]"), "\xef\xbb\xbf \n[\"<email>\"]");
  EXPECT_EQ(rewrite("", "\xef\xbb\xbf to a@b.org"), "\xef\xbb\xbf to <email>");
  for (const char* begin : {"", " ", "\xef", "\xef\xbb", "\xef\xbb\xbf", "\xef\xbb\xbf "})
    EXPECT_EQ(rewrite("", begin), begin);
}

// An address of small numbers is one where it is all of a value, in every form; in a sentence words
// have to say so.
TEST(Bodies, AValueThatIsAnAddressAlone) {
  EXPECT_EQ(rewrite("application/json", R"({"x":"8.8.8.8","y":["1.1.1.1","9.9.9.9"]})"),
            R"({"x":"<ipv4>","y":["<ipv4>","<ipv4>"]})");
  EXPECT_EQ(rewrite("application/json", R"({"x":"see 4.2.2.1 there","y":"ask server 4.2.2.1"})"),
            R"({"x":"see 4.2.2.1 there","y":"ask server <ipv4>"})");
  EXPECT_EQ(rewrite("application/x-www-form-urlencoded", "x=8.8.8.8"), "x=%3Cipv4%3E");
  EXPECT_EQ(rewrite("application/xml", "<r><x>8.8.8.8</x></r>"), "<r><x>&lt;ipv4&gt;</x></r>");
  EXPECT_EQ(rewrite("text/plain", "8.8.8.8"), "<ipv4>");
}

TEST(FieldsBody, IsDecodedAndKeepsWhatItDoesNotReplace) {
  const std::string type = "application/x-www-form-urlencoded";
  EXPECT_EQ(rewrite(type, "to=a%40b.org&x=%7e+%zz&y"), "to=%3Cemail%3E&x=%7e+%zz&y");
  EXPECT_EQ(rewrite(type, "phone=415+555+2671&order=4155552671"),
            "phone=%3Cphone%3E&order=4155552671");
  EXPECT_EQ(rewrite(type, "a@b.org"), "%3Cemail%3E");
  EXPECT_EQ(rewrite(type, "a%40b.org=1&&=c@d.org"), "%3Cemail%3E=1&&=%3Cemail%3E");
  // What tools send under this type without being asked.
  EXPECT_EQ(rewrite(type, R"({"to":"a@b.org","q":"a=b"})"), R"({"to":"%3Cemail%3E","q":"a=b"})");
}

TEST(XmlBody, TextAndAttributesAreDecoded) {
  const std::string type = "application/xml";
  EXPECT_EQ(rewrite(type, "<?xml version=\"1.0\"?><a to=\"a&#64;b.org\" n='1'>c&#x40;d.org</a>"),
            "<?xml version=\"1.0\"?><a to=\"&lt;email&gt;\" n='1'>&lt;email&gt;</a>");
  EXPECT_EQ(rewrite(type, "<p:phone>4155552671</p:phone><order phone='4155552671'/>"),
            "<p:phone>&lt;phone&gt;</p:phone><order phone='&lt;phone&gt;'/>");
  EXPECT_EQ(rewrite(type, "<a><!-- a@b.org > --><![CDATA[ x<y c@d.org ]]>&amp;&lt;&bogus;</a>"),
            "<a><!-- <email> > --><![CDATA[ x<y <email> ]]>&amp;&lt;&bogus;</a>");
  EXPECT_EQ(rewrite(type, "<a x=\">\" y/>"), "<a x=\">\" y/>");
}

TEST(XmlBody, WithDeclarationsOrCutIsUndecodable) {
  EXPECT_EQ(rewrite("text/xml", "<!DOCTYPE a [<!ENTITY x 'a@'>]><a>&x;b.org</a>"), "[undecodable]");
  EXPECT_EQ(rewrite("text/xml", "<!DOCTYPE html><a>x</a>"), "<!DOCTYPE html><a>x</a>");
  EXPECT_EQ(rewrite("text/xml", "<a>text</a"), "[undecodable]");
}

TEST(UnicodeBody, Utf16IsReadInEveryForm) {
  for (const bool big : {false, true}) {
    const std::string mark = big ? "\xfe\xff" : "\xff\xfe";
    EXPECT_EQ(rewrite("text/plain", mark + utf16("to a@b.org.", big)),
              mark + utf16("to <email>.", big));
    EXPECT_EQ(rewrite("application/json", utf16("{\"to\":\"a\\u0040b.org\"}", big)),
              utf16("{\"to\":\"<email>\"}", big));
    EXPECT_EQ(rewrite(big ? "text/plain; charset=utf-16be" : "text/plain; charset=utf-16le",
                      utf16("x a@b.org", big)),
              utf16("x <email>", big));
  }
  // Pairs stay as they are: U+1F600.
  const std::string smile("\x3d\xd8\x00\xde", 4);
  EXPECT_EQ(rewrite("text/plain; charset=utf-16le", utf16("a ", false) + smile),
            utf16("a ", false) + smile);
}

TEST(UnicodeBody, HalvesAreUndecodable) {
  const std::string type = "text/plain; charset=utf-16le";
  EXPECT_EQ(rewrite(type, utf16("abc", false) + "x"), "[undecodable]");
  EXPECT_EQ(rewrite(type, utf16("abc", false) + "\x3d\xd8"), "[undecodable]");
  EXPECT_EQ(rewrite(type, utf16("abc", false) + std::string("\x00\xde", 2)), "[undecodable]");
  EXPECT_EQ(rewrite(type, utf16(std::string_view("a\0b", 3), false)), "[undecodable]");
}

TEST(MultipartBody, PartsAreReadByTheirTypes) {
  const std::string type = "multipart/form-data; boundary=XX";
  EXPECT_EQ(
      rewrite(type,
              "--XX\r\nContent-Disposition: form-data; name=\"phone\"\r\n\r\n4155552671\r\n"
              "--XX  \r\nContent-Disposition: form-data; name=\"f\"; filename=\"a@b.org.txt\"\r\n"
              "content-type: application/json\r\n\r\n{\"to\":\"c\\u0040d.org\"}\r\n"
              "--XX\r\n\r\n\r\n--XX\r\n\r\n--XX--\r\n"),
      "--XX\r\nContent-Disposition: form-data; name=\"phone\"\r\n\r\n<phone>\r\n"
      "--XX  \r\nContent-Disposition: form-data; name=\"f\"; filename=\"<email>.txt\"\r\n"
      "content-type: application/json\r\n\r\n{\"to\":\"<email>\"}\r\n"
      "--XX\r\n\r\n\r\n--XX\r\n\r\n--XX--\r\n");
  EXPECT_EQ(rewrite(type, "--XX\r\n\r\n\r\n-\r\n--X a@b.org\r\n--XX--"),
            "--XX\r\n\r\n\r\n-\r\n--X <email>\r\n--XX--");
  EXPECT_EQ(rewrite(type,
                    "--XX\r\nContent-Disposition: form-data; name=\"f\"; "
                    "filename*=UTF-8''a%40b.org\r\n\r\nx\r\n--XX--"),
            "--XX\r\nContent-Disposition: form-data; name=\"f\"; "
            "filename*=UTF-8''%3Cemail%3E\r\n\r\nx\r\n--XX--");
}

TEST(MultipartBody, PartsWithinPartsAreRead) {
  EXPECT_EQ(rewrite("multipart/mixed; boundary=A",
                    "--A\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n"
                    "--B\r\n\r\na@b.org\r\n--B--\r\n\r\n--A--"),
            "--A\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n"
            "--B\r\n\r\n<email>\r\n--B--\r\n\r\n--A--");
}

TEST(MultipartBody, WhatParsersReadDifferentlyIsUndecodable) {
  const std::string type = "multipart/form-data; boundary=XX";
  for (const char* text :
       {"", "text\r\n--XX\r\n\r\n\r\n--XX--", "--XX\r\n\r\nx\r\n--XX--\r\nmore", "--XX\r\n\r\nx",
        "--XX\n\nx\n--XX--", "--XX\r\n\r\nx\r\n--XXY\r\n\r\n--XX--",
        "--XX\r\nNo colon\r\n\r\n--XX--", "--XX\r\nA: b\r\n folded\r\n\r\nx\r\n--XX--"})
    EXPECT_EQ(rewrite(type, text), "[undecodable]") << text;
  EXPECT_EQ(rewrite("multipart/form-data", "x"), "[opaque]");
}

TEST(MultipartBody, OpaquePartsPassWhereTheyMay) {
  const std::string text =
      "--XX\r\nContent-Type: image/png\r\n\r\na@b.org \r\n--XX\r\n\r\nc@d.org\r\n--XX--";
  EXPECT_EQ(rewrite("multipart/mixed; boundary=XX", text), "[undecodable]");
  EXPECT_EQ(rewrite("multipart/mixed; boundary=XX", text, {.patterns = {}, .pass_opaque = true}),
            "--XX\r\nContent-Type: image/png\r\n\r\na@b.org \r\n--XX\r\n\r\n<email>\r\n--XX--");
  EXPECT_EQ(rewrite("multipart/mixed; boundary=XX",
                    "--XX\r\nContent-Transfer-Encoding: base64\r\n\r\nYUBi\r\n--XX--"),
            "[undecodable]");
}

TEST(Bodies, HoldNoMoreThanTheirLimit) {
  const std::string large(BodyRewriter::kMaxHeld, 'x');
  const auto fed = [&](std::string_view type, const std::string& text) {
    return once(type, text, 65536, {});
  };
  EXPECT_EQ(fed("application/x-www-form-urlencoded", "a=" + large), "[undecodable]");
  EXPECT_EQ(fed("text/xml", "<a>" + large + large), "[undecodable]");
  EXPECT_EQ(fed("application/json", "\"" + large + "x\""), "[undecodable]");
  EXPECT_EQ(fed("text/plain", large + large), large + large);
}

TEST(Patterns, OfTheUsersOwnAreFoundInEveryForm) {
  How how;
  how.patterns = std::make_shared<PatternSet>(std::vector<Pattern>{
      {"ticket", R"(\bTCK-\d{4}\b)", PatternCheck::None},
      {"member", R"(member (\d{8}))", PatternCheck::Luhn},
  });
  EXPECT_EQ(rewrite("text/plain", "TCK-1234, TCK-12345, a@b.org\nTCK-9999", how),
            "<ticket>, TCK-12345, <email>\n<ticket>");
  EXPECT_EQ(rewrite("application/json", R"({"x":"\u0054CK-1234"})", how), R"({"x":"<ticket>"})");
  EXPECT_EQ(rewrite("text/plain", "member 49927398, member 49927399", how),
            "member 49927398, member 49927399");
  EXPECT_EQ(rewrite("text/plain", "member 12345674", how), "member <member>");
}

TEST(Patterns, ComplainWithTheirName) {
  const auto complaint = [](Pattern pattern) -> std::string {
    try {
      PatternSet set({std::move(pattern)});
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_NE(complaint({"x", "(", PatternCheck::None}).find("the pattern 'x' is no expression"),
            std::string::npos);
  EXPECT_NE(complaint({"x", "(?=a)", PatternCheck::None}), "");  // RE2 has no look-ahead
  EXPECT_NE(complaint({"X y", "a", PatternCheck::None}).find("cannot name"), std::string::npos);
  EXPECT_EQ(complaint({"x", "a*", PatternCheck::None}), "");
}

TEST(UrlText, PathsAreReadSegmentBySegment) {
  ValueScanner scanner(ClassSet::all());
  const auto path = [&](std::string_view text) {
    return rewritten_url_text(scanner, {}, text, UrlText::Path, mark).value_or("same");
  };
  EXPECT_EQ(path("/users/a%40b.org/x"), "/users/%3Cemail%3E/x");
  EXPECT_EQ(path("/phone/4155552671"), "/phone/%3Cphone%3E");
  EXPECT_EQ(path("/v1/4155552671/%zz"), "same");
}

}
