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

static api::AiUsage usage_of(const Record& record, const meter::Account& account) {
  const proto::AiConfig& ai = record.spec.network.ai;
  api::AiUsage out;
  out.sandbox = record.name();
  out.id = record.id;
  out.on_unknown = ai.on_unknown;
  out.budget = account.budget ? meter::words_of(*account.budget) : ai.budget;
  out.spent = {account.spent.total,    account.spent.input, account.spent.output,
               account.spent.requests, account.spent.cost,  account.spent.unknown};
  out.counts = counts_of(account.sum());
  if (api::is_live(record.state)) {
    out.under_way = account.open.size();
  } else {
    // Its process went with them: nobody will say any more what they used.
    out.spent.unknown += account.open.size();
    out.counts.unknown += account.open.size();
  }
  for (const auto& [name, counts] : account.series)
    out.models.push_back(
        {std::string(meter::provider_word(name.first)), name.second, counts_of(counts)});
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
      change.kind = meter::RecordKind::SetBudget;
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
