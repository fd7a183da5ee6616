#pragma once
// What people say of a running sandbox's network: changes of its rules, and answers to what it
// asks. Verbs of the sandbox process.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/proto/control.h"
#include "mvm/proto/network.h"

namespace mvm::proto {

inline constexpr size_t kMaxPolicyChanges = 128;             // rules of each kind
inline constexpr size_t kMaxPolicyBytes = size_t{16} << 10;  // of all of them, encoded
inline constexpr size_t kMaxQuestions = 32;                  // that wait at a time
inline constexpr size_t kMaxQuestionText = 512;              // of a path; longer ones are cut

// Rules that were added to those a sandbox was made with, in the words of `mvm policy`: a host, a
// range or an endpoint. They go before the others, denials first, and the newest of each first.
struct PolicyChanges {
  std::vector<std::string> allow;
  std::vector<std::string> deny;
  bool operator==(const PolicyChanges&) const = default;

  Bytes encode() const;
  static std::optional<PolicyChanges> decode(ByteView item);
};

// End ok with PolicyReport.
inline constexpr std::string_view kSandboxPolicyVerb = "sandbox.policy";
struct PolicyReport {
  NetworkConfig made;  // what it was made with
  PolicyChanges changes;
  bool recordable = true;  // false: nothing new is admitted, as it could not be recorded
  bool operator==(const PolicyReport&) const = default;

  Bytes encode() const;
  static std::optional<PolicyReport> decode(ByteView item);
};

// Adds rules; the opposite of one of them that was added before is taken back. End ok, no result.
inline constexpr std::string_view kSandboxPolicyChangeVerb = "sandbox.policy_change";
struct PolicyChangeRequest {
  PolicyChanges add;
  bool operator==(const PolicyChangeRequest&) const = default;

  Bytes encode() const;
  static std::optional<PolicyChangeRequest> decode(ByteView payload);
};

// What waits for a person.
struct Question {
  std::string id;    // short, and never used again in the life of the sandbox
  std::string host;  // or an address
  uint16_t port = 0;
  std::string method;  // of a request; empty: a connection
  std::string path;
  std::string rule;      // the one that asks
  uint32_t waiting = 0;  // connections and requests that wait for this answer
  uint64_t left_ms = 0;  // until it is refused
  bool operator==(const Question&) const = default;

  Bytes encode() const;
  static std::optional<Question> decode(ByteView item);
};

// End ok with QuestionList: at once, or with `beyond` when a question is there that is newer than
// that list (QuestionList::newest).
inline constexpr std::string_view kSandboxQuestionsVerb = "sandbox.questions";
struct QuestionsRequest {
  std::optional<uint64_t> beyond;
  bool operator==(const QuestionsRequest&) const = default;

  Bytes encode() const;
  static std::optional<QuestionsRequest> decode(ByteView payload);
};
struct QuestionList {
  std::vector<Question> questions;  // the oldest first
  uint64_t newest = 0;              // how many there have been
  bool operator==(const QuestionList&) const = default;

  Bytes encode() const;
  static std::optional<QuestionList> decode(ByteView item);
};

// Answers one. `session`: and every equal one from now on, by a rule that is added. End ok with the
// Question; NotFound when it does not wait any more.
inline constexpr std::string_view kSandboxAnswerVerb = "sandbox.answer";
struct AnswerRequest {
  std::string id;
  bool allow = false;
  bool session = false;
  bool operator==(const AnswerRequest&) const = default;

  Bytes encode() const;
  static std::optional<AnswerRequest> decode(ByteView payload);
};

}
