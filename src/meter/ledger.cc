#include "mvm/meter/ledger.h"

#include <algorithm>

#include "mvm/base/error.h"

namespace mvm::meter {
namespace {

std::string shown(std::string_view budget, uint64_t amount) {
  return budget == "max_cost" ? "$" + format_dollars(amount) : std::to_string(amount);
}

std::string budget_of(std::string_view of) {
  if (of.empty()) return "the sandbox's AI budget";
  if (of == "run") return "the AI budget of a command";
  return "the sandbox's AI budget for " + std::string(of);
}

Denial used_up_denial(const std::string& of, const char* budget, uint64_t limit, uint64_t used) {
  return {budget,
          limit,
          used,
          false,
          budget_of(of) + " is used up: " + std::string(budget) + " is " + shown(budget, limit) +
              ", and " + shown(budget, used) + " is used",
          of};
}

std::optional<Denial> used_up_of(const std::string& of, const Budget& budget, const Spent& spent) {
  const auto over = [](const std::optional<uint64_t>& limit, uint64_t used) {
    return limit && used >= *limit;
  };
  if (over(budget.requests, spent.requests))
    return used_up_denial(of, "max_requests", *budget.requests, spent.requests);
  if (over(budget.total_tokens, spent.total))
    return used_up_denial(of, "max_total_tokens", *budget.total_tokens, spent.total);
  if (over(budget.input_tokens, spent.input))
    return used_up_denial(of, "max_input_tokens", *budget.input_tokens, spent.input);
  if (over(budget.output_tokens, spent.output))
    return used_up_denial(of, "max_output_tokens", *budget.output_tokens, spent.output);
  if (over(budget.cost, spent.cost))
    return used_up_denial(of, "max_cost", *budget.cost, spent.cost);
  return std::nullopt;
}

bool needs_counts(const Budget& budget) {
  return budget.total_tokens || budget.input_tokens || budget.output_tokens || budget.cost;
}

Denial journal_denial() {
  return {"journal", 0, 0, false,
          "the sandbox cannot record its use of AI (is the host's disk full?), so no request is "
          "let out"};
}

}

Ledger::Ledger(Terms terms, Account account, Keep keep)
    : terms_(std::move(terms)), account_(std::move(account)), keep_(std::move(keep)) {
  // What was under way when the one before us ended: nobody knows what it used.
  std::vector<uint64_t> left;
  for (const auto& [id, request] : account_.open) left.push_back(id);
  for (const uint64_t id : left) {
    bounded_[id] = account_.open.at(id).bounds;
    left_over_.push_back(settle(id, {}));
  }
}

bool Ledger::write_owed() {
  while (!owed_.empty()) {
    if (!keep_(owed_.front(), account_)) return false;
    apply(owed_.front());
    owed_.erase(owed_.begin());
  }
  return true;
}

bool Ledger::record(const Record& record) {
  if (!write_owed() || !keep_(record, account_)) return false;
  apply(record);
  return true;
}

// What it changes of `spent`, it changes for the request's runs.
void Ledger::apply(const Record& record) {
  if (record.kind == RecordKind::Begin && run_budget().any())
    for (const auto& [name, run] : runs_) runs_of_[record.id].push_back(run.number);
  const Spent before = account_.spent;
  account_.apply(record);
  if (record.kind == RecordKind::Reset)
    for (auto& [name, run] : runs_) run.spent = {};
  const auto runs = runs_of_.find(record.id);
  if (record.id == 0 || runs == runs_of_.end()) return;
  for (auto& [name, run] : runs_) {
    if (std::ranges::find(runs->second, run.number) == runs->second.end()) continue;
    for (const auto field : {&Spent::total, &Spent::input, &Spent::output, &Spent::requests,
                             &Spent::cost, &Spent::unknown, &Spent::unpriced})
      run.spent.*field += account_.spent.*field - before.*field;  // requests may fall by one
  }
  if (!account_.open.contains(record.id)) runs_of_.erase(runs);
}

void Ledger::run_began(const std::string& run) { runs_[run] = {next_run_++, {}}; }
void Ledger::run_ended(const std::string& run) { runs_.erase(run); }

Spent Ledger::most_of_runs() const {
  Spent most;
  for (const auto& [name, run] : runs_)
    for (const auto member : {&Spent::total, &Spent::input, &Spent::output, &Spent::requests,
                              &Spent::cost, &Spent::unknown, &Spent::unpriced})
      most.*member = std::max(most.*member, run.spent.*member);
  return most;
}

Budget Ledger::provider_budget(Provider provider) const {
  const auto set = account_.provider_budgets.find(provider);
  if (set != account_.provider_budgets.end()) return set->second;
  const auto given = terms_.provider_budgets.find(provider);
  return given == terms_.provider_budgets.end() ? Budget{} : given->second;
}

bool Ledger::must_know(Provider provider) const {
  return needs_counts(budget()) || needs_counts(provider_budget(provider)) ||
         needs_counts(run_budget()) || terms_.on_unknown == OnUnknown::Refuse;
}

std::vector<Ledger::Scope> Ledger::scopes(Provider provider) const {
  std::vector<Scope> out{{"", budget(), account_.spent}};
  const auto spent = account_.spent_by.find(provider);
  out.push_back({std::string(provider_word(provider)), provider_budget(provider),
                 spent == account_.spent_by.end() ? Spent{} : spent->second});
  if (run_budget().any())
    for (const auto& [name, run] : runs_)
      out.push_back({"run", run_budget(), run.spent, run.number});
  return out;
}

bool Ledger::is_in(uint64_t id, const Scope& scope) const {
  if (scope.of.empty()) return true;
  if (scope.run == 0) return provider_word(account_.open.at(id).provider) == scope.of;
  const auto runs = runs_of_.find(id);
  return runs != runs_of_.end() && std::ranges::find(runs->second, scope.run) != runs->second.end();
}

std::optional<Denial> Ledger::used_up(Provider provider) const {
  for (const Scope& scope : scopes(provider))
    if (auto denial = used_up_of(scope.of, scope.budget, scope.spent)) return denial;
  const Spent& spent = account_.spent;
  if (terms_.on_unknown == OnUnknown::Refuse && spent.unknown != 0)
    return Denial{"on_unknown", 0, spent.unknown, false,
                  std::to_string(spent.unknown) + (spent.unknown == 1 ? " answer" : " answers") +
                      " did not say what was used, and on_unknown = \"refuse\""};
  const bool money = budget().cost || provider_budget(provider).cost || run_budget().cost;
  if (terms_.on_unknown == OnUnknown::Refuse && money && spent.unpriced != 0)
    return Denial{"on_unknown", 0, spent.unpriced, false,
                  "a model without a price was used, and on_unknown = \"refuse\""};
  return std::nullopt;
}

// Beside what the others under way may use.
std::optional<Denial> Ledger::without_room(uint64_t id, const Bounds& bounds,
                                           const Scope& scope) const {
  Bounds others;
  bool alone = true;
  for (const auto& [other, most] : bounded_) {
    if (other == id || !is_in(other, scope)) continue;
    alone = false;
    others.input += most.input;
    others.output += most.output;
  }
  // Alone it may cross the limit, as any answer may.
  if (alone) return std::nullopt;
  const Budget& budget = scope.budget;
  const Spent& spent = scope.spent;
  const auto check = [&scope](const char* name, const std::optional<uint64_t>& limit, uint64_t used,
                              uint64_t wanted) -> std::optional<Denial> {
    if (!limit || used + wanted <= *limit) return std::nullopt;
    return Denial{name,
                  *limit,
                  used,
                  true,
                  "what is left of " + budget_of(scope.of) + " (" + std::string(name) + ", " +
                      shown(name, used) + " of " + shown(name, *limit) +
                      " used) is reserved for requests under way; try again when they have ended",
                  scope.of};
  };
  const uint64_t input = others.input + bounds.input;
  const uint64_t output = others.output + bounds.output;
  if (auto denial = check("max_total_tokens", budget.total_tokens, spent.total, input + output))
    return denial;
  if (auto denial = check("max_input_tokens", budget.input_tokens, spent.input, input))
    return denial;
  if (auto denial = check("max_output_tokens", budget.output_tokens, spent.output, output))
    return denial;
  return check("max_cost", budget.cost, spent.cost, terms_.prices.dearest(input, output));
}

std::optional<Denial> Ledger::refuse(Provider provider, Denial denial) {
  Record record;
  record.kind = RecordKind::Refused;
  record.provider = provider;
  // A refusal that is not on record is one all the same.
  static_cast<void>(this->record(record));
  return denial;
}

std::optional<Denial> Ledger::admit(Provider provider, const Bounds& bounds, uint64_t& id) {
  if (!write_owed()) return journal_denial();
  if (account_.open.size() >= Account::kMaxOpen)
    return refuse(provider, {"under_way",
                             Account::kMaxOpen,
                             account_.open.size(),
                             true,
                             "more requests to AI providers are under way than can be counted; "
                             "try again when some have ended",
                             {}});
  if (auto denial = used_up(provider)) return refuse(provider, std::move(*denial));
  Record record;
  record.kind = RecordKind::Begin;
  record.id = account_.next;
  record.provider = provider;
  record.bounds = bounds;
  if (!this->record(record)) return journal_denial();
  id = record.id;
  return std::nullopt;
}

std::optional<Denial> Ledger::bound(uint64_t id, const Bounds& bounds) {
  const auto open = account_.open.find(id);
  MVM_ASSERT(open != account_.open.end());
  const Provider provider = open->second.provider;
  const auto refuse_it = [&](Denial denial) {
    Record record;
    record.kind = RecordKind::Refused;
    record.id = id;
    record.provider = provider;
    if (!this->record(record)) owed_.push_back(std::move(record));
    return denial;
  };
  if (terms_.reserve)
    for (const Scope& scope : scopes(provider))
      if (is_in(id, scope))
        if (auto denial = without_room(id, bounds, scope)) return refuse_it(std::move(*denial));
  bounded_[id] = bounds;
  // Should it be lost, a crash would have the request estimated by its first bound.
  if (bounds_matter()) keep_bounds(id);
  return std::nullopt;
}

void Ledger::keep_bounds(uint64_t id) {
  const auto bounds = bounded_.find(id);
  const auto open = account_.open.find(id);
  if (bounds == bounded_.end() || open == account_.open.end()) return;
  if (open->second.bounds == bounds->second) return;
  Record record;
  record.kind = RecordKind::Bound;
  record.id = id;
  record.provider = open->second.provider;
  record.bounds = bounds->second;
  static_cast<void>(this->record(record));
}

Record Ledger::settle(uint64_t id, const ResponseReader::Result& result, uint64_t once,
                      Operation operation) {
  keep_bounds(id);
  const auto open = account_.open.find(id);
  MVM_ASSERT(open != account_.open.end());
  Record record;
  record.kind = RecordKind::End;
  record.id = id;
  record.provider = open->second.provider;
  record.verdict = result.verdict;
  record.operation = operation;
  record.model = clean_model(result.model);
  record.usage = result.usage;
  record.once = once;
  record.cost = terms_.prices.cost(record.model, result.usage);
  record.usage.cost.reset();
  using Verdict = ResponseReader::Verdict;
  if (result.verdict == Verdict::Unknown && terms_.on_unknown == OnUnknown::Estimate) {
    const Bounds& most = open->second.bounds;
    record.estimate.input = most.input - std::min(most.input, result.usage.input);
    record.estimate.output = most.output - std::min(most.output, result.usage.output);
  }
  // Without a price of its own, what is counted or estimated costs as much as anything can.
  if (terms_.on_unknown == OnUnknown::Estimate && result.verdict != Verdict::Nothing) {
    const uint64_t known = record.cost ? 0 : result.usage.input;
    record.estimate_cost =
        terms_.prices.dearest(known + record.estimate.input,
                              (record.cost ? 0 : result.usage.output) + record.estimate.output);
  }
  bounded_.erase(id);
  Record told = record;
  told.model = account_.counted_model(record);
  if (account_.counted_once(once)) told.verdict = Verdict::Nothing;
  if (!this->record(record)) owed_.push_back(std::move(record));
  return told;
}

bool Ledger::set_budget(const Budget& budget) {
  Record record;
  record.kind = RecordKind::SetBudget;
  record.budget = budget;
  return this->record(record);
}

bool Ledger::set_run_budget(const Budget& budget) {
  Record record;
  record.kind = RecordKind::SetRunBudget;
  record.budget = budget;
  return this->record(record);
}

bool Ledger::set_provider_budget(Provider provider, const Budget& budget) {
  Record record;
  record.kind = RecordKind::SetProviderBudget;
  record.provider = provider;
  record.budget = budget;
  return this->record(record);
}

bool Ledger::reset() {
  Record record;
  record.kind = RecordKind::Reset;
  return this->record(record);
}

}
