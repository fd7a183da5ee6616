// `mvm ai usage`, `mvm ai budget`, `mvm metrics`.

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/meter/budget.h"
#include "mvm/meter/compile.h"

namespace mvm::cli {
namespace {

[[noreturn]] void wrong(const Arguments& arguments, const std::string& message) {
  throw UsageError(&arguments.command(), message);
}

std::string dollars(uint64_t nanodollars) { return "$" + meter::format_dollars(nanodollars); }

// "1200 of 250000", or "1200".
std::string of_limit(uint64_t used, const std::optional<uint64_t>& limit) {
  return std::to_string(used) + (limit ? " of " + std::to_string(*limit) : "");
}

// "  openai: 1200 of 250000 tokens", "  run: at most 50 requests"
std::string shown(const api::AiBudgetOf& one) {
  const proto::AiBudget& budget = one.budget;
  const api::AiSpent& spent = one.spent;
  const bool run = one.of == "run";
  std::string text;
  const auto add = [&](const std::optional<uint64_t>& limit, uint64_t used, std::string_view what) {
    if (!limit) return;
    text += text.empty() ? "" : ", ";
    text += run ? "at most " + std::to_string(*limit) : of_limit(used, limit);
    text += " " + std::string(what);
  };
  add(budget.max_total_tokens, spent.total_tokens, "tokens");
  add(budget.max_input_tokens, spent.input_tokens, "input");
  add(budget.max_output_tokens, spent.output_tokens, "output");
  add(budget.max_requests, spent.requests, "requests");
  if (!budget.max_cost.empty())
    text += (text.empty() ? "" : ", ") +
            (run ? "at most " : dollars(spent.cost_nanodollars) + " of ") + "$" +
            printable(budget.max_cost, 40);
  return "  " + printable(one.of, 40) + ": " + text + "\n";
}

std::string shown(const api::AiUsage& usage) {
  const api::AiSpent& spent = usage.spent;
  std::string text = printable(usage.sandbox, 80) + ": " +
                     of_limit(spent.total_tokens, usage.budget.max_total_tokens) + " tokens (" +
                     of_limit(spent.input_tokens, usage.budget.max_input_tokens) + " input, " +
                     of_limit(spent.output_tokens, usage.budget.max_output_tokens) + " output), " +
                     of_limit(spent.requests, usage.budget.max_requests) + " requests";
  if (spent.cost_nanodollars != 0 || !usage.budget.max_cost.empty())
    text += ", " + dollars(spent.cost_nanodollars) +
            (usage.budget.max_cost.empty() ? "" : " of $" + printable(usage.budget.max_cost, 40));
  if (spent.unknown != 0) text += ", " + std::to_string(spent.unknown) + " unknown";
  if (usage.counts.refused != 0) text += ", " + std::to_string(usage.counts.refused) + " refused";
  if (usage.under_way != 0) text += ", " + std::to_string(usage.under_way) + " under way";
  text += "\n";
  for (const api::AiBudgetOf& one : usage.budgets) text += shown(one);
  return text;
}

std::vector<std::vector<std::string>> rows_of(const api::AiUsage& usage) {
  std::vector<std::vector<std::string>> rows = {{"  PROVIDER", "MODEL", "REQUESTS", "INPUT",
                                                 "CACHED", "OUTPUT", "REASONING", "TOTAL",
                                                 "UNKNOWN", "COST"}};
  for (const api::AiSeries& series : usage.models) {
    const api::AiCounts& counts = series.counts;
    const auto number = [](uint64_t value) { return std::to_string(value); };
    rows.push_back({"  " + printable(series.provider, 40), printable(series.model, 80),
                    number(counts.requests), number(counts.input_tokens),
                    number(counts.cached_tokens), number(counts.output_tokens),
                    number(counts.reasoning_tokens), number(counts.total_tokens),
                    number(counts.unknown),
                    counts.cost_nanodollars == 0 ? "-" : dollars(counts.cost_nanodollars)});
  }
  return rows;
}

std::optional<uint64_t> limit(const Arguments& arguments, std::string_view flag) {
  const auto text = arguments.value(flag);
  if (!text) return std::nullopt;
  const auto value = parse_u64(*text);
  if (!value)
    wrong(arguments,
          "--" + std::string(flag) + " must be a whole number, not '" + printable(*text, 40) + "'");
  return value;
}

// What the flags say, over what holds.
proto::AiBudget changed(const Arguments& arguments, proto::AiBudget budget) {
  bool any = false;
  const auto take = [&](std::string_view flag, std::optional<uint64_t>& into) {
    const auto value = limit(arguments, flag);
    if (!value) return;
    any = true;
    into = *value == 0 ? std::nullopt : value;
  };
  take("max-total-tokens", budget.max_total_tokens);
  take("max-input-tokens", budget.max_input_tokens);
  take("max-output-tokens", budget.max_output_tokens);
  take("max-requests", budget.max_requests);
  if (const auto cost = arguments.value("max-cost")) {
    if (const auto complaint = meter::cost_complaint(*cost))
      wrong(arguments, "--max-cost " + *complaint);
    any = true;
    budget.max_cost = *cost == "0" ? "" : *cost;
  }
  if (!any) wrong(arguments, "say which limit to set, such as --max-total-tokens 250000");
  return budget;
}

api::AiUsage usage_of(Context& context, const std::string& name) {
  for (api::AiUsage& usage : context.service().ai_usage())
    if (usage.sandbox == name || usage.id == name) return usage;
  throw api::ApiError(
      Kind::NotFound,
      "there is no sandbox '" + printable(name, 80) + "' whose use of AI is metered",
      "mvm ai usage lists those there are");
}

}

int ai_usage(Context& context, const Arguments& arguments) {
  std::vector<api::AiUsage> all;
  if (const auto name = arguments.positional("NAME"))
    all.push_back(usage_of(context, *name));
  else
    all = context.service().ai_usage();
  if (arguments.flag("json")) {
    context.console.out(api::encode(all) + '\n');
    return kFine;
  }
  if (all.empty())
    context.console.out("no sandbox's use of AI is metered (mvm up --ai-metering)\n");
  for (const api::AiUsage& usage : all) {
    context.console.out(shown(usage));
    if (!usage.models.empty()) context.console.out(table(rows_of(usage)));
  }
  return kFine;
}

int ai_budget(Context& context, const Arguments& arguments) {
  const std::string action = *arguments.positional("ACTION");
  const std::string name = checked_name(arguments, *arguments.positional("NAME"));
  proto::AiBudgetRequest request;
  if (action == "set") {
    request.of = arguments.value("of").value_or("");
    if (const auto complaint = meter::budget_owner_complaint(request.of))
      wrong(arguments, "--of " + *complaint);
    const api::AiUsage usage = usage_of(context, name);
    proto::AiBudget holds = request.of.empty() ? usage.budget : proto::AiBudget{};
    for (const api::AiBudgetOf& one : usage.budgets)
      if (one.of == request.of) holds = one.budget;
    request.budget = changed(arguments, std::move(holds));
  } else if (action == "reset") {
    for (const std::string_view flag : {"of", "max-total-tokens", "max-input-tokens",
                                        "max-output-tokens", "max-requests", "max-cost"})
      if (arguments.flag(flag))
        wrong(arguments, "--" + std::string(flag) + " is for `mvm ai budget set`");
    request.reset = true;
  } else {
    wrong(arguments, "ACTION must be set or reset, not '" + printable(action, 40) + "'");
  }
  const api::AiUsage usage = context.service().change_ai_budget(name, request);
  context.console.out(arguments.flag("json") ? api::encode(usage) + '\n' : shown(usage));
  return kFine;
}

int metrics(Context& context, const Arguments& arguments) {
  context.console.out(context.service().metrics(arguments.flag("otlp")));
  return kFine;
}

}
