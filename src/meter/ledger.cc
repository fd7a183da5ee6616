#include "mvm/meter/ledger.h"

#include <algorithm>

#include "mvm/base/error.h"

namespace mvm::meter {
namespace {

std::string shown(std::string_view budget, uint64_t amount) {
  return budget == "max_cost" ? "$" + format_dollars(amount) : std::to_string(amount);
}

Denial used_up_denial(const char* budget, uint64_t limit, uint64_t used) {
  return {budget, limit, used, false,
          "the sandbox's AI budget is used up: " + std::string(budget) + " is " +
              shown(budget, limit) + ", and " + shown(budget, used) + " is used"};
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
    account_.apply(owed_.front());
    owed_.erase(owed_.begin());
  }
  return true;
}

bool Ledger::record(const Record& record) {
  if (!write_owed() || !keep_(record, account_)) return false;
  account_.apply(record);
  return true;
}

std::optional<Denial> Ledger::used_up() const {
  const Budget& budget = this->budget();
  const Spent& spent = account_.spent;
  const auto over = [](const std::optional<uint64_t>& limit, uint64_t used) {
    return limit && used >= *limit;
  };
  if (over(budget.requests, spent.requests))
    return used_up_denial("max_requests", *budget.requests, spent.requests);
  if (over(budget.total_tokens, spent.total))
    return used_up_denial("max_total_tokens", *budget.total_tokens, spent.total);
  if (over(budget.input_tokens, spent.input))
    return used_up_denial("max_input_tokens", *budget.input_tokens, spent.input);
  if (over(budget.output_tokens, spent.output))
    return used_up_denial("max_output_tokens", *budget.output_tokens, spent.output);
  if (over(budget.cost, spent.cost)) return used_up_denial("max_cost", *budget.cost, spent.cost);
  if (terms_.on_unknown == OnUnknown::Refuse && spent.unknown != 0)
    return Denial{"on_unknown", 0, spent.unknown, false,
                  std::to_string(spent.unknown) + (spent.unknown == 1 ? " answer" : " answers") +
                      " did not say what was used, and on_unknown = \"refuse\""};
  if (terms_.on_unknown == OnUnknown::Refuse && budget.cost && spent.unpriced != 0)
    return Denial{"on_unknown", 0, spent.unpriced, false,
                  "a model without a price was used, and on_unknown = \"refuse\""};
  return std::nullopt;
}

// Beside what the others under way may use.
std::optional<Denial> Ledger::without_room(uint64_t id, const Bounds& bounds) const {
  Bounds others;
  bool alone = true;
  for (const auto& [other, most] : bounded_) {
    if (other == id) continue;
    alone = false;
    others.input += most.input;
    others.output += most.output;
  }
  // Alone it may cross the limit, as any answer may.
  if (alone) return std::nullopt;
  const Budget& budget = this->budget();
  const Spent& spent = account_.spent;
  const auto check = [](const char* name, const std::optional<uint64_t>& limit, uint64_t used,
                        uint64_t wanted) -> std::optional<Denial> {
    if (!limit || used + wanted <= *limit) return std::nullopt;
    return Denial{name, *limit, used, true,
                  "what is left of the sandbox's AI budget (" + std::string(name) + ", " +
                      shown(name, used) + " of " + shown(name, *limit) +
                      " used) is reserved for requests under way; try again when they have ended"};
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
  if (auto denial = used_up()) return refuse(provider, std::move(*denial));
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
  if (terms_.reserve)
    if (auto denial = without_room(id, bounds)) {
      Record record;
      record.kind = RecordKind::Refused;
      record.id = id;
      record.provider = provider;
      if (!this->record(record)) owed_.push_back(std::move(record));
      return denial;
    }
  bounded_[id] = bounds;
  Record record;
  record.kind = RecordKind::Bound;
  record.id = id;
  record.provider = provider;
  record.bounds = bounds;
  // Should it be lost, a crash would have the request estimated by its first bound.
  static_cast<void>(this->record(record));
  return std::nullopt;
}

Record Ledger::settle(uint64_t id, const ResponseReader::Result& result, uint64_t once) {
  const auto open = account_.open.find(id);
  MVM_ASSERT(open != account_.open.end());
  Record record;
  record.kind = RecordKind::End;
  record.id = id;
  record.provider = open->second.provider;
  record.verdict = result.verdict;
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

bool Ledger::reset() {
  Record record;
  record.kind = RecordKind::Reset;
  return this->record(record);
}

}
