// The API's calls about use of AI, and figures for machines. What a sandbox has used is in the
// journal of its data directory: reading it disturbs nobody, and while the sandbox runs its own
// process alone writes it.
#include "mvm/meter/compile.h"
#include "mvm/metering/journal_file.h"

#include "impl.h"
#include "metrics.h"

namespace mvm::daemon {

static constexpr milliseconds kAnswerLimit{2'000};
static constexpr milliseconds kCountersLimit{500};

static api::AiCounts counts_of(const meter::Counts& counts) {
  return {.requests = counts.requests,
          .unknown = counts.unknown,
          .refused = counts.refused,
          .input_tokens = counts.input,
          .output_tokens = counts.output,
          .total_tokens = counts.total,
          .cached_tokens = counts.cached,
          .cache_written_tokens = counts.cache_written,
          .reasoning_tokens = counts.reasoning,
          .audio_input_tokens = counts.audio_input,
          .audio_output_tokens = counts.audio_output,
          .estimated_tokens = counts.estimated,
          .cost_nanodollars = counts.cost,
          .unpriced = counts.unpriced};
}

static api::AiSpent spent_of(const meter::Spent& spent) {
  return {spent.total, spent.input, spent.output, spent.requests, spent.cost, spent.unknown};
}

static std::vector<api::AiOperation> operations_of(const meter::Counts& counts) {
  std::vector<api::AiOperation> out;
  for (size_t i = 0; i < counts.parts.size(); ++i)
    if (const auto& part = counts.parts.at(i); part != meter::Counts::Part{})
      out.push_back({std::string(meter::operation_word(static_cast<meter::Operation>(i))),
                     part.reported, part.input, part.output});
  return out;
}

// Those that are set, as they hold now.
static std::vector<api::AiBudgetOf> budgets_of(const proto::AiConfig& ai,
                                               const meter::Account& account) {
  meter::Terms terms = meter::compile(ai).terms;
  for (const auto& [provider, budget] : account.provider_budgets)
    terms.provider_budgets[provider] = budget;
  if (account.run_budget) terms.run_budget = *account.run_budget;
  std::vector<api::AiBudgetOf> out;
  for (const auto& [provider, budget] : terms.provider_budgets) {
    if (!budget.any()) continue;
    const auto spent = account.spent_by.find(provider);
    out.push_back({std::string(meter::provider_word(provider)), meter::words_of(budget),
                   spent == account.spent_by.end() ? api::AiSpent{} : spent_of(spent->second)});
  }
  if (terms.run_budget.any()) out.push_back({"run", meter::words_of(terms.run_budget), {}});
  return out;
}

static api::AiUsage usage_of(const Record& record, const meter::Account& account) {
  const proto::AiConfig& ai = record.spec.network.ai;
  api::AiUsage out;
  out.sandbox = record.name();
  out.id = record.id;
  out.on_unknown = ai.on_unknown;
  out.budget = account.budget ? meter::words_of(*account.budget) : ai.budget;
  out.spent = spent_of(account.spent);
  out.budgets = budgets_of(ai, account);
  out.counts = counts_of(account.sum());
  if (api::is_live(record.state)) {
    out.under_way = account.open.size();
  } else {
    // Its process went with them: nobody will say any more what they used.
    out.spent.unknown += account.open.size();
    out.counts.unknown += account.open.size();
  }
  for (const auto& [name, counts] : account.series)
    out.models.push_back({std::string(meter::provider_word(name.first)), name.second,
                          counts_of(counts), operations_of(counts)});
  return out;
}

std::vector<api::AiUsage> Daemon::Impl::ai_usage() {
  std::vector<api::AiUsage> out;
  for (const EntryPtr& entry : entries()) {
    const Record record = snapshot(entry);
    if (!record.spec.network.ai.on()) continue;
    const auto account = while_doing("reading what sandbox " + record.name() + " has used", [&] {
      return metering::read_account(options_.paths.sandbox_data(record.id));
    });
    out.push_back(usage_of(record, account.value_or(meter::Account{})));
  }
  std::sort(out.begin(), out.end(),
            [](const api::AiUsage& a, const api::AiUsage& b) { return a.sandbox < b.sandbox; });
  return out;
}

api::AiUsage Daemon::Impl::change_ai_budget(const std::string& name,
                                            const proto::AiBudgetRequest& request) {
  std::optional<meter::Budget> budget;
  if (request.budget) budget = meter::compile(*request.budget);
  if (const auto complaint = meter::budget_owner_complaint(request.of))
    throw Error(Kind::Invalid, "a budget's owner " + *complaint);
  const EntryPtr entry = find(name);
  const std::lock_guard operation(entry->operation);
  const Record record = usable(entry);
  if (!record.spec.network.ai.on())
    throw api::ApiError(Kind::Conflict,
                        "sandbox " + record.name() + " was made without metering of AI",
                        "make it with --ai-metering or --ai-token-budget");
  const std::string directory = options_.paths.sandbox_data(record.id);
  if (record.state == SandboxState::Starting || record.state == SandboxState::Running) {
    control(record).change_ai_budget(request, kAnswerLimit);
  } else if (api::is_live(record.state)) {
    throw Error(Kind::Conflict, "sandbox " + record.name() + " is " +
                                    std::string(api::state_name(record.state)) +
                                    "; try again in a moment");
  } else {
    const sys::Fd data = sys::open_file(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    metering::JournalFile journal(data.get());
    meter::Account account = journal.take_account();
    const auto put_down = [&](const meter::Record& change) {
      if (!journal.keep(change, account)) throw Error(Kind::Internal, journal.why());
      account.apply(change);
    };
    meter::Record change;
    if (budget) {
      const auto provider = meter::provider_from_word(request.of);
      change.kind = provider             ? meter::RecordKind::SetProviderBudget
                    : request.of.empty() ? meter::RecordKind::SetBudget
                                         : meter::RecordKind::SetRunBudget;
      change.provider = provider.value_or(change.provider);
      change.budget = *budget;
      put_down(change);
    }
    if (request.reset) {
      change = {};
      change.kind = meter::RecordKind::Reset;
      put_down(change);
    }
  }
  return usage_of(record, metering::read_account(directory).value_or(meter::Account{}));
}

static Figures figures_without_egress(std::string version, std::vector<api::Sandbox> sandboxes,
                                      std::vector<api::AiUsage> usage) {
  return {std::move(version), std::move(sandboxes), std::move(usage), {}};
}

std::string Daemon::Impl::metrics(bool otlp) {
  Figures figures = figures_without_egress(options_.version, sandboxes(true), ai_usage());
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  if (otlp) return otlp_json(figures, static_cast<uint64_t>(now.count()));
  for (const EntryPtr& entry : entries()) {
    const Record record = snapshot(entry);
    if (record.state != SandboxState::Running || !record.spec.network.enabled) continue;
    try {
      figures.egress.emplace_back(record.name(), control(record).counters(kCountersLimit));
    } catch (const Error& error) {
      // It has no network, is about to end, or is stuck: what it counts is not known.
      log_.debug("no counters of a sandbox", {{"name", record.name()}, {"why", error.message()}});
    }
  }
  return prometheus_text(figures);
}

}
