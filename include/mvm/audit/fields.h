#pragma once
// What may stand in an audit record, as types. Each takes text from anywhere and keeps only what
// its own grammar allows, within a bound: so no payload, header, query, argument or environment
// value has a place to go. What does not fit the grammar becomes "invalid", and none of its bytes
// are kept.
//
// All text here is printable ASCII without quotes and backslashes, so that a record has exactly one
// encoding.

#include <cstdint>
#include <string>
#include <string_view>

namespace mvm::audit {

class Text {
 public:
  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  bool operator==(const Text&) const = default;

 protected:
  Text() = default;
  explicit Text(std::string text) : text_(std::move(text)) {}
  void set(std::string text) { text_ = std::move(text); }

 private:
  std::string text_;
};

// Of sandboxes and images: 1 to 128 of [A-Za-z0-9._:/@-].
struct Name : Text {
  explicit Name(std::string_view text);
};

// Of sandboxes ("sb-…") and logs ("daemon"): 1 to 63 of [a-z0-9-].
struct LogId : Text {
  LogId() = default;
  explicit LogId(std::string_view text);
};

// "run-…": 1 to 63 of [a-z0-9-].
struct RunId : Text {
  RunId() = default;
  explicit RunId(std::string_view text);
};

// 64 hexadecimal digits.
struct DigestText : Text {
  explicit DigestText(std::string_view text);
};

// A DNS name: letters in lower case, digits, '-', '_', labels of up to 63, 253 in all (RFC 1035
// §2.3.4). No final dot. Empty stays empty: an address was used.
struct HostName : Text {
  HostName() = default;
  explicit HostName(std::string_view text);
};

// A method of HTTP (RFC 9110, 5789 and WebDAV's) or a type of DNS ("AAAA", "TYPE65"); what else a
// client may have written is "other".
struct Method : Text {
  Method() = default;
  explicit Method(std::string_view text);
};

// A rule: the id that the manifest's author chose, or its own text. 1 to 256 of
// [A-Za-z0-9._:/*@-] and the other characters of hosts, addresses and paths; blanks become '_'.
struct RuleId : Text {
  RuleId() = default;
  explicit RuleId(std::string_view text);
};

// The variable that a secret is called by: 1 to 64 of [A-Za-z0-9_].
struct VariableName : Text {
  explicit VariableName(std::string_view text);
};
// A class of personal data, a pattern's name, or a word of this program's: up to 32 of [a-z0-9_].
struct ClassName : Text {
  ClassName() = default;
  explicit ClassName(std::string_view text);
};

// A model of an AI provider: up to 80 of [A-Za-z0-9._:/@-].
struct ModelName : Text {
  ModelName() = default;
  explicit ModelName(std::string_view text);
};

// The path of a request: what follows '?' or '#' is left out, and so are parameters (";…", RFC 3986
// §3.3), which hold session ids. Bytes that are no pchar are percent-encoded. Cut at kMax bytes.
class Path : public Text {
 public:
  static constexpr size_t kMax = 512;
  Path() = default;
  explicit Path(std::string_view target);
  // Bytes it would have had; 0 when it is whole.
  uint64_t cut_from() const { return cut_from_; }

 private:
  uint64_t cut_from_ = 0;
};

}
