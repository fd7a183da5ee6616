#pragma once
// Replaces what is found in the content of a message, in a stream, as the content's form asks:
// escapes are decoded before the detectors look, and structure and everything without findings
// passes byte for byte. docs/pii.md has the forms.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mvm/protect/value.h"

namespace mvm::protect {

class BodyRewriter {
 public:
  // The most that is held back of one value (a string, a field, a run of text in XML), where
  // nothing else is said.
  static constexpr size_t kMaxHeld = size_t{1} << 20;

  virtual ~BodyRewriter() = default;
  // Appends what is decided. False: this is not of the form, or more than may be held; policy
  // decides about it, and nothing more may be fed.
  virtual bool feed(std::string_view bytes, std::string& out) = 0;
  virtual bool finish(std::string& out) = 0;
};

// A Content-Type (RFC 9110 §8.3.1): names in lower case, quotes taken off.
struct MediaType {
  std::string type;  // "application/json"; empty when nothing is said
  std::string charset;
  std::string boundary;
};
// Nothing when it is malformed.
std::optional<MediaType> parse_media_type(std::string_view text);

enum class BodyForm : uint8_t { Json, Fields, Multipart, Xml, Text, Opaque };
// Opaque: bytes in which text cannot be told, such as images; or a charset that is not known.
BodyForm body_form(const MediaType& type);

struct BodyRules {
  Detectors detectors;
  Replace replace;
  // Of a part of a multipart body that is opaque: true when it may pass. None: it may not.
  std::function<bool()> pass_opaque;
  size_t max_held = BodyRewriter::kMaxHeld;
};

// Null for an opaque one.
std::unique_ptr<BodyRewriter> body_rewriter(const MediaType& type, const BodyRules& rules);

// Text that may be UTF-16, as its charset, its byte order mark or its first bytes say; `inner`
// rewrites the UTF-8 that it stands for.
std::unique_ptr<BodyRewriter> unicode_rewriter(const std::string& charset,
                                               std::unique_ptr<BodyRewriter> inner);

}
