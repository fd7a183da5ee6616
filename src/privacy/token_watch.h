#pragma once
// Tokens of a flow that come back in another writing than the text around them: in base64, percent-
// encoded, in hexadecimal, escaped. They are not put back; they are counted, and redacted or
// refused where policy says so. What comes in pieces, as the events of a model's answer, is looked
// at piece by piece.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/protect/restore.h"
#include "mvm/secret/finder.h"

namespace mvm::privacy {

// The tokens that are looked for, the first kMax of a flow.
class TokenIndex {
 public:
  static constexpr size_t kMax = 256;

  void add(std::string_view token, protect::PiiClass kind);
  struct Token {
    std::string text;
    protect::PiiClass kind;
  };
  const Token& operator[](uint32_t id) const { return tokens_.at(id); }
  bool empty() const noexcept { return tokens_.empty(); }
  const secret::Finder& finder();

 private:
  std::vector<Token> tokens_;
  uint32_t found_by_ = 0;                 // of them
  std::optional<secret::Finder> finder_;  // none is made where nobody looks
};

// The tokens of a flow.
struct FlowTokens {
  explicit FlowTokens(protect::Vault::Limits limits) : vault(limits) {}
  protect::Vault vault;
  TokenIndex index;
};

class TokenWatch {
 public:
  enum class Lines : uint8_t { No, Yes };  // Yes: nothing waits for what is behind a line's end

  // `index` outlives it, and may get new tokens meanwhile.
  TokenWatch(TokenIndex& index, protect::Escaping escaping, protect::OnMismatch on_mismatch,
             Lines lines)
      : index_(index), escaping_(escaping), on_mismatch_(on_mismatch), lines_(lines) {}

  // As Restorer's, which what it appends is for.
  bool feed(std::string_view text, std::string& out);
  bool finish(std::string& out);
  // Whether a text that is whole may have one in it.
  bool may_find(std::string_view text) const {
    return !index_.empty() && index_.finder().may_find(text);
  }
  const protect::Restorer::Counts& counts() const noexcept { return counts_; }

 private:
  bool run(bool last, std::string& out);
  bool look(std::string_view text, bool last, std::string& out, size_t& done);
  bool is_other_writing(const secret::Finder::Hit& hit, std::string_view text) const;

  TokenIndex& index_;
  protect::Escaping escaping_;
  protect::OnMismatch on_mismatch_;
  Lines lines_;
  std::string held_;
  bool refused_ = false;
  protect::Restorer::Counts counts_;
};

}
