// Theory of operation. `held_` is what is not decided yet. At each byte that could begin a token
// (two bytes of it are in `starts_`) either a whole token with both its ends is there, or a token's
// true beginning reaches the end of what came (then the rest waits), or the byte passes. Text
// tokens carry a mark, so those that were changed are recognised by it, whatever happened to the
// rest; numbers by their beginning, or because they are remembered as another flow's.

#include "mvm/protect/restore.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <string.h>  // explicit_bzero

#include "letters.h"
#include "unicode.h"

namespace mvm::protect {
namespace {

constexpr size_t kMarkedLetters = 64;  // longest run behind a mark that is looked at as one word
constexpr size_t kLongestToken = 64;
constexpr size_t kLookAhead = 2;  // behind a token, for whether it goes on as a longer word

bool in_word(char c) { return is(c, kAlnum) || c == '_'; }
bool word_at(std::string_view text, size_t at) {
  if (at >= text.size()) return false;
  return in_word(text[at]) || begins_letter(text[at], at + 1 < text.size() ? text[at + 1] : '\0');
}
// At `at`, behind a token: part of a longer name or number?
bool continues(std::string_view text, size_t at) {
  if (word_at(text, at)) return true;
  constexpr std::string_view kJoins = ".-@";
  return at + 1 < text.size() && kJoins.find(text[at]) != kJoins.npos && in_word(text[at + 1]);
}

// Whether a word goes on behind `before`: what ends there may be an escape of something else, as in
// "\nname" or "%20name".
bool joins(std::string_view before) {
  if (before.empty()) return false;
  if (!in_word(before.back())) return letter_at_end(before) > 0;
  const auto number_at_end = [&](size_t digits) -> std::optional<uint32_t> {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(before.data() + before.size() - digits,
                                              before.data() + before.size(), value, 16);
    if (error != std::errc() || end != before.data() + before.size()) return std::nullopt;
    return value;
  };
  const auto is_letter = [](uint32_t code) {
    if (code < 0x80) return in_word(static_cast<char>(code));
    std::string text;
    append_utf8(text, code);
    return letter_at_end(text) > 0;
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

std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lower);
  return out;
}

bool begins_mark(std::string_view text) {
  const size_t length = std::min(text.size(), kTokenMark.size());
  for (size_t i = 0; i < length; ++i)
    if (lower(text[i]) != kTokenMark[i]) return false;
  return true;
}

}

Restorer::Restorer(Vault& vault, Escaping escaping, OnMismatch on_mismatch, PastTokens* past)
    : vault_(vault),
      escaping_(escaping),
      on_mismatch_(on_mismatch),
      past_(past),
      nest_(nest_of(escaping)) {}

void Restorer::index() {
  if (generation_ == vault_.generation()) return;
  generation_ = vault_.generation();
  tokens_.clear();
  written_.clear();
  starts_.clear();
  tokens_.reserve(generation_);
  for (auto& [token, entry] : vault_.entries()) {
    std::string text = escaped(token, escaping_);
    const bool same = text == token;
    if (!same) written_.push_back(std::move(text));
    tokens_.push_back({same ? token : written_.back(), &entry});
  }
  if (!written_.empty()) std::ranges::sort(tokens_, {}, &Token::text);
  for (const Token& token : tokens_) starts_.add(token.text[0], token.text[1]);
  // The mark in any case: m or M, v or V.
  for (const std::string_view start : {"mv", "mV", "Mv", "MV"}) starts_.add(start[0], start[1]);
}

static std::string_view text_of(const auto& token) { return token.text; }

const Restorer::Token* Restorer::exact(std::string_view rest) const {
  const auto after = std::ranges::upper_bound(tokens_, rest, {}, text_of<Token>);
  if (after == tokens_.begin()) return nullptr;
  const Token& token = *std::prev(after);
  return rest.starts_with(token.text) ? &token : nullptr;
}

// Of a token of the flow, in any case.
bool Restorer::own_begins(std::string_view rest) const {
  const auto own = [&](std::string_view text) {
    const auto at = std::ranges::lower_bound(tokens_, text, {}, text_of<Token>);
    return at != tokens_.end() && at->text.size() > text.size() && at->text.starts_with(text);
  };
  return rest.size() < kLongestToken && (own(rest) || own(lowered(rest)));
}

// Of another one that is known, too.
bool Restorer::may_begin(std::string_view rest) const {
  return own_begins(rest) || (past_ != nullptr && past_->begun(rest));
}

// What `rest` begins with, where that is a token that was changed, or is another flow's. It begins
// a word, or with the mark.
std::optional<Restorer::Wrong> Restorer::wrong(std::string_view rest) const {
  if (begins_mark(rest) && rest.size() >= kTokenMark.size()) return wrong_mark(rest);
  const auto alone = [&](size_t length) { return !continues(rest, length); };
  if (past_ != nullptr)
    if (const auto known = past_->at(rest); known && alone(known->length) && exact(rest) == nullptr)
      return Wrong{Mismatch::Unknown, known->length, known->kind};
  const std::string lower_case = lowered(rest.substr(0, kLongestToken));
  if (const Token* token = exact(lower_case); token != nullptr && exact(rest) == nullptr)
    if (alone(token->text.size()))
      return Wrong{Mismatch::CaseChanged, token->text.size(), token->entry->kind};
  return cut(rest);
}

// Behind the mark.
std::optional<Restorer::Wrong> Restorer::wrong_mark(std::string_view rest) const {
  size_t end = kTokenMark.size();
  while (end < rest.size() && end < kMarkedLetters && is(rest[end], kAlnum)) ++end;
  const std::string_view word = rest.substr(0, end);
  const std::string name = lowered(word.substr(0, kMarkedToken));
  const auto at = std::ranges::lower_bound(tokens_, name, {}, text_of<Token>);
  if (at == tokens_.end() || !at->text.starts_with(name)) {
    if (past_ == nullptr) return Wrong{Mismatch::Unknown, end, std::nullopt};
    const auto known = past_->at(name);
    return Wrong{Mismatch::Unknown, end, known ? known->kind : past_->begun(name)};
  }
  Wrong out{Mismatch::Truncated, end, at->entry->kind};
  if (end != kMarkedToken) return out;
  // The name is whole. Of an address, the rest may be as it was or not.
  const std::string_view behind = rest.substr(end, kTokenDomain.size());
  const bool is_address = at->entry->kind == PiiClass::Email;
  if (word != name || (is_address && lowered(behind) == kTokenDomain && behind != kTokenDomain))
    out.kind = Mismatch::CaseChanged;
  else if (is_address && !behind.empty() &&
           std::string_view("%\\&=").find(behind[0]) != behind.npos)
    out.kind = Mismatch::Reencoded;
  return out;
}

// A token of digits that ends too early, or goes on: by so much of its beginning that hardly
// another number has it (six random digits or more, vault.cc).
std::optional<Restorer::Wrong> Restorer::cut(std::string_view rest) const {
  constexpr ptrdiff_t kEnough = 10;
  const auto next = std::ranges::lower_bound(tokens_, rest, {}, text_of<Token>);
  std::optional<Wrong> best;
  const auto look_at = [&](const Token& token) {
    const auto differs = std::ranges::mismatch(token.text, rest);
    auto length = static_cast<size_t>(differs.in1 - token.text.begin());
    while (length > 0 && !is(rest[length - 1], kAlnum)) --length;
    const std::string_view same = rest.substr(0, length);
    if (std::ranges::count_if(same, [](char c) { return is(c, kAlnum); }) < kEnough) return;
    if (length < token.text.size() && word_at(rest, length)) return;
    while (length < rest.size() && length < kMarkedLetters && is(rest[length], kAlnum)) ++length;
    if (!best || best->length < length) best = {Mismatch::Truncated, length, token.entry->kind};
  };
  if (next != tokens_.end()) look_at(*next);
  if (next != tokens_.begin()) look_at(*std::prev(next));
  return best;
}

bool Restorer::mismatched(const Wrong& wrong, std::string_view text, size_t at, std::string& out) {
  counts_.add(wrong.kind, wrong.of);
  switch (on_mismatch_) {
    case OnMismatch::Keep:
      out += text.substr(at, wrong.length);
      break;
    case OnMismatch::Redact:
      // In place of a number there is a string.
      depth(text, at);
      if (escaping_ == Escaping::JsonString && nest_.is_outside())
        out += '"' + std::string(kRedacted) + '"';
      else
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

// Of strings of JSON around a place of `text`, which is not before that of any call before.
size_t Restorer::depth(std::string_view text, size_t at) {
  nest_.feed(text.substr(nested_, at - nested_));
  nested_ = at;
  return nest_.depth();
}

// `value` as it has to be written there.
std::string Restorer::written(std::string_view value, std::string_view text, size_t at) {
  if (escaping_ == Escaping::Url || escaping_ == Escaping::Html) return escaped(value, escaping_);
  // What is said to be JSON, and is none, is read as if it were.
  const size_t least = escaping_ == Escaping::JsonString ? 1 : 0;
  std::string out(value);
  for (size_t left = std::max(least, depth(text, at)); left > 0; --left) {
    std::string once = escaped(out, Escaping::JsonString);
    explicit_bzero(out.data(), out.size());
    out = std::move(once);
  }
  return out;
}

bool Restorer::is_beginning(std::string_view text) const {
  constexpr size_t kWorthWaiting = 6;  // for another flow's, which would only be counted
  if (text.empty() || exact(text) != nullptr) return false;
  return text.size() < kWorthWaiting ? own_begins(text) : may_begin(text);
}

size_t Restorer::whole_token(std::string_view text) const {
  const Token* token = exact(text);
  if (token == nullptr) return 0;
  const size_t end = token->text.size();
  return continues(text, end) ? 0 : end;
}

bool Restorer::take_wrong(std::string_view text, size_t& length, std::string& out) {
  const auto found = wrong(text);
  length = found ? found->length : 0;
  return !found || mismatched(*found, text, 0, out);
}

bool Restorer::feed(std::string_view bytes, Vault::Time now, std::string& out) {
  if (refused_) return false;
  held_ += bytes;
  return run(false, now, out);
}

bool Restorer::finish(Vault::Time now, std::string& out) {
  return !refused_ && run(true, now, out);
}

bool Restorer::whole(std::string_view text, Vault::Time now, std::string& out) {
  if (refused_) return false;
  reset();
  held_ = text;
  return run(true, now, out);
}

bool Restorer::may_change(std::string_view text) {
  index();
  if (past_ != nullptr) past_->file();
  for (size_t at = 1; at < text.size(); ++at)
    if (starts_.may_hold(text[at - 1], text[at]) ||
        (past_ != nullptr && past_->may_start(text[at - 1], text[at])))
      return true;
  return false;
}

bool Restorer::run(bool final, Vault::Time now, std::string& out) {
  index();
  if (past_ != nullptr) past_->file();
  const std::string_view text = held_;
  size_t clean = passed_;  // passed up to here
  size_t at = passed_;
  const auto pass = [&](size_t until) {
    out += text.substr(clean, until - clean);
    clean = until;
  };
  for (; at < text.size(); ++at) {
    while (at + 1 < text.size() && !starts_.may_hold(text[at], text[at + 1]) &&
           (past_ == nullptr || !past_->may_start(text[at], text[at + 1])))
      ++at;
    const std::string_view rest = text.substr(at);
    const bool joined = joins(text.substr(0, at));
    const bool marked = begins_mark(rest);
    if (joined && !marked) continue;
    const Token* token = joined ? nullptr : exact(rest);
    if (token != nullptr && !final && rest.size() < token->text.size() + kLookAhead) break;
    if (const size_t length = token == nullptr ? 0 : whole_token(rest); length > 0) {
      pass(at);
      const Vault::State state = vault_.state(*token->entry, now);
      if (state == Vault::State::Live) {
        std::string value = written(token->entry->value.view(), text, at);
        out += value;
        explicit_bzero(value.data(), value.size());
        vault_.restored(*token->entry);
        ++counts_.restored;
      } else {
        const auto kind = state == Vault::State::Spent ? Mismatch::Replayed : Mismatch::Expired;
        if (!mismatched({kind, length, token->entry->kind}, text, at, out)) return false;
      }
      clean = at + length;
      at = clean - 1;
      continue;
    }
    if (!final && !joined && may_begin(rest)) break;
    // Something with the mark may still get it, or more of its word.
    if (!final && marked && rest.size() < kTokenMark.size()) break;
    const auto found = wrong(rest);
    if (!found) continue;
    if (!final && rest.size() < kMarkedLetters && rest.size() < found->length + kLookAhead) break;
    pass(at);
    if (!mismatched(*found, text, at, out)) return false;
    clean = at + found->length;
    at = clean - 1;
  }
  pass(std::min(at, text.size()));
  // Where it goes on, it does so from here.
  if (!final && (escaping_ == Escaping::Plain || escaping_ == Escaping::JsonString))
    depth(text, clean);
  const size_t gone = clean - std::min(clean, kContext);
  held_.erase(0, gone);
  passed_ = clean - gone;
  nested_ = passed_;
  return true;
}

}
