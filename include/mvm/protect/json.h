#pragma once
// Replaces what is found in the values of JSON documents, in a stream: escapes are decoded before
// the detectors look and put back after. Structure passes as it is, and so does, byte for byte,
// every value and name without findings. Documents may follow each other (NDJSON). A value's name
// counts as the words before it. A string that holds JSON itself, as what a model's tool is called
// with, is looked into as such, kMaxNested deep; one that only begins like it is text.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mvm/protect/body.h"
#include "mvm/protect/value.h"

namespace mvm::protect {

class JsonRewriter final : public BodyRewriter {
 public:
  static constexpr size_t kMaxNumber = 512;
  static constexpr unsigned kMaxNested = 3;

  JsonRewriter(Detectors detectors, Replace replace, size_t max_string = kMaxHeld)
      : scanner_(std::make_shared<ValueScanner>(std::move(detectors))),
        replace_(std::move(replace)),
        max_string_(max_string) {}

  // Appends to `out` what is decided; a string waits until it is whole and known to be no name.
  // False when a string or number is over its limit, or an escape is none: the document cannot be
  // decoded, policy decides about it, and nothing more may be fed.
  bool feed(std::string_view bytes, std::string& out) override;
  // False also when the document ends within a string.
  bool finish(std::string& out) override;

 private:
  // For what a string called `name` holds.
  JsonRewriter(std::shared_ptr<ValueScanner> scanner, Replace replace, size_t max_string,
               std::string name, unsigned nested)
      : scanner_(std::move(scanner)),
        replace_(std::move(replace)),
        max_string_(max_string),
        nested_(nested),
        name_(std::move(name)) {}

  std::optional<std::string> rewritten(std::string_view text);
  bool string_byte(char c);
  bool outside_byte(char c, std::string& out);
  bool flush_value(std::string& out);
  bool flush_name(std::string& out);

  std::shared_ptr<ValueScanner> scanner_;
  Replace replace_;
  size_t max_string_;
  unsigned nested_ = 0;
  std::string name_;     // of the value that comes, decoded
  std::string pending_;  // a string or number as it was written, without quotes
  std::string white_;    // white space behind a string that may be a name
  enum class Where { Outside, String, Behind, Number } where_ = Where::Outside;
  bool escape_ = false;
  bool failed_ = false;
};

// The text that the contents of a JSON string stand for; nothing when an escape is none (RFC 8259
// §7).
std::optional<std::string> json_decoded(std::string_view raw);

}
