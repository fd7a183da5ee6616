#include "mvm/meter/account.h"

#include <algorithm>

namespace mvm::meter {
namespace {

// Saturating: what overflows 64 bits of tokens was nobody's usage.
void add(uint64_t& sum, uint64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) sum = ~uint64_t{0};
}

void add_usage(Counts& counts, const Usage& usage) {
  add(counts.input, usage.input);
  add(counts.output, usage.output);
  add(counts.total, usage.total);
  add(counts.cached, usage.cached);
  add(counts.cache_written, usage.cache_written);
  add(counts.reasoning, usage.reasoning);
  add(counts.audio_input, usage.audio_input);
  add(counts.audio_output, usage.audio_output);
}

// What an End has used against a budget.
void charge(Spent& spent, const Record& record) {
  if (!record.cost) add(spent.unpriced, 1);
  if (record.verdict == ResponseReader::Verdict::Unknown) add(spent.unknown, 1);
  add(spent.input, record.usage.input);
  add(spent.output, record.usage.output);
  add(spent.total, record.usage.total);
  add(spent.cost, record.cost.value_or(0));
  add(spent.input, record.estimate.input);
  add(spent.output, record.estimate.output);
  add(spent.total, record.estimate.input);
  add(spent.total, record.estimate.output);
  add(spent.cost, record.estimate_cost);
}

void take_back_request(Spent& spent) {
  if (spent.requests != 0) --spent.requests;
}

constexpr const char* kOther = "other";

}

std::string Account::counted_model(const Record& record) const {
  if (series.contains({record.provider, record.model})) return record.model;
  // What no answer was given to names no model of its own: the guest could make them up.
  if (record.verdict != ResponseReader::Verdict::Reported) return kOther;
  // Room for every provider's "other" is kept beside.
  const auto named =
      std::ranges::count_if(series, [](const auto& entry) { return entry.first.second != kOther; });
  return static_cast<size_t>(named) >= kMaxSeries ? kOther : record.model;
}

bool Account::counted_once(uint64_t key) const {
  return key != 0 && std::ranges::find(once, key) != once.end();
}

void Account::apply(const Record& record) {
  switch (record.kind) {
    case RecordKind::Begin:
      next = std::max(next, record.id + 1);
      open[record.id] = {record.provider, record.bounds};
      add(spent.requests, 1);
      add(spent_by[record.provider].requests, 1);
      return;
    case RecordKind::Bound:
      if (const auto found = open.find(record.id); found != open.end())
        found->second.bounds = record.bounds;
      return;
    case RecordKind::End: {
      if (open.erase(record.id) == 0) return;  // it has ended before
      Counts& counts = series[{record.provider, counted_model(record)}];
      add(counts.requests, 1);
      if (counted_once(record.once)) return;
      if (record.once != 0 && record.verdict == ResponseReader::Verdict::Reported) {
        if (once.size() == kMaxOnce) once.erase(once.begin());
        once.push_back(record.once);
      }
      if (record.verdict == ResponseReader::Verdict::Nothing) return;
      add_usage(counts, record.usage);
      add(counts.estimated, record.estimate.input);
      add(counts.estimated, record.estimate.output);
      add(counts.cost, record.cost.value_or(0));
      if (!record.cost) add(counts.unpriced, 1);
      if (record.verdict == ResponseReader::Verdict::Unknown) add(counts.unknown, 1);
      if (record.verdict == ResponseReader::Verdict::Reported) {
        Counts::Part& part = counts.parts.at(static_cast<size_t>(record.operation));
        add(part.reported, 1);
        add(part.input, record.usage.input);
        add(part.output, record.usage.output);
      }
      charge(spent, record);
      charge(spent_by[record.provider], record);
      return;
    }
    case RecordKind::Refused:
      // One that had begun, and is none after all.
      if (open.erase(record.id) != 0) {
        take_back_request(spent);
        take_back_request(spent_by[record.provider]);
      }
      add(series[{record.provider, kOther}].refused, 1);
      return;
    case RecordKind::Reset:
      spent = {};
      spent_by.clear();
      return;
    case RecordKind::SetBudget:
      budget = record.budget;
      return;
    case RecordKind::SetProviderBudget:
      provider_budgets[record.provider] = record.budget;
      return;
    case RecordKind::SetRunBudget:
      run_budget = record.budget;
      return;
  }
}

Counts Account::sum() const {
  Counts all;
  for (const auto& [name, counts] : series) {
    add(all.requests, counts.requests);
    add(all.unknown, counts.unknown);
    add(all.refused, counts.refused);
    add(all.input, counts.input);
    add(all.output, counts.output);
    add(all.total, counts.total);
    add(all.cached, counts.cached);
    add(all.cache_written, counts.cache_written);
    add(all.reasoning, counts.reasoning);
    add(all.audio_input, counts.audio_input);
    add(all.audio_output, counts.audio_output);
    add(all.estimated, counts.estimated);
    add(all.cost, counts.cost);
    add(all.unpriced, counts.unpriced);
  }
  return all;
}

}
