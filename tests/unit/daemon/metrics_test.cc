// Figures for machines: every family once, its samples behind it, and OpenTelemetry's names.

#include "../../../src/daemon/metrics.h"

#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/text.h"
#include "mvm/json/json.h"

namespace mvm::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Figures figures() {
  Figures out;
  out.version = "1.2.3";
  api::Sandbox web;
  web.name = "web";
  web.state = api::SandboxState::Running;
  web.cpus = 2;
  web.memory = 1024;
  web.created_at = "2026-01-31T12:00:00.5Z";
  out.sandboxes.push_back(web);
  api::AiUsage usage;
  usage.sandbox = "web";
  usage.budget.max_total_tokens = 100;
  usage.budget.max_cost = "2.50";
  usage.spent.total_tokens = 40;
  usage.spent.cost_nanodollars = 1'500'000'000;
  usage.under_way = 3;
  usage.models.push_back({"openai",
                          "gpt-4o",
                          {.requests = 5,
                           .unknown = 1,
                           .input_tokens = 30,
                           .output_tokens = 10,
                           .total_tokens = 40,
                           .cached_tokens = 7,
                           .cost_nanodollars = 1'500'000'000},
                          {{"chat", 3, 25, 10}, {"embeddings", 1, 5, 0}, {"other", 0, 4, 0}}});
  proto::AiBudget of_openai;
  of_openai.max_requests = 50;
  of_openai.max_cost = "1";
  usage.budgets.push_back({"openai", of_openai, {.requests = 5, .cost_nanodollars = 250'000'000}});
  proto::AiBudget of_runs;
  of_runs.max_total_tokens = 20;
  usage.budgets.push_back({"run", of_runs, {}});
  out.usage.push_back(usage);
  // One that does not run: what its runs use is not known.
  usage.sandbox = "still";
  usage.models.clear();
  out.usage.push_back(usage);
  out.egress.emplace_back("web",
                          proto::EgressCounters{.flows = 9, .sent = 11, .run_total_tokens = 12});
  return out;
}

TEST(Metrics, PrometheusTextHasWhatIsCounted) {
  const std::string text = prometheus_text(figures());
  for (const char* line :
       {"mvm_build_info{version=\"1.2.3\"} 1\n", "mvm_sandboxes{state=\"running\"} 1\n",
        "mvm_instance_running{instance=\"web\"} 1\n",
        "mvm_instance_egress_flows_total{instance=\"web\"} 9\n",
        "mvm_instance_ai_requests_total{instance=\"web\",provider=\"openai\",model=\"gpt-4o\"} 5\n",
        "mvm_instance_ai_requests_unknown_total{instance=\"web\",provider=\"openai\",model=\"gpt-"
        "4o\"} 1\n",
        "mvm_instance_ai_tokens_input_total{instance=\"web\",provider=\"openai\",model=\"gpt-4o\"} "
        "30\n",
        "mvm_instance_ai_tokens_total_total{instance=\"web\",provider=\"openai\",model=\"gpt-4o\"} "
        "40\n",
        "mvm_instance_ai_tokens_cached_total{instance=\"web\",provider=\"openai\",model=\"gpt-4o\"}"
        " 7\n",
        "mvm_instance_ai_cost_dollars_total{instance=\"web\",provider=\"openai\",model=\"gpt-4o\"} "
        "1.500000000\n",
        "mvm_instance_ai_budget_limit{instance=\"web\",budget=\"max_total_tokens\"} 100\n",
        "mvm_instance_ai_budget_used{instance=\"web\",budget=\"max_total_tokens\"} 40\n",
        "mvm_instance_ai_budget_cost_limit_dollars{instance=\"web\"} 2.500000000\n",
        "mvm_instance_ai_requests_under_way{instance=\"web\"} 3\n"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, Not(HasSubstr("ai_budget_limit{instance=\"web\",budget=\"max_requests\"}")));
}

// Each of a model's counts has its own family, here and in OpenTelemetry's JSON.
TEST(Metrics, NoCountIsTakenForAnother) {
  Figures all;
  api::AiUsage usage;
  usage.sandbox = "web";
  usage.models.push_back({"openai",
                          "o3",
                          {.requests = 101,
                           .unknown = 102,
                           .refused = 103,
                           .input_tokens = 104,
                           .output_tokens = 105,
                           .total_tokens = 106,
                           .cached_tokens = 107,
                           .cache_written_tokens = 108,
                           .reasoning_tokens = 109,
                           .audio_input_tokens = 110,
                           .audio_output_tokens = 111,
                           .estimated_tokens = 112,
                           .cost_nanodollars = 113,
                           .unpriced = 114},
                          {}});
  all.usage.push_back(usage);
  const std::string text = prometheus_text(all);
  for (const auto& [family, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"requests_total", "101"},
           {"requests_unknown_total", "102"},
           {"requests_refused_total", "103"},
           {"tokens_input_total", "104"},
           {"tokens_output_total", "105"},
           {"tokens_total_total", "106"},
           {"tokens_cached_total", "107"},
           {"tokens_cache_written_total", "108"},
           {"tokens_reasoning_total", "109"},
           {"tokens_audio_input_total", "110"},
           {"tokens_audio_output_total", "111"},
           {"tokens_estimated_total", "112"},
           {"cost_dollars_total", "0.000000113"},
           {"unpriced_total", "114"}})
    EXPECT_THAT(text,
                HasSubstr("\nmvm_instance_ai_" + std::string(family) +
                          R"({instance="web",provider="openai",model="o3"} )" + value + "\n"));
  const auto json = json::Value::parse(otlp_json(all, 42));
  std::map<std::string, std::string> sums;
  for (const auto& metric : json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]) {
    if (!metric.contains("sum")) continue;
    const auto& point = metric["sum"]["dataPoints"][0];
    sums[metric["name"]] =
        point.contains("asInt") ? point["asInt"].get<std::string>() : json::dump(point["asDouble"]);
  }
  EXPECT_EQ(sums, (std::map<std::string, std::string>{{"mvm.gen_ai.requests", "101"},
                                                      {"mvm.gen_ai.requests.unknown", "102"},
                                                      {"mvm.gen_ai.requests.refused", "103"},
                                                      {"mvm.gen_ai.tokens.cached", "107"},
                                                      {"mvm.gen_ai.tokens.reasoning", "109"},
                                                      {"mvm.gen_ai.cost", "1.13e-07"}}));
}

TEST(Metrics, BudgetsOfProvidersAndRunsHaveFamiliesOfTheirOwn) {
  const std::string text = prometheus_text(figures());
  const std::string of = R"({instance="web",provider="openai")";
  for (const std::string& line :
       {"mvm_instance_ai_provider_budget_limit" + of + ",budget=\"max_requests\"} 50\n",
        "mvm_instance_ai_provider_budget_used" + of + ",budget=\"max_requests\"} 5\n",
        "mvm_instance_ai_provider_budget_cost_limit_dollars" + of + "} 1.000000000\n",
        "mvm_instance_ai_provider_budget_cost_used_dollars" + of + "} 0.250000000\n",
        std::string(
            "mvm_instance_ai_run_budget_limit{instance=\"web\",budget=\"max_total_tokens\"} 20\n"),
        std::string(
            "mvm_instance_ai_run_budget_used{instance=\"web\",budget=\"max_total_tokens\"} 12\n"),
        std::string("mvm_instance_ai_run_budget_limit{instance=\"still\",budget="
                    "\"max_total_tokens\"} 20\n")})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, Not(HasSubstr("run_budget_used{instance=\"still\"")));
  EXPECT_THAT(text, Not(HasSubstr("provider=\"run\"")));
}

// Every family that the example dashboard asks for is there.
TEST(Metrics, TheDashboardAsksForWhatThereIs) {
  std::ifstream file(MVM_DASHBOARD);
  const std::string dashboard((std::istreambuf_iterator<char>(file)), {});
  ASSERT_TRUE(json::Value::accept(dashboard));
  const std::string text = prometheus_text(figures());
  size_t asked = 0;
  for (size_t at = dashboard.find("mvm_"); at != dashboard.npos; at = dashboard.find("mvm_", at)) {
    const size_t end = dashboard.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", at);
    const std::string family = dashboard.substr(at, end - at);
    EXPECT_THAT(text, HasSubstr("# TYPE " + family + " "));
    at = end;
    ++asked;
  }
  EXPECT_GT(asked, 12U);
}

TEST(Metrics, EverySampleStandsBehindItsOwnFamily) {
  std::set<std::string> seen;
  std::string family;
  const std::string text = prometheus_text(figures());
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(seen.insert(family).second) << family;
    } else if (!line.empty() && !line.starts_with("#")) {
      EXPECT_EQ(line.substr(0, line.find_first_of("{ ")), family);
    }
  }
}

// opentelemetry-proto's metrics in proto3's JSON: of each message, what it may have and of what
// type ("u64" is a string of digits), or which message; with "*", any number of them.
const std::map<std::string, std::map<std::string, std::string>>& otlp_schema() {
  static const std::map<std::string, std::map<std::string, std::string>> schema{
      {"Request", {{"resourceMetrics", "*ResourceMetrics"}}},
      {"ResourceMetrics", {{"resource", "Resource"}, {"scopeMetrics", "*ScopeMetrics"}}},
      {"Resource", {{"attributes", "*KeyValue"}}},
      {"ScopeMetrics", {{"scope", "Scope"}, {"metrics", "*Metric"}}},
      {"Scope", {{"name", "string"}, {"version", "string"}}},
      {"Metric",
       {{"name", "string"},
        {"description", "string"},
        {"unit", "string"},
        {"sum", "Sum"},
        {"histogram", "Histogram"}}},
      {"Sum",
       {{"dataPoints", "*Number"}, {"aggregationTemporality", "int"}, {"isMonotonic", "bool"}}},
      {"Histogram", {{"dataPoints", "*Distribution"}, {"aggregationTemporality", "int"}}},
      {"Number",
       {{"attributes", "*KeyValue"},
        {"startTimeUnixNano", "u64"},
        {"timeUnixNano", "u64"},
        {"asInt", "u64"},
        {"asDouble", "number"}}},
      {"Distribution",
       {{"attributes", "*KeyValue"},
        {"startTimeUnixNano", "u64"},
        {"timeUnixNano", "u64"},
        {"count", "u64"},
        {"sum", "number"},
        {"bucketCounts", "*u64"},
        {"explicitBounds", "*number"}}},
      {"KeyValue", {{"key", "string"}, {"value", "Any"}}},
      {"Any", {{"stringValue", "string"}}}};
  return schema;
}

void expect_is(const json::Value& value, const std::string& type, const std::string& where) {
  if (type.starts_with('*')) {
    ASSERT_TRUE(value.is_array()) << where;
    for (const auto& each : value) expect_is(each, type.substr(1), where + "[]");
    return;
  }
  const std::map<std::string, bool> scalars{{"string", value.is_string()},
                                            {"number", value.is_number()},
                                            {"int", value.is_number_integer()},
                                            {"bool", value.is_boolean()}};
  if (const auto scalar = scalars.find(type); scalar != scalars.end()) {
    EXPECT_TRUE(scalar->second) << where << " is no " << type;
    return;
  }
  if (type == "u64") {
    ASSERT_TRUE(value.is_string()) << where;
    EXPECT_TRUE(parse_u64(value.get<std::string>())) << where;
    return;
  }
  ASSERT_TRUE(value.is_object()) << where;
  const auto& fields = otlp_schema().at(type);
  for (const auto& [name, member] : value.items()) {
    ASSERT_TRUE(fields.contains(name)) << where << " has no " << name;
    expect_is(member, fields.at(name), where + "." + name);
  }
}

uint64_t number_of(const json::Value& text) { return parse_u64(text.get<std::string>()).value(); }

// Whoever reads OTLP reads this: nothing that is not in the schema, and what its comments ask of
// the points.
TEST(Metrics, OtlpIsAsItsSchemaHasIt) {
  constexpr uint64_t kNow = 1'800'000'000'000'000'000;
  const auto json = json::Value::parse(otlp_json(figures(), kNow));
  expect_is(json, "Request", "");
  size_t seen = 0;
  for (const auto& metric : json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]) {
    EXPECT_NE(metric.contains("sum"), metric.contains("histogram"));
    const auto& data = metric.contains("sum") ? metric["sum"] : metric["histogram"];
    EXPECT_EQ(data["aggregationTemporality"], 2);  // cumulative
    std::set<std::string> series;
    for (const auto& point : data["dataPoints"]) {
      ++seen;
      EXPECT_TRUE(series.insert(json::dump(point["attributes"])).second) << "twice the same";
      std::set<std::string> keys;
      for (const auto& attribute : point["attributes"])
        EXPECT_TRUE(keys.insert(attribute["key"].get<std::string>()).second);
      EXPECT_EQ(number_of(point["timeUnixNano"]), kNow);
      EXPECT_EQ(number_of(point["startTimeUnixNano"]), 1'769'860'800'000'000'000U);
      if (!point.contains("count")) {
        EXPECT_NE(point.contains("asInt"), point.contains("asDouble"));
        continue;
      }
      EXPECT_EQ(point["bucketCounts"].size(), point["explicitBounds"].size() + 1);
      uint64_t in_buckets = 0;
      for (const auto& bucket : point["bucketCounts"]) in_buckets += number_of(bucket);
      EXPECT_EQ(in_buckets, number_of(point["count"]));
      EXPECT_NE(in_buckets, 0U) << "a sum of nothing";
    }
  }
  EXPECT_EQ(seen, 4U + 6U);
}

TEST(Metrics, OpenTelemetryHasItsOwnNames) {
  const auto json = json::Value::parse(otlp_json(figures(), 42));
  const auto& metrics = json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
  ASSERT_EQ(metrics[0]["name"], "gen_ai.client.token.usage");
  EXPECT_EQ(metrics[0]["unit"], "{token}");
  const auto& points = metrics[0]["histogram"]["dataPoints"];
  ASSERT_EQ(points.size(), 4U);
  EXPECT_EQ(points[0]["count"], "3");  // one is unknown, and no zero
  EXPECT_EQ(points[0]["sum"], 25);
  EXPECT_EQ(points[0]["attributes"][3]["key"], "gen_ai.operation.name");
  EXPECT_EQ(points[0]["attributes"][3]["value"]["stringValue"], "chat");
  EXPECT_EQ(points[2]["attributes"][3]["value"]["stringValue"], "embeddings");
  EXPECT_EQ(points[2]["sum"], 5);
  EXPECT_EQ(points[0]["timeUnixNano"], "42");
  EXPECT_EQ(points[0]["attributes"][0]["key"], "gen_ai.provider.name");
  EXPECT_EQ(points[0]["attributes"][0]["value"]["stringValue"], "openai");
  EXPECT_EQ(points[1]["attributes"][4]["value"]["stringValue"], "output");
  EXPECT_EQ(metrics[1]["sum"]["dataPoints"][0]["asInt"], "5");
}

}
}
