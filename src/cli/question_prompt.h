#pragma once
// What a sandbox asks (proto::Question), on the terminal of a command that runs in it.
//
// A question is only told. An answer takes two keys: Ctrl-] shows the question again, on a line
// that the command cannot write over meanwhile, and the key after it decides. So nothing that was
// being typed for the command answers, and nothing that the command prints passes for a question.

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "mvm/base/bytes.h"
#include "mvm/proto/policy.h"

namespace mvm::cli {

class QuestionPrompt {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr char kKey = 0x1d;  // Ctrl-]

  // With `keys`, what is typed comes here first; line breaks are those of a raw terminal then.
  QuestionPrompt(std::string sandbox, bool keys) : sandbox_(std::move(sandbox)), keys_(keys) {}

  // What is to be printed of a list: the questions that are new.
  std::string take(const proto::QuestionList& list, Clock::time_point now);
  uint64_t newest() const { return newest_; }

  struct Typed {
    Bytes for_command;
    std::string text;  // to print
    std::optional<proto::AnswerRequest> answer;
  };
  Typed type(ByteView keys, Clock::time_point now);
  // A question is shown, and the next key is its answer: nothing else may be printed.
  bool shows() const { return shown_.has_value(); }

 private:
  struct Open {
    proto::Question question;
    Clock::time_point until;
  };
  std::string line_end() const { return keys_ ? "\r\n" : "\n"; }
  std::string answer_to(char key, Typed& out);

  std::string sandbox_;
  bool keys_;
  uint64_t newest_ = 0;
  std::deque<Open> open_;
  std::optional<proto::Question> shown_;
};

// "POST api.example.com:443/v1/x (rule 'writes')"
std::string question_text(const proto::Question& question);

}
