#include "metrics.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

#include "mvm/json/json.h"
#include "mvm/meter/budget.h"
#include "mvm/meter/provider.h"
#include "mvm/obs/metrics_text.h"

#include "clock.h"

namespace mvm::daemon {
namespace {

using obs::MetricType;
using Json = json::Ordered;

struct CountFamily {
  std::string_view name;
  uint64_t api::AiCounts::* member;
  std::string_view help;
};
constexpr std::array kCounts{
    CountFamily{"mvm_instance_ai_requests_total", &api::AiCounts::requests,
                "Requests to AI providers whose answers have ended."},
    CountFamily{"mvm_instance_ai_requests_unknown_total", &api::AiCounts::unknown,
                "Answers that did not say what was used."},
    CountFamily{"mvm_instance_ai_requests_refused_total", &api::AiCounts::refused,
                "Requests that the budget refused."},
    CountFamily{"mvm_instance_ai_tokens_input_total", &api::AiCounts::input_tokens,
                "Tokens of input, cached ones included."},
    CountFamily{"mvm_instance_ai_tokens_output_total", &api::AiCounts::output_tokens,
                "Tokens of output, reasoning included."},
    CountFamily{"mvm_instance_ai_tokens_total_total", &api::AiCounts::total_tokens,
                "Tokens of input and output."},
    CountFamily{"mvm_instance_ai_tokens_cached_total", &api::AiCounts::cached_tokens,
                "Of the input, tokens read from a cache."},
    CountFamily{"mvm_instance_ai_tokens_cache_written_total", &api::AiCounts::cache_written_tokens,
                "Of the input, tokens written to a cache."},
    CountFamily{"mvm_instance_ai_tokens_reasoning_total", &api::AiCounts::reasoning_tokens,
                "Of the output, tokens of reasoning."},
    CountFamily{"mvm_instance_ai_tokens_audio_input_total", &api::AiCounts::audio_input_tokens,
                "Of the input, tokens of audio."},
    CountFamily{"mvm_instance_ai_tokens_audio_output_total", &api::AiCounts::audio_output_tokens,
                "Of the output, tokens of audio."},
    CountFamily{"mvm_instance_ai_tokens_estimated_total", &api::AiCounts::estimated_tokens,
                "Tokens charged to the budget where nobody said what was used."},
    CountFamily{"mvm_instance_ai_unpriced_total", &api::AiCounts::unpriced,
                "Answers whose cost is not known."},
};

struct EgressFamily {
  std::string_view name;
  uint64_t proto::EgressCounters::* member;
  MetricType type;
  std::string_view help;
};
constexpr std::array kEgress{
    EgressFamily{"mvm_instance_egress_flows", &proto::EgressCounters::flows_now, MetricType::Gauge,
                 "Connections that are open."},
    EgressFamily{"mvm_instance_egress_flows_total", &proto::EgressCounters::flows,
                 MetricType::Counter, "Connections that were admitted."},
    EgressFamily{"mvm_instance_egress_flows_refused_total", &proto::EgressCounters::flows_refused,
                 MetricType::Counter, "Connections that were refused."},
    EgressFamily{"mvm_instance_egress_packets_refused_total",
                 &proto::EgressCounters::packets_refused, MetricType::Counter,
                 "Packets that the kernel refused."},
    EgressFamily{"mvm_instance_egress_queries_total", &proto::EgressCounters::queries,
                 MetricType::Counter, "DNS queries."},
    EgressFamily{"mvm_instance_egress_queries_refused_total",
                 &proto::EgressCounters::queries_refused, MetricType::Counter,
                 "DNS queries that were refused."},
    EgressFamily{"mvm_instance_egress_sent_bytes_total", &proto::EgressCounters::sent,
                 MetricType::Counter, "Bytes from the sandbox."},
    EgressFamily{"mvm_instance_egress_received_bytes_total", &proto::EgressCounters::received,
                 MetricType::Counter, "Bytes to the sandbox."},
};

struct Limit {
  std::string_view name;
  std::optional<uint64_t> limit;
  uint64_t used;
};

std::vector<Limit> limits_of(const proto::AiBudget& budget, const api::AiSpent& spent) {
  return {{"max_total_tokens", budget.max_total_tokens, spent.total_tokens},
          {"max_input_tokens", budget.max_input_tokens, spent.input_tokens},
          {"max_output_tokens", budget.max_output_tokens, spent.output_tokens},
          {"max_requests", budget.max_requests, spent.requests}};
}

// One of a sandbox's budgets, with the labels that tell it from the others of its families.
struct BudgetFigures {
  std::vector<obs::MetricsText::Label> labels;
  proto::AiBudget budget;
  std::optional<api::AiSpent> spent;  // nothing: not known
};

// Families by whose the budgets are. A sandbox has at most one for each provider that mvm knows,
// and one for its runs: how much each of them has used would be a label for every run.
struct BudgetFamilies {
  std::string prefix;
  std::string whose;
};

void write_budgets(obs::MetricsText& out, const BudgetFamilies& families,
                   const std::vector<BudgetFigures>& budgets) {
  const auto with = [](std::vector<obs::MetricsText::Label> labels, std::string_view budget) {
    labels.emplace_back("budget", budget);
    return labels;
  };
  out.family(families.prefix + "_limit", MetricType::Gauge,
             "What " + families.whose + " budget allows.");
  for (const BudgetFigures& each : budgets)
    for (const Limit& limit : limits_of(each.budget, {}))
      if (limit.limit) out.sample(with(each.labels, limit.name), *limit.limit);
  out.family(families.prefix + "_used", MetricType::Gauge,
             "What of " + families.whose + " budget is used, since its last reset.");
  for (const BudgetFigures& each : budgets)
    if (each.spent)
      for (const Limit& limit : limits_of(each.budget, *each.spent))
        if (limit.limit) out.sample(with(each.labels, limit.name), limit.used);
  out.family(families.prefix + "_cost_limit_dollars", MetricType::Gauge,
             "Dollars that " + families.whose + " budget allows.");
  for (const BudgetFigures& each : budgets)
    if (const auto most = meter::parse_nanodollars(each.budget.max_cost))
      out.sample_nano(each.labels, *most);
  out.family(families.prefix + "_cost_used_dollars", MetricType::Gauge,
             "Dollars of " + families.whose + " budget that are used, since its last reset.");
  for (const BudgetFigures& each : budgets)
    if (each.spent && !each.budget.max_cost.empty())
      out.sample_nano(each.labels, each.spent->cost_nanodollars);
}

// The most that one of its commands under way has used.
std::optional<api::AiSpent> spent_of_runs(const Figures& figures, std::string_view sandbox) {
  for (const auto& [name, counters] : figures.egress)
    if (name == sandbox)
      return api::AiSpent{.total_tokens = counters.run_total_tokens,
                          .input_tokens = counters.run_input_tokens,
                          .output_tokens = counters.run_output_tokens,
                          .requests = counters.run_requests,
                          .cost_nanodollars = counters.run_cost};
  return std::nullopt;
}

void write_sandboxes(obs::MetricsText& out, const Figures& figures) {
  out.family("mvm_build_info", MetricType::Gauge, "The daemon's version.");
  out.sample({{"version", figures.version}}, 1);
  out.family("mvm_sandboxes", MetricType::Gauge, "Sandboxes by state.");
  for (const auto state :
       {api::SandboxState::Queued, api::SandboxState::Starting, api::SandboxState::Running,
        api::SandboxState::Stopping, api::SandboxState::Stopped, api::SandboxState::Failed,
        api::SandboxState::Crashed}) {
    uint64_t count = 0;
    for (const api::Sandbox& sandbox : figures.sandboxes) count += sandbox.state == state ? 1 : 0;
    out.sample({{"state", api::state_name(state)}}, count);
  }
  out.family("mvm_instance_running", MetricType::Gauge, "1 while the sandbox runs.");
  for (const api::Sandbox& sandbox : figures.sandboxes)
    out.sample({{"instance", sandbox.name}}, sandbox.state == api::SandboxState::Running ? 1 : 0);
  out.family("mvm_instance_cpus", MetricType::Gauge, "Virtual CPUs.");
  for (const api::Sandbox& sandbox : figures.sandboxes)
    out.sample({{"instance", sandbox.name}}, sandbox.cpus);
  out.family("mvm_instance_memory_bytes", MetricType::Gauge, "Memory that it may use.");
  for (const api::Sandbox& sandbox : figures.sandboxes)
    out.sample({{"instance", sandbox.name}}, sandbox.memory);
}

void write_usage(obs::MetricsText& out, const Figures& figures) {
  for (const CountFamily& family : kCounts) {
    out.family(family.name, MetricType::Counter, family.help);
    for (const api::AiUsage& usage : figures.usage)
      for (const api::AiSeries& series : usage.models)
        out.sample(
            {{"instance", usage.sandbox}, {"provider", series.provider}, {"model", series.model}},
            series.counts.*family.member);
  }
  out.family("mvm_instance_ai_cost_dollars_total", MetricType::Counter,
             "Cost, by the price table or by what the provider says.");
  for (const api::AiUsage& usage : figures.usage)
    for (const api::AiSeries& series : usage.models)
      out.sample_nano(
          {{"instance", usage.sandbox}, {"provider", series.provider}, {"model", series.model}},
          series.counts.cost_nanodollars);
  out.family("mvm_instance_ai_requests_under_way", MetricType::Gauge,
             "Requests whose answers have not ended.");
  for (const api::AiUsage& usage : figures.usage)
    out.sample({{"instance", usage.sandbox}}, usage.under_way);
  std::vector<BudgetFigures> whole;
  std::vector<BudgetFigures> providers;
  std::vector<BudgetFigures> runs;
  for (const api::AiUsage& usage : figures.usage) {
    const obs::MetricsText::Label instance{"instance", usage.sandbox};
    whole.push_back({{instance}, usage.budget, usage.spent});
    for (const api::AiBudgetOf& each : usage.budgets) {
      if (each.of == "run")
        runs.push_back({{instance}, each.budget, spent_of_runs(figures, usage.sandbox)});
      else
        providers.push_back({{instance, {"provider", each.of}}, each.budget, each.spent});
    }
  }
  write_budgets(out, {"mvm_instance_ai_budget", "the sandbox's"}, whole);
  write_budgets(out, {"mvm_instance_ai_provider_budget", "a provider's"}, providers);
  write_budgets(
      out,
      {"mvm_instance_ai_run_budget", "a command's (of those under way the one's that used most)"},
      runs);
}

// ---- OTLP (opentelemetry-proto, JSON mapping: 64-bit integers are strings)

Json attribute(std::string_view key, std::string_view value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}

Json attributes_of(const api::AiUsage& usage, const api::AiSeries& series) {
  const auto provider = meter::provider_from_word(series.provider);
  Json list = Json::array();
  list.push_back(
      attribute("gen_ai.provider.name", provider ? meter::telemetry_name(*provider) : "other"));
  list.push_back(attribute("gen_ai.response.model", series.model));
  list.push_back(attribute("mvm.instance", usage.sandbox));
  return list;
}

constexpr double kNano = 1e9;

class OtlpWriter {
 public:
  explicit OtlpWriter(const Figures& figures, uint64_t now) : now_(std::to_string(now)) {
    for (const api::Sandbox& sandbox : figures.sandboxes)
      if (const auto made = from_rfc3339(sandbox.created_at))
        begins_[sandbox.name] = std::to_string(
            std::chrono::duration_cast<std::chrono::nanoseconds>(made->time_since_epoch()).count());
  }

  // Of counts of which only the sum is kept: one bucket.
  Json histogram(const api::AiUsage& usage, Json attributes, uint64_t count, uint64_t sum) const {
    Json out = point(usage, std::move(attributes));
    out["count"] = std::to_string(count);
    out["sum"] = sum;
    out["bucketCounts"] = Json::array({std::to_string(count)});
    out["explicitBounds"] = Json::array();
    return out;
  }
  // What all counts of a sandbox have: since when they grow, which is since it was made.
  Json point(const api::AiUsage& usage, Json attributes) const {
    Json out = {{"attributes", std::move(attributes)}};
    const auto begin = begins_.find(usage.sandbox);
    if (begin != begins_.end()) out["startTimeUnixNano"] = begin->second;
    out["timeUnixNano"] = now_;
    return out;
  }
  static Json sum_metric(std::string_view name, std::string_view unit, Json points) {
    return {{"name", name},
            {"unit", unit},
            {"sum",
             {{"dataPoints", std::move(points)},
              {"aggregationTemporality", 2},
              {"isMonotonic", true}}}};
  }

 private:
  std::string now_;
  std::map<std::string, std::string> begins_;
};

}

std::string prometheus_text(const Figures& figures) {
  obs::MetricsText out;
  write_sandboxes(out, figures);
  for (const EgressFamily& family : kEgress) {
    out.family(family.name, family.type, family.help);
    for (const auto& [name, counters] : figures.egress)
      out.sample({{"instance", name}}, counters.*family.member);
  }
  write_usage(out, figures);
  return out.take();
}

std::string otlp_json(const Figures& figures, uint64_t now_unix_nanoseconds) {
  const OtlpWriter out(figures, now_unix_nanoseconds);
  Json usage_points = Json::array();
  for (const api::AiUsage& usage : figures.usage) {
    for (const api::AiSeries& series : usage.models) {
      for (const api::AiOperation& part : series.operations) {
        if (part.reported == 0) continue;  // an older journal has the least of what is unknown here
        for (const auto& [type, tokens] :
             {std::pair{"input", part.input_tokens}, std::pair{"output", part.output_tokens}}) {
          Json attributes = attributes_of(usage, series);
          attributes.push_back(attribute("gen_ai.operation.name", part.operation));
          attributes.push_back(attribute("gen_ai.token.type", type));
          usage_points.push_back(
              out.histogram(usage, std::move(attributes), part.reported, tokens));
        }
      }
    }
  }
  Json metrics = Json::array();
  metrics.push_back(
      {{"name", "gen_ai.client.token.usage"},
       {"unit", "{token}"},
       {"histogram", {{"dataPoints", std::move(usage_points)}, {"aggregationTemporality", 2}}}});
  struct Sum {
    std::string_view name;
    std::string_view unit;
    uint64_t api::AiCounts::* member;
  };
  for (const Sum& sum :
       {Sum{"mvm.gen_ai.requests", "{request}", &api::AiCounts::requests},
        Sum{"mvm.gen_ai.requests.unknown", "{request}", &api::AiCounts::unknown},
        Sum{"mvm.gen_ai.requests.refused", "{request}", &api::AiCounts::refused},
        Sum{"mvm.gen_ai.tokens.cached", "{token}", &api::AiCounts::cached_tokens},
        Sum{"mvm.gen_ai.tokens.reasoning", "{token}", &api::AiCounts::reasoning_tokens},
        Sum{"mvm.gen_ai.cost", "{USD}", &api::AiCounts::cost_nanodollars}}) {
    Json points = Json::array();
    for (const api::AiUsage& usage : figures.usage) {
      for (const api::AiSeries& series : usage.models) {
        Json point = out.point(usage, attributes_of(usage, series));
        const uint64_t value = series.counts.*sum.member;
        if (sum.member == &api::AiCounts::cost_nanodollars)
          point["asDouble"] = static_cast<double>(value) / kNano;
        else
          point["asInt"] = std::to_string(value);
        points.push_back(std::move(point));
      }
    }
    metrics.push_back(OtlpWriter::sum_metric(sum.name, sum.unit, std::move(points)));
  }
  Json resource = {{"attributes", Json::array({attribute("service.name", "mvm"),
                                               attribute("service.version", figures.version)})}};
  Json scope = {{"scope", {{"name", "mvm"}, {"version", figures.version}}},
                {"metrics", std::move(metrics)}};
  const Json document = {
      {"resourceMetrics",
       Json::array({{{"resource", std::move(resource)}, {"scopeMetrics", Json::array({scope})}}})}};
  return json::dump(document) + "\n";
}

}
