#include <gtest/gtest.h>

#include "mvm/proto/monitor.h"
#include "mvm/proto/sandbox_config.h"

namespace mvm::proto {

TEST(SandboxConfig, SurvivesARoundTrip) {
  SandboxConfig config;
  config.id = "sb-abc";
  config.name = "web";
  config.hostname = "web";
  config.cpus = 2;
  config.memory = 256 << 20;
  config.disk_bandwidth = 50 << 20;
  config.disk_iops = 1000;
  config.kernel_console = "hvc0";
  config.kernel_arguments = "quiet";
  config.boot_timeout_ms = 5;
  config.env = {{"A", "1"}, {"B", "x=y"}};
  config.workdir = "/work";
  config.user = "1000:1000";
  const auto again = SandboxConfig::decode(config.encode());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->encode(), config.encode());
  EXPECT_EQ(again->env, config.env);
  EXPECT_EQ(again->boot_timeout_ms, 5U);
}

TEST(MonitorEvent, SurvivesARoundTripAndNoTruncationDecodes) {
  MonitorEvent event;
  event.kind = MonitorEventKind::Ended;
  event.cause = EndCause::Panicked;
  event.detail = "Kernel panic";
  event.counters = {{"io_exits", 7}};
  const Bytes bytes = event.encode();
  const auto again = MonitorEvent::decode(bytes);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->cause, EndCause::Panicked);
  EXPECT_EQ(again->counters, event.counters);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(MonitorEvent::decode(ByteView(bytes).first(length))) << length;
}

TEST(MonitorRequest, RefusesAnUnknownKind) {
  MonitorRequest request;
  request.kind = static_cast<MonitorRequestKind>(200);
  EXPECT_FALSE(MonitorRequest::decode(request.encode()));
}

}
