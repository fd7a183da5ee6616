#pragma once
// What a client is told instead of an answer: a status, and a JSON body that says why and what
// would change it.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mvm/http/message.h"

namespace mvm::http {

inline constexpr std::string_view kReasonField = "X-Mvm-Egress-Reason";

struct Refusal {
  unsigned status = 403;
  std::string reason;   // one word: "policy_denied"
  std::string message;  // one line for people
  // Further members of the object, in order: {"host", "example.com"}, {"allow", "--allow-host …"}.
  std::vector<std::pair<std::string, std::string>> details;
  bool close = true;  // the connection ends after it
  // For clients that look for their server's own errors: what stands before "error", and a number
  // in the object, as "code".
  std::vector<std::pair<std::string, std::string>> beside;
  std::optional<unsigned> code;
  bool passing = true;  // false: to ask again changes nothing, which clients are told that would
};

// {"error": {"reason": …, "message": …, …}} and a newline. Text that is not UTF-8 is made so.
std::string refusal_body(const Refusal& refusal);
// Content-Type, Cache-Control: no-store, kReasonField, Connection: close when it is to be, and
// X-Should-Retry: false (as the SDKs of OpenAI and Anthropic read it) where it would be in vain.
ResponseHead refusal_head(const Refusal& refusal, size_t body_length);
// Both, as HTTP/1.1. Without the body when the request's method was HEAD.
std::string encode_refusal(const Refusal& refusal, std::string_view method = "GET");

// A JSON string with its quotation marks; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}
