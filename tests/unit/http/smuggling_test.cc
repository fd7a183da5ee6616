// Request smuggling: the public classes of messages that two readers take apart differently. Each
// is refused where the readers would part, before anything is passed on; or, where there is but one
// way to read it, read that way.

#include <gtest/gtest.h>

#include "cutting.h"

namespace mvm::http {
namespace {

struct Case {
  const char* name;
  std::string text;
  std::string verdict;  // what run_all_ways() tells
};

std::string post(std::string_view fields, std::string_view rest = "") {
  return "POST / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n" + std::string(rest);
}
// In a body: everything before it has been accepted.
std::string in_body(Fault fault, std::string_view before = "") {
  return "[head]POST /" + std::string(before) + bad(fault);
}

void expect(const std::vector<Case>& table) {
  for (const Case& row : table) EXPECT_EQ(request(row.text), row.verdict) << row.name;
}

const std::string kNext = "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n";

TEST(Smuggling, LengthAgainstCoding) {
  expect({
      {"CL.TE", post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nG"),
       bad(Fault::LengthAndCoding)},
      {"TE.CL",
       post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "1c\r\n" + kNext + "0\r\n\r\n"),
       bad(Fault::LengthAndCoding)},
      {"CL.0", post("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
       bad(Fault::LengthAndCoding)},
      {"hidden by case", post("content-LENGTH: 6\r\nTRANSFER-encoding: CHUNKED\r\n"),
       bad(Fault::LengthAndCoding)},
      {"a length that is none", post("Content-Length: x\r\nTransfer-Encoding: chunked\r\n"),
       bad(Fault::LengthAndCoding)},
      {"a coding that is none", post("Content-Length: 5\r\nTransfer-Encoding: x\r\n"),
       bad(Fault::LengthAndCoding)},
  });
}

TEST(Smuggling, ObfuscatedCodings) {
  const auto coding = [](std::string_view line) { return post(std::string(line) + "\r\n"); };
  expect({
      {"TE.TE, other last", coding("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
       bad(Fault::BadCoding)},
      {"TE.TE, other first", coding("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked"),
       bad(Fault::BadCoding)},
      {"TE.TE, nonsense", coding("Transfer-Encoding: chunked\r\nTransfer-encoding: x"),
       bad(Fault::BadCoding)},
      {"prefix", coding("Transfer-Encoding: xchunked"), bad(Fault::BadCoding)},
      {"suffix", coding("Transfer-Encoding: chunkedx"), bad(Fault::BadCoding)},
      {"list", coding("Transfer-Encoding: identity, chunked"), bad(Fault::BadCoding)},
      {"list, chunked not last", coding("Transfer-Encoding: chunked, identity"),
       bad(Fault::BadCoding)},
      {"empty element", coding("Transfer-Encoding: ,chunked"), bad(Fault::BadCoding)},
      {"parameter", coding("Transfer-Encoding: chunked;q=1"), bad(Fault::BadCoding)},
      {"quoted", coding("Transfer-Encoding: \"chunked\""), bad(Fault::BadCoding)},
      {"empty", coding("Transfer-Encoding:"), bad(Fault::BadCoding)},
      {"space before the colon", coding("Transfer-Encoding : chunked"), bad(Fault::BadHeaderName)},
      {"tab before the colon", coding("Transfer-Encoding\t: chunked"), bad(Fault::BadHeaderName)},
      {"vertical tab",
       coding("Transfer-Encoding:\x0b"
              "chunked"),
       bad(Fault::BadHeaderValue)},
      {"form feed", coding("Transfer-Encoding: chunked\x0c"), bad(Fault::BadHeaderValue)},
      {"zero byte", coding(std::string("Transfer-Encoding: chunked\0", 27)),
       bad(Fault::BadHeaderValue)},
      {"no-break space",
       coding("Transfer-Encoding:\xa0"
              "chunked"),
       bad(Fault::BadCoding)},
      {"folded", coding("Transfer-Encoding:\r\n chunked"), bad(Fault::FoldedHeader)},
      {"folded before the name", coding("X: y\r\n Transfer-Encoding: chunked"),
       bad(Fault::FoldedHeader)},
      {"no colon", coding("Transfer-Encoding chunked"), bad(Fault::BadHeaderName)},
      {"underscore is another field", coding("Transfer_Encoding: chunked"),
       "[head]POST /[end] then [end]"},
      {"long s",
       coding("Tran\xc5\xbf"
              "fer-Encoding: chunked"),
       bad(Fault::BadHeaderName)},
      {"HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       bad(Fault::BadCoding)},
  });
}

TEST(Smuggling, Lengths) {
  const auto length = [](std::string_view value) {
    return post("Content-Length:" + std::string(value) + "\r\n", "abc");
  };
  expect({
      {"two that differ", post("Content-Length: 3\r\nContent-Length: 0\r\n", "abc"),
       bad(Fault::RepeatedLength)},
      {"two that agree", post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
       bad(Fault::RepeatedLength)},
      {"list", length(" 3, 3"), bad(Fault::BadLength)},
      {"plus", length(" +3"), bad(Fault::BadLength)},
      {"minus", length(" -3"), bad(Fault::BadLength)},
      {"hexadecimal", length(" 0x3"), bad(Fault::BadLength)},
      {"octal looks, decimal reading", length(" 03"), "[head]POST /abc[end] then [end]"},
      {"fraction", length(" 3.0"), bad(Fault::BadLength)},
      {"exponent", length(" 3e0"), bad(Fault::BadLength)},
      {"underscore", length(" 1_0"), bad(Fault::BadLength)},
      {"inner space", length(" 1 0"), bad(Fault::BadLength)},
      {"wide digit", length(" \xef\xbc\x93"), bad(Fault::BadLength)},
      {"2^64", length(" 18446744073709551616"), bad(Fault::BadLength)},
      {"2^64 + 3", length(" 18446744073709551619"), bad(Fault::BadLength)},
      {"empty", length(""), bad(Fault::BadLength)},
      {"space before the colon", post("Content-Length : 3\r\n", "abc"), bad(Fault::BadHeaderName)},
      {"GET with a body", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
       "[head]GET /abc[end] then [end]"},
      {"CONNECT with a body",
       "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nContent-Length: 3\r\n\r\nabc",
       bad(Fault::UnexpectedBody)},
      {"TRACE with a body", "TRACE / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
       bad(Fault::UnexpectedBody)},
  });
}

TEST(Smuggling, Chunks) {
  const auto chunks = [](std::string_view text) {
    return post("Transfer-Encoding: chunked\r\n", text);
  };
  expect({
      {"size that wraps 64 bits", chunks("10000000000000003\r\nabc\r\n0\r\n\r\n"),
       in_body(Fault::BadChunk)},
      {"size that wraps 32 bits is not 3", chunks("100000003\r\nabc\r\n0\r\n\r\n"),
       "[head]POST /abc\r\n0\r\n\r\n then " + bad(Fault::Truncated)},
      {"negative", chunks("-1\r\n"), in_body(Fault::BadChunk)},
      {"0x", chunks("0x3\r\nabc\r\n0\r\n\r\n"), in_body(Fault::BadChunk)},
      {"underscore", chunks("1_0\r\n"), in_body(Fault::BadChunk)},
      {"leading space", chunks(" 3\r\nabc\r\n"), in_body(Fault::BadChunk)},
      {"space before the line end", chunks("3 \r\nabc\r\n"), in_body(Fault::BadChunk)},
      {"space before the extension", chunks("3 ;x\r\nabc\r\n"), in_body(Fault::BadChunk)},
      {"bare LF after the size", chunks("3\nabc\r\n"), in_body(Fault::BadChunk)},
      {"bare CR after the size", chunks("3\rabc\r\n"), in_body(Fault::BadChunk)},
      {"bare LF in an extension", chunks("3;x\ny\r\nabc\r\n"), in_body(Fault::BadChunk)},
      {"bare CR in an extension", chunks("3;x\ry\r\nabc\r\n"), in_body(Fault::BadChunk)},
      {"bare LF after the data", chunks("3\r\nabc\n0\r\n\r\n"), in_body(Fault::BadChunk, "abc")},
      {"other bytes after the data", chunks("3\r\nabcXX0\r\n\r\n"),
       in_body(Fault::BadChunk, "abc")},
      {"data longer than its size", chunks("3\r\nabcd\r\n0\r\n\r\n"),
       in_body(Fault::BadChunk, "abc")},
      {"empty size", chunks("\r\n"), in_body(Fault::BadChunk)},
      {"extension without a size", chunks(";x\r\n"), in_body(Fault::BadChunk)},
      {"an extension that looks like a size", chunks("3;0\r\nabc\r\n0\r\n\r\n"),
       "[head]POST /abc[end] then [end]"},
      {"folded trailer", chunks("0\r\nX: y\r\n z\r\n\r\n"), in_body(Fault::FoldedHeader)},
      {"bare LF ends the trailers", chunks("0\r\n\n"), in_body(Fault::BareLineEnd)},
      {"a request behind the end", chunks("0\r\n\r\n" + kNext),
       "[head]POST /[end][head]GET /admin[end] then [end]"},
  });
}

TEST(Smuggling, LineEnds) {
  expect({
      {"bare LF in the start line", "GET / HTTP/1.1\nHost: a\r\n\r\n", bad(Fault::BareLineEnd)},
      {"bare LF in a field", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", bad(Fault::BareLineEnd)},
      {"bare CR in a field", "GET / HTTP/1.1\r\nX: y\rHost: b\r\nHost: a\r\n\r\n",
       bad(Fault::BareLineEnd)},
      {"LF LF ends the head", "GET / HTTP/1.1\r\nHost: a\n\n" + kNext, bad(Fault::BareLineEnd)},
      {"CR LF LF ends the head", "GET / HTTP/1.1\r\nHost: a\r\n\n" + kNext,
       bad(Fault::BareLineEnd)},
      {"CR CR LF", "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", bad(Fault::BareLineEnd)},
      {"LF CR", "GET / HTTP/1.1\n\rHost: a\n\r\n\r", bad(Fault::BareLineEnd)},
      {"a line of a space", "GET / HTTP/1.1\r\nHost: a\r\n \r\nX: y\r\n\r\n",
       bad(Fault::FoldedHeader)},
      {"next line character is no line end",
       "GET / HTTP/1.1\r\nHost: a\r\nX: y\xc2\x85Z: z\r\n\r\n", "[head]GET /[end] then [end]"},
  });
}

TEST(Smuggling, StartLines) {
  const auto line = [](std::string_view text) { return std::string(text) + "\r\nHost: a\r\n\r\n"; };
  expect({
      {"tabs for spaces", line("GET\t/\tHTTP/1.1"), bad(Fault::BadStartLine)},
      {"two spaces", line("GET  / HTTP/1.1"), bad(Fault::BadTarget)},
      {"a space in the target", line("GET /x HTTP/1.1 HTTP/1.1"), bad(Fault::BadTarget)},
      {"HTTP/0.9", line("GET /"), bad(Fault::BadStartLine)},
      {"HTTP/1.2", line("GET / HTTP/1.2"), bad(Fault::BadVersion)},
      {"HTTP/01.1", line("GET / HTTP/01.1"), bad(Fault::BadVersion)},
      {"HTTP/1.1 with more behind it", line("GET / HTTP/1.1x"), bad(Fault::BadVersion)},
      {"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bad(Fault::BadVersion)},
      {"field name first", line("Host: a\r\nGET / HTTP/1.1"), bad(Fault::BadStartLine)},
      {"zero byte in the method", line(std::string_view("G\0T / HTTP/1.1", 14)),
       bad(Fault::BadMethod)},
  });
}

TEST(Smuggling, Hosts) {
  const auto get = [](std::string_view target, std::string_view fields) {
    return "GET " + std::string(target) + " HTTP/1.1\r\n" + std::string(fields) + "\r\n";
  };
  expect({
      {"two", get("/", "Host: a\r\nHost: b\r\n"), bad(Fault::BadHost)},
      {"two that agree", get("/", "Host: a\r\nHost: a\r\n"), bad(Fault::BadHost)},
      {"none", get("/", ""), bad(Fault::BadHost)},
      {"empty", get("/", "Host:\r\n"), bad(Fault::BadHost)},
      {"list", get("/", "Host: a, b\r\n"), bad(Fault::BadHost)},
      {"space within", get("/", "Host: a b\r\n"), bad(Fault::BadHost)},
      {"user information", get("/", "Host: a@b\r\n"), bad(Fault::BadHost)},
      {"path", get("/", "Host: a/b\r\n"), bad(Fault::BadHost)},
      {"a URL", get("/", "Host: http://a\r\n"), bad(Fault::BadHost)},
      {"port that is none", get("/", "Host: a:b\r\n"), bad(Fault::BadHost)},
      {"empty port", get("/", "Host: a:\r\n"), bad(Fault::BadHost)},
      {"two ports", get("/", "Host: a:1:2\r\n"), bad(Fault::BadHost)},
      {"port beyond 65535", get("/", "Host: a:65616\r\n"), bad(Fault::BadHost)},
      {"zero byte", get("/", std::string_view("Host: a\0b\r\n", 11)), bad(Fault::BadHeaderValue)},
      {"percent", get("/", "Host: a%2eb\r\n"), bad(Fault::BadHost)},
      {"folded", get("/", "Host:\r\n a\r\n"), bad(Fault::FoldedHeader)},
      {"space before the name", get("/", " Host: a\r\n"), bad(Fault::FoldedHeader)},
      {"absolute form, same host", get("http://a/x", "Host: a\r\n"),
       "[head]GET http://a/x[end] then [end]"},
      {"absolute form, other host", get("http://b/", "Host: a\r\n"), bad(Fault::HostMismatch)},
      {"absolute form, other port", get("http://a:81/", "Host: a\r\n"), bad(Fault::HostMismatch)},
      {"absolute form with user information", get("http://a@b/", "Host: b\r\n"),
       bad(Fault::BadTarget)},
      {"absolute form, backslash", get("http://a\\@b/", "Host: a\r\n"), bad(Fault::BadTarget)},
  });
}

TEST(Smuggling, Responses) {
  struct Row {
    const char* name;
    std::string text;
    std::string verdict;
  };
  const std::vector<Row> table{
      {"CL and TE",
       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       bad(Fault::LengthAndCoding)},
      {"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
       bad(Fault::RepeatedLength)},
      {"injected by a bare LF", "HTTP/1.1 200 OK\r\nX: y\nSet-Cookie: z\r\n\r\n",
       bad(Fault::BareLineEnd)},
      {"a 204 has no body whatever it says",
       "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
       "[head]204[end][head]200 then [end]"},
      {"nor has a 304", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
       "[head]304[end] then [end]"},
      {"nor a 1xx", "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 x\r\n\r\n",
       "[interim][head]204[end] then [end]"},
      {"gzip as a transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
       bad(Fault::BadCoding)},
  };
  for (const Row& row : table) EXPECT_EQ(response(row.text), row.verdict) << row.name;
}

}
}
