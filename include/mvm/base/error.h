#pragma once
// How mvm fails: exceptions for failures the direct caller does not branch on, values for outcomes.
// One class, few kinds; a kind is chosen by what the catcher can do and maps to an HTTP status and
// an exit code.

#include <exception>
#include <string>
#include <string_view>

namespace mvm {

enum class Kind {
  Invalid,      // the request or file is wrong; the message says where and what to do
  NotFound,     // the named thing does not exist
  Conflict,     // it exists already, or is in another state
  Denied,       // policy or permission refuses it
  Exhausted,    // a limit or a resource ran out
  Unavailable,  // a peer or host facility is not there
  Timeout,      // it did not happen in time
  Unsupported,  // this host or guest cannot do it
  Internal,     // anything else; a bug or an I/O error
};

// The spelling used in JSON and logs: "invalid", "not_found", ...
std::string_view kind_name(Kind kind);
Kind kind_from_name(std::string_view name);  // unknown names are Internal

class Error : public std::exception {
 public:
  Error(Kind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  Kind kind() const { return kind_; }
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& message() const { return message_; }

  // Prefixes the message with what was being done: "starting vm web: opening image: no such file".
  void add_context(std::string_view doing);

 private:
  Kind kind_;
  std::string message_;
};

// Runs `body`; an Error that leaves it carries `doing` as context.
template <typename Body>
decltype(auto) while_doing(std::string_view doing, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    error.add_context(doing);
    throw;
  }
}

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;

}

// Only for what a bug of ours can break, never for input. Always on.
#define MVM_ASSERT(condition) \
  (static_cast<bool>(condition) ? void(0) : ::mvm::assertion_failed(#condition, __FILE__, __LINE__))
