#include "question_prompt.h"

#include <utility>

#include "mvm/base/text.h"

namespace mvm::cli {

std::string question_text(const proto::Question& question) {
  const bool bracketed = question.host.find(':') != question.host.npos;
  std::string text = question.method.empty() ? "connect to " : question.method + " ";
  text += (bracketed ? "[" + question.host + "]" : question.host) + ":" +
          std::to_string(question.port) + question.path;
  if (!question.rule.empty()) text += " (rule '" + question.rule + "')";
  return printable(text, 600);
}

std::string QuestionPrompt::take(const proto::QuestionList& list, Clock::time_point now) {
  std::string text;
  open_.clear();
  for (const proto::Question& question : list.questions) {
    open_.push_back({question, now + std::chrono::milliseconds(question.left_ms)});
    if (parse_u64(question.id).value_or(0) <= newest_) continue;
    const std::string id = printable(sandbox_ + "/" + question.id, 160);
    text += line_end() + "mvm: " + printable(sandbox_, 80) + " asks: " + question_text(question) +
            line_end() + "  " + format_duration_ms(question.left_ms / 1000 * 1000) +
            " to answer: " + (keys_ ? "Ctrl-] here, or " : "") + "mvm policy approve " + id +
            ", mvm policy deny " + id + line_end();
  }
  newest_ = list.newest;
  return text;
}

std::string QuestionPrompt::answer_to(char key, Typed& out) {
  const proto::Question question = *std::exchange(shown_, {});
  proto::AnswerRequest answer;
  answer.id = question.id;
  std::string_view said;
  switch (key) {
    case 'o':
      answer.allow = true;
      said = "allowed once";
      break;
    case 's':
      answer.allow = answer.session = true;
      said = "allowed for the session";
      break;
    case 'd':
      said = "denied";
      break;
    default:
      return "not answered" + line_end();
  }
  out.answer = std::move(answer);
  std::erase_if(open_, [&](const Open& each) { return each.question.id == question.id; });
  return std::string(said) + line_end();
}

QuestionPrompt::Typed QuestionPrompt::type(ByteView keys, Clock::time_point now) {
  Typed out;
  std::erase_if(open_, [&](const Open& each) { return each.until <= now; });
  for (size_t i = 0; i < keys.size(); ++i) {
    const char key = static_cast<char>(keys[i]);
    if (shown_) {
      out.text += answer_to(key, out);
      // What was typed behind it was typed without having seen what comes next.
      const auto rest = keys.subspan(i + 1);
      out.for_command.insert(out.for_command.end(), rest.begin(), rest.end());
      return out;
    }
    if (!keys_ || key != kKey || open_.empty()) {
      out.for_command.push_back(keys[i]);
      continue;
    }
    shown_ = open_.front().question;
    out.text += line_end() + "mvm: " + printable(sandbox_, 80) +
                " asks: " + question_text(*shown_) + line_end() +
                "  o: allow once, s: allow for the session, d: deny, any other key: later. ";
    // Nor was this seen.
    return out;
  }
  return out;
}

}
