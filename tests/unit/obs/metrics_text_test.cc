// The text format of Prometheus, whatever the labels hold.

#include "mvm/obs/metrics_text.h"

#include <gtest/gtest.h>

namespace mvm::obs {
namespace {

TEST(MetricsText, WritesFamiliesAndSamples) {
  MetricsText out;
  out.family("mvm_up", MetricType::Gauge, "Whether\nit is \\ up.");
  out.sample({}, 1);
  out.family("mvm_tokens_total", MetricType::Counter, "Tokens.");
  out.sample({{"instance", "a\"b\\c\nd"}, {"model", "m"}}, 18446744073709551615U);
  out.sample_nano({{"instance", "web"}}, 1'250'000'001);
  EXPECT_EQ(out.take(),
            "# HELP mvm_up Whether\\nit is \\\\ up.\n# TYPE mvm_up gauge\nmvm_up 1\n"
            "# HELP mvm_tokens_total Tokens.\n# TYPE mvm_tokens_total counter\n"
            "mvm_tokens_total{instance=\"a\\\"b\\\\c\\nd\",model=\"m\"} 18446744073709551615\n"
            "mvm_tokens_total{instance=\"web\"} 1.250000001\n");
}

}
}
