#pragma once
// What a sandbox has used, as a value that changes by records alone: the journal keeps the records,
// and whoever reads them in order has the same account. Nothing in it is content: counts, the
// providers' names, and models' names that are bounded in number and length.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/meter/budget.h"
#include "mvm/meter/provider.h"
#include "mvm/meter/reader.h"

namespace mvm::meter {

// Of one provider's model, since the sandbox was made: these never fall.
struct Counts {
  uint64_t requests = 0;
  uint64_t unknown = 0;  // answers that did not say what was used
  uint64_t refused = 0;  // requests that the budget refused; not among `requests`
  uint64_t input = 0;
  uint64_t output = 0;
  uint64_t total = 0;
  uint64_t cached = 0;
  uint64_t cache_written = 0;
  uint64_t reasoning = 0;
  uint64_t audio_input = 0;
  uint64_t audio_output = 0;
  uint64_t estimated = 0;  // tokens that the budget was charged by estimate; in none of the above
  uint64_t cost = 0;       // nanodollars
  uint64_t unpriced = 0;   // answers whose cost is not known
  // By what was asked for (Operation), of answers that said what was used.
  struct Part {
    uint64_t reported = 0;  // how many
    uint64_t input = 0;
    uint64_t output = 0;
    bool operator==(const Part&) const = default;
  };
  std::array<Part, kOperations> parts{};

  bool operator==(const Counts&) const = default;
};

// Against the budget: since the last reset, estimates included.
struct Spent {
  uint64_t total = 0;
  uint64_t input = 0;
  uint64_t output = 0;
  uint64_t requests = 0;
  uint64_t cost = 0;
  uint64_t unknown = 0;
  uint64_t unpriced = 0;
  bool operator==(const Spent&) const = default;
};

enum class RecordKind : uint8_t {
  Begin,    // a request is let out
  Bound,    // and is known to use this much at most
  End,      // its answer has ended
  Refused,  // a request was not let out; with an id, one that had begun
  Reset,    // `spent` is nothing again
  SetBudget,
  SetProviderBudget,
  SetRunBudget,
};

struct Record {
  RecordKind kind = RecordKind::Begin;
  uint64_t id = 0;  // of the request: Begin, Bound, End, maybe Refused
  Provider provider = Provider::OpenAi;
  Bounds bounds;  // Begin, Bound
  // End
  ResponseReader::Verdict verdict = ResponseReader::Verdict::Nothing;
  Operation operation = Operation::Other;
  std::string model;
  Usage usage;
  std::optional<uint64_t> cost;  // nanodollars; nothing: not known, or no tokens
  Bounds estimate;               // charged besides `usage`
  uint64_t estimate_cost = 0;
  uint64_t once = 0;  // hash of what must not be counted again; 0: nothing
  // SetBudget and those like it
  Budget budget;

  bool operator==(const Record&) const = default;
};

using Series = std::pair<Provider, std::string>;  // and model

struct Account {
  // Models by name; all further ones of a provider are its "other".
  static constexpr size_t kMaxSeries = 32;
  // Batches, and answers that may be asked for again, whose usage is counted: the last ones.
  static constexpr size_t kMaxOnce = 4096;

  // Requests under way: as many as the journal holds.
  static constexpr size_t kMaxOpen = 16'384;

  uint64_t next = 1;             // id of the next request
  std::optional<Budget> budget;  // as it was set while the sandbox was there; else the manifest's
  std::optional<Budget> run_budget;             // likewise, of each command's run
  std::map<Provider, Budget> provider_budgets;  // likewise
  Spent spent;
  std::map<Provider, Spent> spent_by;  // of `spent`
  std::map<Series, Counts> series;
  struct Open {
    Provider provider = Provider::OpenAi;
    Bounds bounds;
    bool operator==(const Open&) const = default;
  };
  std::map<uint64_t, Open> open;  // requests whose answers have not ended
  std::vector<uint64_t> once;

  void apply(const Record& record);
  bool counted_once(uint64_t key) const;
  // By what name the model of an End is counted: its own, or "other".
  std::string counted_model(const Record& record) const;
  Counts sum() const;
  bool operator==(const Account&) const = default;
};

}
