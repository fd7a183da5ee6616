#include "mvm/protect/past_tokens.h"

#include <algorithm>
#include <cstring>

namespace mvm::protect {

void PastTokens::add(std::string_view token, PiiClass kind) {
  if (token.size() < kKey) return;
  fresh_.emplace_back(token, kind);
  if (fresh_.size() == kMaxFresh) file();
}

uint16_t& PastTokens::chain(std::string_view text) noexcept {
  uint32_t key = 0;
  std::memcpy(&key, text.data(), kKey);
  return chains_[(key * 2654435769U) >> 20U];  // Fibonacci hashing, to twelve bits
}

void PastTokens::forget_oldest() {
  uint16_t* link = &chain(ring_[oldest_].text);
  while (*link != oldest_) link = &ring_[*link].next;
  *link = ring_[oldest_].next;
}

void PastTokens::file() {
  for (auto& [text, kind] : fresh_) {
    uint16_t at = chain(text);
    while (at != kEnd && ring_[at].text != text) at = ring_[at].next;
    if (at != kEnd) continue;
    starts_.add(text[0], text[1]);
    if (ring_.size() < kMax) {
      at = static_cast<uint16_t>(ring_.size());
      ring_.emplace_back();
    } else {
      forget_oldest();
      at = static_cast<uint16_t>(oldest_);
      oldest_ = (oldest_ + 1) % kMax;
    }
    uint16_t& first = chain(text);
    ring_[at] = {std::move(text), kind, first};
    first = at;
    if (oldest_ == 0 && ring_.size() == kMax) {  // once a round
      starts_.clear();
      for (const Token& token : ring_) starts_.add(token.text[0], token.text[1]);
    }
  }
  fresh_.clear();
}

template <typename Matches>
const PastTokens::Token* PastTokens::longest(std::string_view text, Matches matches) {
  file();
  const Token* out = nullptr;
  const auto consider = [&](const Token& token) {
    if (matches(token.text) && (out == nullptr || out->text.size() < token.text.size()))
      out = &token;
  };
  if (text.size() >= kKey)
    for (uint16_t at = chain(text); at != kEnd; at = ring_[at].next) consider(ring_[at]);
  else if (text.size() < 2 ? !text.empty() && starts_.begins(text[0])
                           : starts_.may_hold(text[0], text[1]))
    std::ranges::for_each(ring_, consider);
  return out;
}

std::optional<PastTokens::Known> PastTokens::at(std::string_view text) {
  const Token* token =
      longest(text, [text](std::string_view each) { return text.starts_with(each); });
  if (token == nullptr) return std::nullopt;
  return Known{token->text.size(), token->kind};
}

std::optional<PiiClass> PastTokens::begun(std::string_view text) {
  const Token* token = longest(text, [text](std::string_view each) {
    return each.size() > text.size() && each.starts_with(text);
  });
  if (token == nullptr) return std::nullopt;
  return token->kind;
}

}
