// Theory of operation. `held_` is what is not decided yet. At each byte that could begin a token
// (two bytes of it are in `starts_`) either a whole token with both its ends is there, or a token's
// true beginning reaches the end of what came (then the rest waits), or the byte passes. Text
// tokens carry a mark, so those that were changed are recognised by it, whatever happened to the
// rest.

#include "mvm/protect/restore.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <string.h>  // explicit_bzero

#include "letters.h"

namespace mvm::protect {
namespace {

constexpr size_t kMarkedLetters = 64;  // longest run behind a mark that is looked at as one word

uint16_t two_bytes(std::string_view text) {
  return static_cast<uint16_t>(static_cast<uint8_t>(text[0]) << 8 | static_cast<uint8_t>(text[1]));
}

bool in_word(char c) { return is(c, kAlnum | kHigh) || c == '_'; }
// Behind a token: part of a longer name or number?
bool continues(char c, char next) {
  return in_word(c) || ((c == '.' || c == '-' || c == '@') && in_word(next));
}

// Whether a word goes on behind `before`: what ends there may be an escape of something else, as in
// "\nname" or "%20name".
bool joins(std::string_view before) {
  if (before.empty() || !in_word(before.back())) return false;
  const auto number_at_end = [&](size_t digits) -> std::optional<uint32_t> {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(before.data() + before.size() - digits,
                                              before.data() + before.size(), value, 16);
    if (error != std::errc() || end != before.data() + before.size()) return std::nullopt;
    return value;
  };
  const auto is_letter = [](uint32_t code) {
    return code >= 0x80 || in_word(static_cast<char>(code));
  };
  const size_t size = before.size();
  if (size >= 2 && before[size - 2] == '\\')
    return std::string_view("nrtbf").find(before.back()) == std::string_view::npos;
  if (size >= 3 && before[size - 3] == '%')
    if (const auto code = number_at_end(2)) return is_letter(*code);
  if (size >= 6 && before.substr(size - 6, 2) == "\\u")
    if (const auto code = number_at_end(4)) return is_letter(*code);
  return true;
}

JsonNest nest_of(Escaping escaping) {
  return escaping == Escaping::JsonString ? JsonNest::document() : JsonNest::text();
}

bool begins_mark(std::string_view text) {
  const size_t length = std::min(text.size(), kTokenMark.size());
  for (size_t i = 0; i < length; ++i)
    if (lower(text[i]) != kTokenMark[i]) return false;
  return true;
}

}

Restorer::Restorer(Vault& vault, Escaping escaping, OnMismatch on_mismatch)
    : vault_(vault), escaping_(escaping), on_mismatch_(on_mismatch), nest_(nest_of(escaping)) {}

void Restorer::index() {
  if (generation_ == vault_.generation()) return;
  generation_ = vault_.generation();
  tokens_.clear();
  starts_.reset();
  for (auto& [token, entry] : vault_.entries())
    tokens_.push_back({escaped(token, escaping_), &entry});
  std::ranges::sort(tokens_, {}, &Token::text);
  for (const Token& token : tokens_) starts_.set(two_bytes(token.text));
  // The mark in any case: m or M, v or V.
  for (const std::string_view start : {"mv", "mV", "Mv", "MV"}) starts_.set(two_bytes(start));
}

const Restorer::Token* Restorer::exact(std::string_view rest) const {
  const auto after = std::ranges::upper_bound(
      tokens_, rest, {}, [](const Token& token) { return std::string_view(token.text); });
  if (after == tokens_.begin()) return nullptr;
  const Token& token = *std::prev(after);
  return rest.starts_with(token.text) ? &token : nullptr;
}

bool Restorer::may_begin(std::string_view rest) const {
  const auto at = std::ranges::lower_bound(
      tokens_, rest, {}, [](const Token& token) { return std::string_view(token.text); });
  return at != tokens_.end() && at->text.size() > rest.size() && at->text.starts_with(rest);
}

Mismatch Restorer::judge(std::string_view word) const {
  std::string lowered(word);
  std::ranges::transform(lowered, lowered.begin(), lower);
  // A whole token of another spelling, or the beginning of one.
  for (const Token& token : tokens_) {
    std::string text = token.text;
    std::ranges::transform(text, text.begin(), lower);
    if (!text.starts_with(lowered) && !lowered.starts_with(text)) continue;
    // `word` ends before the domain of an email's token.
    const size_t whole =
        text.ends_with(kTokenDomain) ? text.size() - kTokenDomain.size() : text.size();
    return lowered != word && lowered.size() == whole ? Mismatch::CaseChanged : Mismatch::Truncated;
  }
  return Mismatch::Unknown;
}

bool Restorer::mismatched(Mismatch kind, std::string_view text, std::string& out) {
  ++counts_.mismatches.at(static_cast<size_t>(kind));
  switch (on_mismatch_) {
    case OnMismatch::Keep:
      out += text;
      break;
    case OnMismatch::Redact:
      out += kRedacted;
      break;
    case OnMismatch::Deny:
      refused_ = true;
      break;
  }
  return !refused_;
}

void Restorer::reset() { reset(nest_of(escaping_)); }

void Restorer::reset(const JsonNest& nest) {
  held_.clear();
  passed_ = 0;
  nested_ = 0;
  nest_ = nest;
  index();
}

// `value` as it has to be written at a place of `text`, which is behind those of all calls before.
std::string Restorer::written(std::string_view value, std::string_view text, size_t at) {
  if (escaping_ == Escaping::Url || escaping_ == Escaping::Html) return escaped(value, escaping_);
  nest_.feed(text.substr(nested_, at - nested_));
  nested_ = at;
  // What is said to be JSON, and is none, is read as if it were.
  const size_t least = escaping_ == Escaping::JsonString ? 1 : 0;
  std::string out(value);
  for (size_t depth = std::max(least, nest_.depth()); depth > 0; --depth) {
    std::string once = escaped(out, Escaping::JsonString);
    explicit_bzero(out.data(), out.size());
    out = std::move(once);
  }
  return out;
}

bool Restorer::is_beginning(std::string_view text) const {
  return !text.empty() && may_begin(text) && exact(text) == nullptr;
}

size_t Restorer::whole_token(std::string_view text) const {
  const Token* token = exact(text);
  if (token == nullptr) return 0;
  const size_t end = token->text.size();
  const char after = end < text.size() ? text[end] : '\0';
  const char next = end + 1 < text.size() ? text[end + 1] : '\0';
  return continues(after, next) ? 0 : end;
}

bool Restorer::feed(std::string_view bytes, Vault::Time now, std::string& out) {
  if (refused_) return false;
  held_ += bytes;
  return run(false, now, out);
}

bool Restorer::finish(Vault::Time now, std::string& out) {
  return !refused_ && run(true, now, out);
}

bool Restorer::run(bool final, Vault::Time now, std::string& out) {
  index();
  const std::string_view text = held_;
  size_t clean = passed_;  // passed up to here
  size_t at = passed_;
  const auto pass = [&](size_t until) {
    out += text.substr(clean, until - clean);
    clean = until;
  };
  for (; at < text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    if (rest.size() >= 2 && !starts_.test(two_bytes(rest))) continue;
    const bool joined = joins(text.substr(0, at));
    const bool marked = begins_mark(rest);
    if (joined && !marked) continue;
    const Token* token = joined ? nullptr : exact(rest);
    if (token != nullptr) {
      const size_t end = token->text.size();
      if (!final && rest.size() < end + 2) break;
      const char after = end < rest.size() ? rest[end] : '\0';
      const char next = end + 1 < rest.size() ? rest[end + 1] : '\0';
      if (!continues(after, next)) {
        pass(at);
        const Vault::State state = vault_.state(*token->entry, now);
        if (state == Vault::State::Live) {
          std::string value = written(token->entry->value.view(), text, at);
          out += value;
          explicit_bzero(value.data(), value.size());
          vault_.restored(*token->entry);
          ++counts_.restored;
        } else if (!mismatched(
                       state == Vault::State::Spent ? Mismatch::Replayed : Mismatch::Expired,
                       rest.substr(0, end), out)) {
          return false;
        }
        clean = at + end;
        at = clean - 1;
        continue;
      }
    }
    if (!final && !joined && may_begin(rest)) break;
    if (!marked) continue;
    // Something with the mark that is no token of this flow.
    if (!final && rest.size() < kTokenMark.size()) break;
    if (rest.size() < kTokenMark.size()) continue;
    size_t end = kTokenMark.size();
    while (end < rest.size() && end < kMarkedLetters && is(rest[end], kAlnum)) ++end;
    if (!final && end == rest.size() && end < kMarkedLetters) break;
    pass(at);
    if (!mismatched(judge(rest.substr(0, end)), rest.substr(0, end), out)) return false;
    clean = at + end;
    at = clean - 1;
  }
  pass(std::min(at, text.size()));
  if (escaping_ == Escaping::Plain || escaping_ == Escaping::JsonString)
    nest_.feed(text.substr(nested_, clean - nested_));
  const size_t gone = clean - std::min(clean, kContext);
  held_.erase(0, gone);
  passed_ = clean - gone;
  nested_ = passed_;
  return true;
}

}
