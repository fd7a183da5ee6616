#pragma once
// Lets requests out while a budget lasts, and charges it when their answers have ended. The answer
// that crosses a limit passes; the next request is refused. Pure: what changes goes to `keep`,
// which is the journal, before it counts.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mvm/meter/account.h"
#include "mvm/meter/budget.h"
#include "mvm/meter/reader.h"

namespace mvm::meter {

struct Terms {
  Budget budget;      // of all together
  Budget run_budget;  // of each command's run
  std::map<Provider, Budget> provider_budgets;
  OnUnknown on_unknown = OnUnknown::Count;
  // Requests under way count as what they may use at most: beside others, one is let out only if
  // the budget holds for all of them.
  bool reserve = false;
  PriceTable prices;
};

struct Denial {
  std::string budget;  // "max_total_tokens"; "on_unknown"; "journal"
  uint64_t limit = 0;
  uint64_t used = 0;
  bool reserved = false;  // it may fit when those under way have ended
  std::string message;
  std::string of;  // whose budget: "", a provider's word, "run"
  bool operator==(const Denial&) const = default;
};

class Ledger {
 public:
  // Puts a record down that is about to change `before`. False: it is not on record, and must not
  // count. Must not throw.
  using Keep = std::function<bool(const Record& record, const Account& before)>;
  Ledger(Terms terms, Account account, Keep keep);

  // The request is let out, as `id`; else why not.
  std::optional<Denial> admit(Provider provider, const Bounds& bounds, uint64_t& id);
  // Its body is known: from now on it counts as `bounds`. With `reserve` it may be refused after
  // all, and has then ended.
  std::optional<Denial> bound(uint64_t id, const Bounds& bounds);
  // Puts them down where bound() has not: they do not matter now, and nobody is to wait for that.
  void keep_bounds(uint64_t id);
  // Whether something depends on a request's bounds: bound() may refuse it, and what a crash leaves
  // of it is estimated by them. bound() then puts them down itself, before the request leaves.
  bool bounds_matter() const noexcept {
    return terms_.reserve || terms_.on_unknown == OnUnknown::Estimate;
  }
  // Its answer has ended. `once`: see Record. What was charged, with the model as it is counted;
  // Nothing where it was counted before.
  Record settle(uint64_t id, const ResponseReader::Result& result, uint64_t once = 0,
                Operation operation = Operation::Other);
  // What was under way when the one before us ended, and is unknown.
  const std::vector<Record>& left_over() const noexcept { return left_over_; }

  // A command runs from here on to there. What a request uses is charged to every run that is under
  // way when it begins: nobody can tell here which of them made it.
  void run_began(const std::string& run);
  void run_ended(const std::string& run);
  // Of each kind, the most that one of those under way has used.
  Spent most_of_runs() const;

  bool set_budget(const Budget& budget);
  bool set_run_budget(const Budget& budget);
  bool set_provider_budget(Provider provider, const Budget& budget);
  bool reset();

  const Account& account() const noexcept { return account_; }
  const Budget& budget() const noexcept {
    return account_.budget ? *account_.budget : terms_.budget;
  }
  const Budget& run_budget() const noexcept {
    return account_.run_budget ? *account_.run_budget : terms_.run_budget;
  }
  Budget provider_budget(Provider provider) const;
  // Whether what a request to it uses has to be known.
  bool must_know(Provider provider) const;
  const Terms& terms() const noexcept { return terms_; }

 private:
  struct Run {
    uint64_t number = 0;
    Spent spent;
  };
  // One of the budgets that a request is under.
  struct Scope {
    std::string of;
    Budget budget;
    Spent spent;
    uint64_t run = 0;
  };
  std::vector<Scope> scopes(Provider provider) const;
  bool is_in(uint64_t id, const Scope& scope) const;
  std::optional<Denial> used_up(Provider provider) const;
  std::optional<Denial> without_room(uint64_t id, const Bounds& bounds, const Scope& scope) const;
  void apply(const Record& record);
  std::optional<Denial> refuse(Provider provider, Denial denial);
  bool record(const Record& record);
  bool write_owed();

  Terms terms_;
  Account account_;
  Keep keep_;
  // Ends that could not be recorded; until they can, nothing is let out.
  std::vector<Record> owed_;
  std::vector<Record> left_over_;
  std::map<uint64_t, Bounds> bounded_;  // requests whose bodies are known
  std::map<std::string, Run> runs_;     // under way
  uint64_t next_run_ = 1;
  std::map<uint64_t, std::vector<uint64_t>>
      runs_of_;  // by request: numbers of runs, where that counts
};

}
