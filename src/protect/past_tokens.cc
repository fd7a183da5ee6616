#include "mvm/protect/past_tokens.h"

namespace mvm::protect {

void PastTokens::add(std::string_view token, PiiClass kind) {
  if (token.size() < 2 || tokens_.contains(token)) return;
  if (order_.size() == kMax) {
    tokens_.erase(order_.front());
    order_.pop_front();
  }
  order_.push_back(tokens_.emplace(token, kind).first);
  starts_.set(static_cast<size_t>(static_cast<uint8_t>(token[0])) << 8 |
              static_cast<uint8_t>(token[1]));
}

std::optional<PastTokens::Known> PastTokens::at(std::string_view text) const {
  const auto after = tokens_.upper_bound(text);
  if (after == tokens_.begin()) return std::nullopt;
  const auto& [token, kind] = *std::prev(after);
  if (!text.starts_with(token)) return std::nullopt;
  return Known{token.size(), kind};
}

std::optional<PiiClass> PastTokens::begun(std::string_view text) const {
  const auto at = tokens_.lower_bound(text);
  if (at == tokens_.end() || at->first.size() <= text.size() || !at->first.starts_with(text))
    return std::nullopt;
  return at->second;
}

}
