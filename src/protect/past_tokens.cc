#include "mvm/protect/past_tokens.h"

namespace mvm::protect {

void PastTokens::add(std::string_view token, PiiClass kind) {
  if (token.size() < 2) return;
  fresh_.emplace_back(token, kind);
  if (fresh_.size() == kMaxFresh) file();
}

void PastTokens::file() {
  for (auto& [token, kind] : fresh_) {
    starts_.add(token[0], token[1]);
    const auto [at, is_new] = tokens_.try_emplace(std::move(token), kind);
    if (!is_new) continue;
    if (order_.size() == kMax) {
      tokens_.erase(order_.front());
      order_.pop_front();
    }
    order_.push_back(at);
  }
  fresh_.clear();
}

std::optional<PastTokens::Known> PastTokens::at(std::string_view text) {
  file();
  const auto after = tokens_.upper_bound(text);
  if (after == tokens_.begin()) return std::nullopt;
  const auto& [token, kind] = *std::prev(after);
  if (!text.starts_with(token)) return std::nullopt;
  return Known{token.size(), kind};
}

std::optional<PiiClass> PastTokens::begun(std::string_view text) {
  file();
  const auto at = tokens_.lower_bound(text);
  if (at == tokens_.end() || at->first.size() <= text.size() || !at->first.starts_with(text))
    return std::nullopt;
  return at->second;
}

}
