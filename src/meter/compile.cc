#include "mvm/meter/compile.h"

#include <utility>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::meter {

static constexpr std::string_view kRun = "run";

static void check(const std::string& what, const std::optional<std::string>& complaint) {
  if (complaint) throw Error(Kind::Invalid, what + " " + *complaint);
}

std::optional<Price> parse_price_line(std::string_view text) {
  Price price;
  bool has_input = false;
  bool has_output = false;
  bool first = true;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    if (std::exchange(first, false)) {
      const std::string_view name = word.substr(0, word.find('*'));
      // One star, at the end.
      if (name.size() + 1 < word.size() || (name.empty() ? word != "*" : clean_model(name) != name))
        return std::nullopt;
      price.model = std::string(word);
      continue;
    }
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = word.substr(0, equals);
    const auto value = parse_price(word.substr(equals + 1));
    if (!value) return std::nullopt;
    if (name == "input") {
      price.input = *value;
      has_input = true;
    } else if (name == "output") {
      price.output = *value;
      has_output = true;
    } else if (name == "cached") {
      price.cached = *value;
    } else if (name == "cache_written") {
      price.cache_written = *value;
    } else {
      return std::nullopt;
    }
  }
  if (first || !has_input || !has_output) return std::nullopt;
  return price;
}

std::optional<BudgetLine> parse_budget_line(std::string_view text) {
  BudgetLine line;
  bool first = true;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    if (std::exchange(first, false)) {
      line.provider = provider_from_word(word);
      if (!line.provider && word != kRun) return std::nullopt;
      continue;
    }
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = word.substr(0, equals);
    const std::string_view value = word.substr(equals + 1);
    if (name == "max_cost") {
      line.budget.cost = value.size() <= 20 ? parse_nanodollars(value) : std::nullopt;
      if (!line.budget.cost) return std::nullopt;
      continue;
    }
    const auto number = parse_u64(value);
    if (!number || *number == 0 || *number > kMaxCount) return std::nullopt;
    if (name == "max_total_tokens") {
      line.budget.total_tokens = number;
    } else if (name == "max_input_tokens") {
      line.budget.input_tokens = number;
    } else if (name == "max_output_tokens") {
      line.budget.output_tokens = number;
    } else if (name == "max_requests") {
      line.budget.requests = number;
    } else {
      return std::nullopt;
    }
  }
  if (!line.budget.any()) return std::nullopt;
  return line;
}

std::optional<std::string> budget_complaint(std::string_view text) {
  if (text.size() <= proto::kMaxAiText && parse_budget_line(text)) return std::nullopt;
  return "must be a provider or \"run\", and limits, such as \"openai max_total_tokens=100000 "
         "max_cost=5.00\", not '" +
         printable(text, 80) + "'";
}

std::optional<std::string> budget_owner_complaint(std::string_view word) {
  if (word.empty() || word == kRun || provider_from_word(word)) return std::nullopt;
  return "must be a provider, such as openai, or run, not '" + printable(word, 40) + "'";
}

std::optional<std::string> on_unknown_complaint(std::string_view word) {
  if (on_unknown_from_word(word)) return std::nullopt;
  return R"(must be "count", "estimate" or "refuse", not ')" + printable(word, 40) + "'";
}

std::optional<std::string> price_complaint(std::string_view text) {
  if (text.size() <= proto::kMaxAiText && parse_price_line(text)) return std::nullopt;
  return "must be a model and its dollars a million tokens, such as \"gpt-4o* input=2.50 "
         "output=10 cached=1.25\", not '" +
         printable(text, 80) + "'";
}

std::optional<std::string> cost_complaint(std::string_view text) {
  if (text.empty() || (text.size() <= 20 && parse_nanodollars(text))) return std::nullopt;
  return "must be dollars, such as \"2.50\", not '" + printable(text, 40) + "'";
}

Budget compile(const proto::AiBudget& budget) {
  check("max_cost", cost_complaint(budget.max_cost));
  Budget out;
  out.total_tokens = budget.max_total_tokens;
  out.input_tokens = budget.max_input_tokens;
  out.output_tokens = budget.max_output_tokens;
  out.requests = budget.max_requests;
  if (!budget.max_cost.empty()) out.cost = parse_nanodollars(budget.max_cost);
  return out;
}

proto::AiBudget words_of(const Budget& budget) {
  return {budget.total_tokens, budget.input_tokens, budget.output_tokens, budget.requests,
          budget.cost ? format_dollars(*budget.cost) : ""};
}

Plan compile(const proto::AiConfig& config) {
  for (const std::string& word : config.providers)
    check("network.ai.providers: '" + printable(word, 80) + "'", provider_complaint(word));
  check("network.ai.on_unknown", on_unknown_complaint(config.on_unknown));
  std::vector<Price> prices;
  for (const std::string& line : config.prices) {
    check("network.ai.prices", price_complaint(line));
    prices.push_back(*parse_price_line(line));
  }
  if (prices.size() > PriceTable::kMaxPrices || config.providers.size() > Catalogue::kMaxWords)
    throw Error(Kind::Invalid, "network.ai: at most " + std::to_string(PriceTable::kMaxPrices) +
                                   " prices and " + std::to_string(Catalogue::kMaxWords) +
                                   " providers");
  if (config.budgets.size() > kProviders + 1)
    throw Error(Kind::Invalid,
                "network.ai.budgets: at most one for each provider and one for runs");
  Plan plan{Catalogue(config.providers), {}, config.inject_stream_usage};
  plan.terms.budget = compile(config.budget);
  for (const std::string& text : config.budgets) {
    check("network.ai.budgets", budget_complaint(text));
    const auto line = parse_budget_line(text);
    Budget& into =
        line->provider ? plan.terms.provider_budgets[*line->provider] : plan.terms.run_budget;
    if (into.any())
      throw Error(Kind::Invalid,
                  "network.ai.budgets: two budgets for " +
                      std::string(line->provider ? provider_word(*line->provider) : kRun) +
                      "; one of them would not hold");
    into = line->budget;
  }
  plan.terms.on_unknown = *on_unknown_from_word(config.on_unknown);
  plan.terms.reserve = config.reserve;
  plan.terms.prices = PriceTable(std::move(prices));
  return plan;
}

}
