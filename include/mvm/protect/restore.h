#pragma once
// Puts the values of a flow back in place of their tokens, in a response of that flow. Only an
// exact token that stands alone is replaced, and the value is written the way the surrounding text
// is. What was changed on its way stays as it is, or is redacted, or ends the response, as policy
// says.
//
// Held back between two feeds: a true beginning of a token, and two bytes behind a whole one. Kept
// besides: a few bytes that have passed, since they may be an escape (kContext).

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/pair_sieve.h"
#include "mvm/protect/json_nest.h"
#include "mvm/protect/past_tokens.h"
#include "mvm/protect/vault.h"

namespace mvm::protect {

// Of the text around a token. In JSON, and in plain text that looks like it, a value is escaped as
// often as it stands within strings of JSON within each other.
enum class Escaping : uint8_t { Plain, JsonString, Url, Html };
enum class OnMismatch : uint8_t { Keep, Redact, Deny };
enum class Mismatch : uint8_t {
  CaseChanged,
  Truncated,  // or longer than it was
  Expired,
  Replayed,
  Unknown,    // another flow's
  Reencoded,  // written in another way than the text around it
};
inline constexpr size_t kMismatches = 6;

// What stands in place of what may not pass.
inline constexpr std::string_view kRedacted = "[redacted]";

// `text` as it must be written inside a value of the kind.
std::string escaped(std::string_view text, Escaping escaping);

class Restorer {
 public:
  struct Counts {
    struct Mismatched {
      Mismatch kind;
      std::optional<PiiClass> of;  // nothing: the class is not known
      size_t times;
    };
    size_t restored = 0;
    std::vector<Mismatched> mismatches;  // each kind and class once
    void add(Mismatch kind, std::optional<PiiClass> of) {
      for (Mismatched& known : mismatches)
        if (known.kind == kind && known.of == of) return static_cast<void>(++known.times);
      mismatches.push_back({kind, of, 1});
    }
    size_t times(Mismatch kind, std::optional<PiiClass> of) const {
      for (const Mismatched& known : mismatches)
        if (known.kind == kind && known.of == of) return known.times;
      return 0;
    }
  };

  // `vault` outlives the restorer, and so does `past`, if there is any; they may get new tokens
  // meanwhile.
  Restorer(Vault& vault, Escaping escaping, OnMismatch on_mismatch, PastTokens* past = nullptr);

  // Appends what may pass to `out`. False once the response is refused: nothing more may pass.
  bool feed(std::string_view bytes, Vault::Time now, std::string& out);
  bool finish(Vault::Time now, std::string& out);
  // A text that is whole already: as reset(), feed() and finish().
  bool whole(std::string_view text, Vault::Time now, std::string& out);
  // False: whole() would pass it as it is.
  bool may_change(std::string_view text);

  const Counts& counts() const noexcept { return counts_; }
  size_t held() const noexcept { return held_.size() - passed_; }

  // ---- for text that comes in pieces of its own (events.h)
  // For other text, which stands in JSON as `nest` says; counts go on.
  void reset();
  void reset(const JsonNest& nest);
  // Whether all of `text` is a true beginning of a token, in whatever case or of another flow too,
  // and not yet a whole one.
  bool is_beginning(std::string_view text) const;
  // The length of the token that `text` begins with and that ends there; 0: none does.
  size_t whole_token(std::string_view text) const;
  // Where `text` begins with a token that was changed, or is another flow's: its length, and what
  // is to be in its place appended to `out`. False once the response is refused.
  bool take_wrong(std::string_view text, size_t& length, std::string& out);

 private:
  struct Token {
    std::string_view text;  // as this kind of response writes it
    Vault::Entry* entry;
  };

  struct Wrong {  // a token that is not to be restored
    Mismatch kind;
    size_t length;
    std::optional<PiiClass> of;
  };

  void index();
  bool run(bool final, Vault::Time now, std::string& out);
  const Token* exact(std::string_view rest) const;
  bool own_begins(std::string_view rest) const;
  bool may_begin(std::string_view rest) const;
  std::optional<Wrong> wrong(std::string_view rest) const;
  std::optional<Wrong> wrong_mark(std::string_view rest) const;
  std::optional<Wrong> cut(std::string_view rest) const;
  size_t depth(std::string_view text, size_t at);
  std::string written(std::string_view value, std::string_view text, size_t at);
  bool mismatched(const Wrong& wrong, std::string_view text, size_t at, std::string& out);

  Vault& vault_;
  Escaping escaping_;
  OnMismatch on_mismatch_;
  PastTokens* past_;
  std::vector<Token> tokens_;        // sorted
  std::deque<std::string> written_;  // those of their texts that differ from the vault's
  PairSieve starts_;                 // of their first two bytes
  size_t generation_ = ~size_t{0};
  static constexpr size_t kContext = 6;  // the longest escape of one byte: \u000a
  std::string held_;                     // the end of what has passed, and what has not
  size_t passed_ = 0;                    // of it
  JsonNest nest_;                        // at the place that `nested_` says
  size_t nested_ = 0;
  bool refused_ = false;
  Counts counts_;
};

}
