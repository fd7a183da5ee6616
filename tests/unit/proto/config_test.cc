#include <gtest/gtest.h>

#include "mvm/proto/console.h"
#include "mvm/proto/machine_base.h"
#include "mvm/proto/monitor.h"
#include "mvm/proto/sandbox_config.h"

namespace mvm::proto {

TEST(SandboxConfig, SurvivesARoundTrip) {
  SandboxConfig config;
  config.id = "sb-abc";
  config.name = "web";
  config.hostname = "web";
  config.cpus = 2;
  config.disk_bandwidth = 50 << 20;
  config.disk_iops = 1000;
  config.kernel_console = "hvc0";
  config.kernel_arguments = "quiet";
  config.boot_timeout_ms = 5;
  config.watchdog_ms = 30'000;
  config.env = {{"A", "1"}, {"B", "x=y"}};
  config.workdir = "/work";
  config.user = "1000:1000";
  config.health = HealthCheck{{"true"}};
  config.exec_timeout_ms = 1;
  config.exec_output = 2;
  config.exec_pids = 3;
  config.ttl_ms = 4;
  config.idle_timeout_ms = 5;
  config.kept_path = "/nix";
  config.audit = {
      .file = 2, .file_size = 3, .log_size = 4, .seq = 5, .strict = true, .paths = false};
  config.audit.prev.fill(std::byte{0xff});
  config.audit.key.fill(std::byte{'k'});
  const auto again = SandboxConfig::decode(config.encode());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->encode(), config.encode());
  EXPECT_EQ(again->env, config.env);
  EXPECT_EQ(again->boot_timeout_ms, 5U);
  EXPECT_EQ(again->watchdog_ms, 30'000U);
  EXPECT_EQ(again->health, config.health);
  EXPECT_EQ(again->audit, config.audit);
  EXPECT_EQ(again->kept_path, "/nix");
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

TEST(MonitorConfig, SurvivesARoundTrip) {
  MonitorConfig config;
  config.cpus = kMaxMachineCpus;
  config.cmdline = "quiet";
  config.kept_disk = true;
  const auto again = MonitorConfig::decode(config.encode());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->encode(), config.encode());
  EXPECT_TRUE(again->kept_disk);
}

TEST(MonitorConfig, RefusesMachinesThatMakeNoSense) {
  MonitorConfig config;
  EXPECT_TRUE(MonitorConfig::decode(config.encode()));
  for (const uint32_t cpus : {0U, kMaxMachineCpus + 1, UINT32_MAX}) {
    config.cpus = cpus;
    EXPECT_FALSE(MonitorConfig::decode(config.encode())) << cpus;
  }
}

TEST(MachineBase, SurvivesARoundTrip) {
  for (const MachineBase& base : {MachineBase{.memory = uint64_t{64} << 30, .huge_pages = true},
                                  MachineBase{.memory = 1 << 20, .spare = true}})
    EXPECT_EQ(MachineBase::decode(base.encode()), base);
}

TEST(MachineBase, RefusesOneThatMakesNoSense) {
  EXPECT_FALSE(MachineBase::decode(MachineBase{.memory = (1 << 20) - 1}.encode()));
  const Bytes bytes = MachineBase{.memory = 1 << 20}.encode();
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(MachineBase::decode(ByteView(bytes).first(length))) << length;
}

TEST(MonitorConfig, CarriesANetworkCardOrNone) {
  MonitorConfig config;
  EXPECT_FALSE(MonitorConfig::decode(config.encode())->nic);
  config.nic = {{2, 0xff, 0, 1, 0x80, 3},
                IpAddress(IpAddress::V4{100, 127, 255, 2}),
                IpAddress::parse("fd6d:766d::2").value(),
                65520,
                4000};
  const auto again = MonitorConfig::decode(config.encode());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->nic, config.nic);
  for (const uint16_t mtu : {uint16_t{0}, uint16_t{1279}, uint16_t{65521}}) {
    config.nic->mtu = mtu;
    EXPECT_FALSE(MonitorConfig::decode(config.encode())) << mtu;
  }
  config.nic->mtu = 1500;
  config.nic->v4 = config.nic->v6;
  EXPECT_FALSE(MonitorConfig::decode(config.encode()));
}

TEST(MemoryUse, SurvivesARoundTripWithAndWithoutTheGuestsWord) {
  MemoryUse use;
  use.balloon = 1;
  use.balloon_target = 2;
  use.released = UINT64_MAX;
  EXPECT_EQ(MemoryUse::decode(use.encode()), use);
  use.guest_total = 3;
  use.guest_free = 4;
  use.guest_available = 0;
  use.guest_caches = 5;
  EXPECT_EQ(MemoryUse::decode(use.encode()), use);
  MonitorEvent event;
  event.kind = MonitorEventKind::Memory;
  event.memory = use;
  const Bytes bytes = event.encode();
  ASSERT_TRUE(MonitorEvent::decode(bytes));
  EXPECT_EQ(MonitorEvent::decode(bytes)->memory, use);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(MonitorEvent::decode(ByteView(bytes).first(length))) << length;
}

TEST(MemoryRequest, SurvivesARoundTrip) {
  MemoryRequest request;
  EXPECT_EQ(MemoryRequest::decode(request.encode()), request);
  request.balloon = 0;
  EXPECT_EQ(MemoryRequest::decode(request.encode()), request);
  MonitorRequest monitor;
  monitor.kind = MonitorRequestKind::Memory;
  monitor.balloon = 7;
  ASSERT_TRUE(MonitorRequest::decode(monitor.encode()));
  EXPECT_EQ(MonitorRequest::decode(monitor.encode())->balloon, 7U);
}

TEST(MonitorRequest, CarriesTheSizeOfATerminal) {
  MonitorRequest request;
  request.kind = MonitorRequestKind::Console;
  request.terminal = {50, 132};
  ASSERT_TRUE(MonitorRequest::decode(request.encode()));
  EXPECT_EQ(MonitorRequest::decode(request.encode())->kind, MonitorRequestKind::Console);
  EXPECT_EQ(MonitorRequest::decode(request.encode())->terminal, request.terminal);
  EXPECT_EQ(ConsoleRequest::decode(ConsoleRequest{{50, 132}}.encode()),
            (ConsoleRequest{{50, 132}}));
}

TEST(MonitorRequest, RefusesAnUnknownKind) {
  MonitorRequest request;
  request.kind = static_cast<MonitorRequestKind>(200);
  EXPECT_FALSE(MonitorRequest::decode(request.encode()));
}

}
