// The life of sandboxes, and of the daemon itself.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/api/client.h"
#include "mvm/audit/log.h"
#include "mvm/audit/reader.h"
#include "mvm/audit/verify.h"
#include "mvm/base/scope_exit.h"
#include "mvm/image/import.h"
#include "mvm/proto/frame.h"
#include "mvm/state/database.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"
#include "mvm/sys/socket.h"

#include "fixture.h"

namespace mvm::daemon {

using proto::EndReason;

TEST_F(DaemonTest, SandboxLivesAndEnds) {
  start();
  const auto made = client()->create(spec("web"));
  EXPECT_EQ(made.state, SandboxState::Running);
  EXPECT_EQ(made.monitor_pid, sys::first_child_of(static_cast<pid_t>(made.sandbox_pid)));
  EXPECT_EQ(made.kernel, "plain");
  EXPECT_TRUE(sys::exists(made.control_socket));
  EXPECT_EQ(client()->version().sandboxes_live, 1U);

  std::string log;
  client()->logs("web", false, [&](std::string_view piece) {
    log += piece;
    return true;
  });
  EXPECT_EQ(log, "hello from web\n");

  const auto stopped = client()->stop(made.id, {});  // by id as well as by name
  EXPECT_EQ(stopped.state, SandboxState::Stopped);
  EXPECT_EQ(stopped.end, (api::End{EndReason::Stopped, ""}));
  EXPECT_EQ(stopped.ended_at, "2023-11-14T22:13:20.123Z");
  EXPECT_TRUE(client()->sandboxes(false).empty());
  EXPECT_EQ(client()->sandboxes(true).size(), 1U);

  // Again, with the disk it had.
  EXPECT_EQ(client()->start("web", {}).state, SandboxState::Running);
  EXPECT_EQ(error_of([&] { client()->start("web", {}); }).kind(), Kind::Conflict);
  EXPECT_EQ(error_of([&] { client()->remove("web", false); }).kind(), Kind::Conflict);
  client()->remove("web", true);
  EXPECT_EQ(error_of([&] { client()->sandbox("web"); }).kind(), Kind::NotFound);
  EXPECT_FALSE(sys::exists(paths_.sandbox_data(made.id)));
  EXPECT_FALSE(sys::exists(paths_.sandbox_runtime("web")));
}

TEST_F(DaemonTest, OfTwoCreationsOfOneNameExactlyOneWins) {
  start();
  std::array<std::string, 4> outcome;
  std::vector<std::thread> threads;
  for (std::string& mine : outcome)
    threads.emplace_back([&] {
      try {
        client()->create(spec("web"));
        mine = "made";
      } catch (const api::ApiError& error) {
        mine = std::string(kind_name(error.kind())) + ": " + error.message() + "; " + error.hint();
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::sort(outcome.begin(), outcome.end());
  const std::string refused =
      "conflict: sandbox web exists already; use another name, or remove it with: mvm rm web";
  EXPECT_EQ(outcome, (std::array<std::string, 4>{refused, refused, refused, "made"}));
  EXPECT_EQ(client()->sandboxes(true).size(), 1U);
}

TEST_F(DaemonTest, RefusesWhatCannotBeAndNamesTheKey) {
  start();
  const auto complaint = [&](auto change) {
    api::SandboxSpec bad = spec("web");
    change(bad);
    const Error error = error_of([&] { client()->create(bad); });
    EXPECT_EQ(error.kind(), Kind::Invalid) << error.message();
    return error.message();
  };
  EXPECT_NE(complaint([](auto& s) { s.name = "a/b"; }).find("sandbox.name"), std::string::npos);
  EXPECT_NE(complaint([](auto& s) { s.name = std::string(300, 'a'); }).find("sandbox.name"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& s) { s.cpus = 0; }).find("sandbox.cpus"), std::string::npos);
  EXPECT_NE(complaint([](auto& s) { s.cpus = 33; }).find("sandbox.cpus"), std::string::npos);
  EXPECT_NE(complaint([](auto& s) { s.memory = api::kMinMemory - 1; }).find("sandbox.memory"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& s) { s.memory = uint64_t{1} << 50; }).find("sandbox.memory"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& s) { s.disk = api::kMinDisk - 1; }).find("sandbox.disk"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& s) { s.hostname = "a b init=/x"; }).find("sandbox.hostname"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& s) { s.workdir = "work"; }).find("sandbox.workdir"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& s) { s.env["A=B"] = "c"; }).find("sandbox.env"), std::string::npos);
  EXPECT_NE(complaint([](auto& s) { s.image = ""; }).find("sandbox.image"), std::string::npos);
  api::SandboxSpec unknown = spec("web");
  unknown.image = "nothing";
  EXPECT_EQ(error_of([&] { client()->create(unknown); }).kind(), Kind::NotFound);
  EXPECT_TRUE(client()->sandboxes(true).empty());
}

// ---- disks that outlive sandboxes

static api::SandboxSpec with_disk(api::SandboxSpec spec, uint64_t size = api::kMinDisk) {
  spec.kept_disk = {"store", "/nix", size};
  return spec;
}

TEST_F(DaemonTest, KeptDiskOutlivesItsSandboxAndGrows) {
  start();
  client()->create(with_disk(spec("one")));
  const std::string disk = paths_.kept_disk("store");
  constexpr uint64_t kPlace = uint64_t{8} << 20;
  sys::pwrite_all(sys::open_file(disk, O_WRONLY).get(), as_bytes("kept"), kPlace);
  client()->remove("one", true);
  client()->create(with_disk(spec("two"), 2 * api::kMinDisk));
  const sys::Fd file = sys::open_file(disk, O_RDONLY);
  EXPECT_EQ(sys::file_size(file.get()), 2 * api::kMinDisk);
  std::array<std::byte, 4> content{};
  EXPECT_TRUE(sys::pread_exact(file.get(), content, kPlace));
  EXPECT_EQ(as_text(content), "kept");
  // It never shrinks.
  client()->remove("two", true);
  client()->create(with_disk(spec("three")));
  EXPECT_EQ(sys::file_size(file.get()), 2 * api::kMinDisk);
}

TEST_F(DaemonTest, KeptDiskIsOfOneRunningSandbox) {
  start();
  client()->create(with_disk(spec("one")));
  const Error error = error_of([&] { client()->create(with_disk(spec("two"))); });
  EXPECT_EQ(error.kind(), Kind::Conflict);
  EXPECT_NE(error.message().find("in use by sandbox one"), std::string::npos) << error.message();
  EXPECT_EQ(client()->sandboxes(true).size(), 1U);
  client()->stop("one", {});
  client()->create(with_disk(spec("two")));
  EXPECT_EQ(error_of([&] { client()->start("one", {}); }).kind(), Kind::Conflict);
  EXPECT_EQ(client()->sandbox("one").state, SandboxState::Stopped);
  client()->stop("two", {});
  EXPECT_EQ(client()->start("one", {}).state, SandboxState::Running);
}

// The path is a word of the kernel's command line.
TEST_F(DaemonTest, KeptDiskHasANameASizeAndAPlaceOfItsOwn) {
  start();
  const auto complaint = [&](const api::KeptDisk& disk) {
    api::SandboxSpec bad = spec("web");
    bad.kept_disk = disk;
    const Error error = error_of([&] { client()->create(bad); });
    EXPECT_EQ(error.kind(), Kind::Invalid) << error.message();
    return error.message();
  };
  for (const char* name : {"", "../x", "a/b", "a b"})
    EXPECT_NE(complaint({name, "/nix", api::kMinDisk}).find("kept_disk.name"), std::string::npos);
  for (const uint64_t size : {uint64_t{0}, api::kMinDisk - 1, UINT64_MAX})
    EXPECT_NE(complaint({"d", "/nix", size}).find("kept_disk.size"), std::string::npos);
  for (const std::string& path :
       {std::string(), std::string("/"), std::string("nix"), std::string("/a b"),
        std::string("/a init=/x"), std::string("/a//b"), std::string("/a/../b"),
        std::string("/./a"), std::string("/a/"), std::string("/dev"), std::string("/run/x"),
        "/" + std::string(255, 'a')})
    EXPECT_NE(complaint({"d", path, api::kMinDisk}).find("kept_disk.path"), std::string::npos)
        << path;
  EXPECT_TRUE(sys::list_directory(paths_.disks_dir()).empty());
}

TEST_F(DaemonTest, PicksANameWhenNoneIsGiven) {
  start();
  const auto made = client()->create(spec(""));
  EXPECT_FALSE(made.name.empty());
  EXPECT_EQ(client()->sandbox(made.name).id, made.id);
}

TEST_F(DaemonTest, GuestThatNeverAnswersIsTimeoutAndIsKilled) {
  start_impatient();
  auto never = spec("web", "never");
  never.boot_timeout_ms = 1;
  const Error error = error_of([&] { client()->create(never); });
  EXPECT_EQ(error.kind(), Kind::Timeout);
  const auto sandbox = client()->sandbox("web");
  EXPECT_EQ(sandbox.state, SandboxState::Failed);
  EXPECT_EQ(sandbox.sandbox_pid, 0);
}

TEST_F(DaemonTest, FailedStartTellsWhy) {
  start();
  const Error error = error_of([&] { client()->create(spec("web", "failed")); });
  EXPECT_NE(error.message().find("the host has no KVM"), std::string::npos) << error.message();
  EXPECT_EQ(client()->sandbox("web").end,
            (api::End{EndReason::StartFailed, "the host has no KVM"}));
}

TEST_F(DaemonTest, SandboxProcessThatEndsAtOnceLeavesNothing) {
  start();
  client()->create(spec("old"));
  client()->stop("old", {});
  daemon_.reset();
  auto broken = options();
  broken.sandbox_executable = "/bin/true";
  daemon_ = std::make_unique<Running>(std::move(broken));
  for (int i = 0; i < 5; ++i)
    EXPECT_NE(error_of([&] { client()->create(spec("web")); }).message(), "no error at all");
  EXPECT_NE(error_of([&] { client()->start("old", {}); }).message(), "no error at all");
  EXPECT_TRUE(eventually([&] { return !api::is_live(client()->sandbox("old").state); }));
  // No child is left, dead or alive.
  EXPECT_TRUE(eventually([] {
    siginfo_t child{};
    return ::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
  }));
}

TEST_F(DaemonTest, SandboxThatSpeaksGarbageFails) {
  start_impatient();
  EXPECT_NE(error_of([&] { client()->create(spec("web", "garbage")); }).message().find("protocol"),
            std::string::npos);
  EXPECT_EQ(client()->sandbox("web").state, SandboxState::Failed);
}

TEST_F(DaemonTest, CrashIsSeenAndNamed) {
  start();
  const auto made = client()->create(spec("web"));
  ASSERT_EQ(::kill(static_cast<pid_t>(made.sandbox_pid), SIGKILL), 0);
  ASSERT_TRUE(reaches("web", SandboxState::Crashed));
  const auto sandbox = client()->sandbox("web");
  EXPECT_EQ(sandbox.end->reason, EndReason::Crashed);
  EXPECT_NE(sandbox.end->detail.find("SIGKILL"), std::string::npos);
  EXPECT_NE(sandbox.end->detail.find("process " + std::to_string(made.sandbox_pid)),
            std::string::npos);
}

TEST_F(DaemonTest, WhoWaitsForAnEndIsToldOfItAndNotBefore) {
  start();
  const auto made = client()->create(spec("web"));
  auto ephemeral = spec("once");
  ephemeral.ephemeral = true;
  const auto once = client()->create(ephemeral);
  EXPECT_EQ(client()->wait("web", {1}).state, SandboxState::Running);
  auto end = std::async(std::launch::async, [&] { return client()->wait("web", {}); });
  auto end_of_once = std::async(std::launch::async, [&] { return client()->wait("once", {}); });
  EXPECT_EQ(end.wait_for(milliseconds(50)), std::future_status::timeout);
  for (const auto& sandbox : {made, once})
    ASSERT_EQ(::kill(static_cast<pid_t>(sandbox.sandbox_pid), SIGKILL), 0);
  EXPECT_EQ(end.get().end->reason, EndReason::Crashed);
  EXPECT_EQ(end_of_once.get().end->reason, EndReason::Crashed);
  EXPECT_EQ(client()->wait("web", {}).state, SandboxState::Crashed);
  EXPECT_EQ(client()->wait(once.id, {}).state, SandboxState::Crashed);
  EXPECT_EQ(error_of([&] { client()->wait("once", {}); }).kind(), Kind::NotFound);
  EXPECT_EQ(error_of([&] { client()->wait("web", {api::kMaxWaitMs + 1}); }).kind(), Kind::Invalid);
}

TEST_F(DaemonTest, EphemeralSandboxThatCrashedSaysSoToWhoKnowsItsId) {
  start();
  auto ephemeral = spec("once");
  ephemeral.ephemeral = true;
  const auto made = client()->create(ephemeral);
  ASSERT_EQ(::kill(static_cast<pid_t>(made.sandbox_pid), SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return client()->sandboxes(true).empty(); }));
  const auto gone = client()->sandbox(made.id);
  EXPECT_EQ(gone.state, SandboxState::Crashed);
  EXPECT_EQ(gone.end->reason, EndReason::Crashed);
  EXPECT_EQ(error_of([&] { client()->sandbox("once"); }).kind(), Kind::NotFound);
  EXPECT_EQ(error_of([&] { client()->remove(made.id, true); }).kind(), Kind::NotFound);
}

TEST_F(DaemonTest, LimitsAreKeptAndWhatIsLeftIsTold) {
  start();
  auto limited = spec("web");
  limited.limits = {1'000, 7, 4096, 60'000, 40'000, 0};
  client()->create(limited);
  auto shown = client()->sandbox("web");
  EXPECT_EQ(shown.limits, limited.limits);
  EXPECT_EQ(shown.ttl_left_ms, 30'000U);  // as the fake sandbox has it
  EXPECT_EQ(shown.idle_left_ms, 10'000U);
  restart();
  EXPECT_EQ(client()->sandbox("web").limits, limited.limits);
  client()->stop("web", {});
  shown = client()->sandbox("web");
  EXPECT_EQ(shown.ttl_left_ms, std::nullopt);
  auto endless = spec("endless");
  endless.limits.ttl_ms = api::kMaxLimitMs + 1;
  const Error error = error_of([&] { client()->create(endless); });
  EXPECT_NE(error.message().find("sandbox.limits.ttl_ms"), std::string::npos) << error.message();
}

TEST_F(DaemonTest, HealthIsCheckedAsTheImageSaysUnlessAnotherIsAskedFor) {
  import_checked();
  start();
  auto checked = spec("web");
  checked.image = "checked";
  EXPECT_EQ(client()->create(checked).health->state, proto::Health::Unhealthy);
  const auto health = client()->sandbox("web").health;
  ASSERT_TRUE(health);
  EXPECT_EQ(health->failures, 3U);
  EXPECT_EQ(health->checks, 4U);
  EXPECT_EQ(health->checked_at, "2026-01-02T03:04:05.006Z");
  EXPECT_EQ(health->exit_code, 7);
  EXPECT_EQ(health->output, "/bin/image-check\n\\x1b[2J");
  EXPECT_EQ(client()->image("checked").health->command,
            std::vector<std::string>{"/bin/image-check"});

  auto own = checked;
  own.name = "own";
  own.health = proto::HealthCheck{{"own-check"}};
  EXPECT_EQ(client()->create(own).health->output, "own-check\n\\x1b[2J");
  auto off = checked;
  off.name = "off";
  off.health.emplace();
  EXPECT_EQ(client()->create(off).health, std::nullopt);
  // A second command is what a sealed sandbox does not take.
  auto sealed = checked;
  sealed.name = "sealed";
  sealed.profile = "sealed";
  EXPECT_EQ(client()->create(sealed).health, std::nullopt);
  sealed.name = "contradicting";
  sealed.health = own.health;
  EXPECT_EQ(error_of([&] { client()->create(sealed); }).message(),
            "sandbox.health: with the profile sealed no check can be run");
  own.health->interval_ms = 1;
  EXPECT_EQ(error_of([&] { client()->create(own); }).message(),
            "sandbox.health: interval_ms must be 1000 to 86400000");

  // The list has it as well, also of sandboxes that an earlier daemon made, and of none that ended.
  restart();
  std::map<std::string, bool> listed;
  client()->stop("own", {});
  for (const auto& each : client()->sandboxes(true)) listed[each.name] = each.health.has_value();
  EXPECT_EQ(listed, (std::map<std::string, bool>{
                        {"web", true}, {"own", false}, {"off", false}, {"sealed", false}}));
}

TEST_F(DaemonTest, EndedSandboxGoesAfterItsRetention) {
  start();
  auto brief = spec("brief");
  brief.limits.retention_ms = 1;
  const auto made = client()->create(brief);
  auto lasting = spec("lasting", "today");
  lasting.limits.retention_ms = api::kMaxLimitMs;
  client()->create(lasting);
  client()->stop("lasting", {});
  EXPECT_GT(client()->sandbox("lasting").retention_left_ms.value_or(0), 0U);
  client()->stop("brief", {});
  ASSERT_TRUE(eventually([&] { return !sys::exists(paths_.sandbox_data(made.id)); }));
  EXPECT_EQ(client()->sandboxes(true).size(), 1U);
}

TEST_F(DaemonTest, RetentionHoldsAcrossARestart) {
  start();
  auto brief = spec("brief");
  brief.limits.retention_ms = 1;
  const auto made = client()->create(brief);
  daemon_.reset();
  const auto process = sys::open_process(static_cast<pid_t>(made.sandbox_pid));
  sys::signal_process(process->get(), SIGKILL);
  ::waitpid(static_cast<pid_t>(made.sandbox_pid), nullptr, 0);
  start();
  EXPECT_TRUE(eventually([&] { return client()->sandboxes(true).empty(); }));
}

// A process id is another process's one day: that one is neither taken for the sandbox nor ended.
TEST_F(DaemonTest, AProcessThatHasTheSandboxsIdNowIsNotIt) {
  start();
  const auto made = client()->create(spec("web"));
  daemon_.reset();
  const auto began = sys::process_start_time(static_cast<pid_t>(made.sandbox_pid));
  ::kill(static_cast<pid_t>(made.sandbox_pid), SIGKILL);
  ::waitpid(static_cast<pid_t>(made.sandbox_pid), nullptr, 0);
  sys::SpawnOptions options;
  options.argv = {"/bin/sleep", "1000"};
  sys::Child other = sys::spawn(options);
  // Process ids come round after much longer than the hundredth of a second in which the kernel
  // tells when a process began.
  while (sys::process_start_time(other.pid()) == began) {
    other.signal(SIGKILL);
    other.wait();
    other = sys::spawn(options);
  }
  {
    auto database = state::Database::open(paths_.state_db());
    database.prepare("UPDATE sandboxes SET pid = ?").bind_all(int64_t{other.pid()}).run();
  }
  start();
  ASSERT_TRUE(reaches("web", SandboxState::Crashed));
  client()->remove("web", true);
  EXPECT_EQ(::waitpid(other.pid(), nullptr, WNOHANG), 0) << "it has ended";
  other.signal(SIGKILL);
  other.wait();
}

TEST_F(DaemonTest, EnvironmentThatNoCommandCouldTakeIsRefusedAtOnce) {
  start();
  auto full = spec("full");
  full.env["A"] = std::string(30'000, 'a');
  full.env["B"] = std::string(18'000, 'b');
  EXPECT_EQ(client()->create(full).state, SandboxState::Running);
  // It used to be sent, and failed as "message too long" on a socket.
  for (char name = 'C'; name <= 'F'; ++name) {
    auto more = full;
    more.name = "more";
    for (char each = 'C'; each <= name; ++each)
      more.env[std::string(1, each)] = std::string(20'000, 'x');
    const Error error = error_of([&] { client()->create(more); });
    EXPECT_EQ(error.kind(), Kind::Invalid);
    EXPECT_NE(error.message().find("sandbox.env"), std::string::npos) << error.message();
  }
  EXPECT_EQ(client()->sandboxes(true).size(), 1U);
}

TEST_F(DaemonTest, MoreRulesThanASandboxTakesAreRefusedInWords) {
  start();
  auto ruled = spec("ruled");
  for (size_t i = 0; i < proto::kMaxNetworkRules; ++i)
    ruled.network.allow_hosts.push_back("h" + std::to_string(i) + ".example");
  client()->create(ruled);
  ruled.name = "overruled";
  ruled.network.allow_hosts.emplace_back("one.more.example");
  const Error error = error_of([&] { client()->create(ruled); });
  EXPECT_EQ(error.kind(), Kind::Invalid);
  EXPECT_NE(error.message().find("1024"), std::string::npos) << error.message();
}

// ---- the queue of starts

class DaemonQueueTest : public DaemonTest {
 protected:
  // Its creation is under way beside us.
  bool comes_to_wait(const std::string& name) const {
    return eventually([&] {
      for (const auto& sandbox : client()->sandboxes(false))
        if (sandbox.name == name && sandbox.state == SandboxState::Queued) return true;
      return false;
    });
  }
  void start_one_at_a_time() {
    auto narrow = options();
    narrow.starts_at_once = 1;
    daemon_ = std::make_unique<Running>(std::move(narrow));
    // Holds the one turn until it is removed.
    auto never = spec("first", "never");
    never.wait = false;
    client()->create(never);
  }
};

TEST_F(DaemonQueueTest, StartBeyondTheBoundWaitsForItsTurn) {
  start_one_at_a_time();
  std::thread second([&] { client()->create(spec("second")); });
  EXPECT_TRUE(comes_to_wait("second"));
  EXPECT_EQ(client()->sandboxes(false).size(), 2U);
  client()->remove("first", true);
  second.join();
  EXPECT_EQ(client()->sandbox("second").state, SandboxState::Running);
}

TEST_F(DaemonQueueTest, QueuedOneCanBeStoppedAndLeavesNothing) {
  start_one_at_a_time();
  Error told(Kind::Internal, "none");
  std::thread second([&] { told = error_of([&] { client()->create(spec("second")); }); });
  EXPECT_TRUE(comes_to_wait("second"));
  client()->stop("second", {});
  second.join();
  EXPECT_EQ(told.kind(), Kind::Conflict);
  EXPECT_NE(told.message().find("stopped while it waited"), std::string::npos) << told.message();
  EXPECT_EQ(client()->sandboxes(true).size(), 1U);
  EXPECT_EQ(sys::list_directory(paths_.sandboxes_dir()).size(), 1U);
}

TEST_F(DaemonQueueTest, DaemonThatStopsDoesNotWaitForTheQueue) {
  start_one_at_a_time();
  Error told(Kind::Internal, "none");
  std::thread second([&] { told = error_of([&] { client()->create(spec("second")); }); });
  EXPECT_TRUE(comes_to_wait("second"));
  daemon_.reset();
  second.join();
  EXPECT_EQ(told.kind(), Kind::Unavailable) << told.message();
  start();
  EXPECT_EQ(client()->sandboxes(true).size(), 1U);
}

TEST_F(DaemonTest, FiftyCreationsAtOnceAllSucceed) {
  auto narrow = options();
  narrow.starts_at_once = 3;
  daemon_ = std::make_unique<Running>(std::move(narrow));
  std::array<std::string, 50> outcome;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < outcome.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        client()->create(spec("n" + std::to_string(i)));
      } catch (const Error& error) {
        outcome[i] = error.message();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : outcome) EXPECT_EQ(each, "");
  EXPECT_EQ(client()->sandboxes(false).size(), outcome.size());
}

TEST_F(DaemonTest, SandboxThatEndsByItselfIsStopped) {
  start();
  client()->create(spec("web", "quits"));
  ASSERT_TRUE(reaches("web", SandboxState::Stopped));
  EXPECT_EQ(client()->sandbox("web").end->reason, EndReason::Exited);
}

TEST_F(DaemonTest, EphemeralSandboxLeavesNothing) {
  start();
  auto ephemeral = spec("once", "quits");
  ephemeral.ephemeral = true;
  const auto made = client()->create(ephemeral);
  ASSERT_TRUE(eventually([&] { return client()->sandboxes(true).empty(); }));
  ASSERT_TRUE(eventually([&] { return !sys::exists(paths_.sandbox_data(made.id)); }));
}

TEST_F(DaemonTest, StubbornSandboxIsKilled) {
  start_impatient();
  client()->create(spec("web", "stubborn"));
  const auto stopped = client()->stop("web", {.grace_ms = 1, .kill = false});
  EXPECT_EQ(stopped.state, SandboxState::Stopped);
  EXPECT_EQ(stopped.end->reason, EndReason::Killed);
}

TEST_F(DaemonTest, WithoutWaitingTheAnswerComesAtOnceAndTheStateFollows) {
  start();
  auto aside = spec("web");
  aside.wait = false;
  client()->create(aside);
  EXPECT_TRUE(reaches("web", SandboxState::Running));
}

TEST_F(DaemonTest, StopEndsAStartThatHangs) {
  start();
  auto hanging = spec("web", "never");
  hanging.wait = false;
  client()->create(hanging);
  EXPECT_EQ(client()->stop("web", {}).state, SandboxState::Stopped);
}

TEST_F(DaemonTest, RestartedDaemonAdoptsWhatRunsAndSeesItsEnd) {
  start();
  const auto before = client()->create(spec("web"));
  restart();
  const auto after = client()->sandbox("web");
  EXPECT_EQ(after, before);
  EXPECT_EQ(client()->stop("web", {}).end, (api::End{EndReason::Stopped, ""}));
}

// ---- published ports

static proto::PublishedPort loopback_port(uint16_t host, uint16_t guest) {
  proto::PublishedPort port;
  port.host = host;
  port.guest = guest;
  return port;
}

// Whether somebody listens there.
static bool answers(const proto::PublishedPort& port) {
  uint16_t number = port.host;
  try {
    sys::listen_tcp(port.address, number);
    return false;
  } catch (const Error& error) {
    return error.kind() == Kind::Conflict;
  }
}

TEST_F(DaemonTest, PublishedPortIsTheSandboxsAndOutlivesTheDaemon) {
  start();
  auto asked = spec("web");
  asked.ports = {loopback_port(0, 80)};
  const auto made = client()->create(asked);
  ASSERT_EQ(made.ports.size(), 1U);
  ASSERT_NE(made.ports[0].host, 0);
  const auto later = client()->publish("web", loopback_port(0, 3000));
  EXPECT_TRUE(answers(made.ports[0]));
  EXPECT_TRUE(answers(later));
  const std::vector<proto::PublishedPort> both{made.ports[0], later};
  EXPECT_EQ(client()->sandbox("web").ports, both);

  daemon_.reset();
  EXPECT_TRUE(answers(later));
  start();
  EXPECT_EQ(client()->sandbox("web").ports, both);
  client()->unpublish("web", later);
  EXPECT_TRUE(eventually([&] { return !answers(later); }));
  EXPECT_EQ(client()->sandbox("web").ports.size(), 1U);
  EXPECT_EQ(error_of([&] { client()->unpublish("web", later); }).kind(), Kind::NotFound);

  // It ends with the sandbox, and is there again at the next start under the same number.
  client()->stop("web", {});
  EXPECT_TRUE(eventually([&] { return !answers(made.ports[0]); }));
  EXPECT_EQ(client()->start("web", {}).ports, made.ports);
  EXPECT_TRUE(answers(made.ports[0]));
}

TEST_F(DaemonTest, PortThatIsTakenIsOneClearErrorAndNothingIsLeft) {
  start();
  proto::PublishedPort taken = loopback_port(0, 80);
  const sys::Fd holder = sys::listen_tcp(taken.address, taken.host);
  auto asked = spec("web");
  asked.ports = {taken};
  const Error refused = error_of([&] { client()->create(asked); });
  EXPECT_EQ(refused.kind(), Kind::Conflict);
  EXPECT_EQ(refused.message(), "starting sandbox web: port " + std::to_string(taken.host) +
                                   " of 127.0.0.1 is in use by another program of this host");
  EXPECT_TRUE(client()->sandboxes(true).empty());

  client()->create(spec("web"));
  EXPECT_EQ(error_of([&] { client()->publish("web", taken); }).kind(), Kind::Conflict);
  EXPECT_TRUE(client()->sandbox("web").ports.empty());
  // Between sandboxes, and of one sandbox twice.
  const auto mine = client()->publish("web", loopback_port(0, 80));
  client()->create(spec("other"));
  EXPECT_EQ(error_of([&] { client()->publish("other", mine); }).kind(), Kind::Conflict);
  EXPECT_EQ(error_of([&] { client()->publish("web", mine); }).message(),
            mine.place() + " leads to port 80 of sandbox web already");
}

TEST_F(DaemonTest, PortsOfASandboxThatDoesNotRunWaitForItsStart) {
  start();
  client()->create(spec("web"));
  client()->stop("web", {});
  EXPECT_EQ(client()->publish("web", loopback_port(0, 80)), loopback_port(0, 80));
  restart();
  const auto started = client()->start("web", {});
  ASSERT_EQ(started.ports.size(), 1U);
  EXPECT_TRUE(answers(started.ports[0]));
}

TEST_F(DaemonTest, PortThatTheSandboxDoesNotTakeIsNotPublished) {
  start();
  client()->create(spec("web", "portless"));
  EXPECT_NE(error_of([&] { client()->publish("web", loopback_port(0, 80)); })
                .message()
                .find("no ports here"),
            std::string::npos);
  EXPECT_TRUE(client()->sandbox("web").ports.empty());
}

TEST_F(DaemonTest, FailedStartOfASandboxWithPortsTellsWhy) {
  start();
  auto asked = spec("web", "failed");
  asked.ports = {loopback_port(0, 80)};
  EXPECT_NE(error_of([&] { client()->create(asked); }).message().find("the host has no KVM"),
            std::string::npos);
}

TEST_F(DaemonTest, NumberOfPublishedPortsIsBounded) {
  start();
  client()->create(spec("web"));
  for (size_t i = 0; i < proto::kMaxPublishedPorts; ++i)
    client()->publish("web", loopback_port(0, 80));
  EXPECT_EQ(error_of([&] { client()->publish("web", loopback_port(0, 80)); }).kind(),
            Kind::Exhausted);
  auto asked = spec("more");
  asked.ports.assign(proto::kMaxPublishedPorts + 1, loopback_port(0, 80));
  EXPECT_EQ(error_of([&] { client()->create(asked); }).kind(), Kind::Invalid);
}

// A daemon that was killed between the record and the socket.
TEST_F(DaemonTest, RestartedDaemonPublishesWhatIsRecordedAndNotThere) {
  start();
  client()->create(spec("web"));
  const auto port = client()->publish("web", loopback_port(0, 80));
  daemon_.reset();
  const auto control = sys::connect_unix(paths_.control_socket("web"));
  ASSERT_TRUE(control);
  Bytes out;
  proto::append_frame(out, 1, proto::FrameType::Request, proto::UnpublishRequest{port}.encode());
  sys::write_all(control->get(), out);
  EXPECT_TRUE(eventually([&] { return !answers(port); }));
  start();
  EXPECT_TRUE(answers(port));
  ASSERT_TRUE(client()->version().last_repair);
  EXPECT_EQ(client()->version().last_repair->actions,
            (std::vector<std::string>{"published " + port.text() + " of sandbox web"}));
}

TEST_F(DaemonTest, RestartedDaemonFindsHowSandboxesEndedMeanwhile) {
  start();
  const auto crashed = client()->create(spec("crashed"));
  auto once = spec("once");
  once.ephemeral = true;
  const auto ephemeral = client()->create(once);
  daemon_.reset();
  for (const auto& sandbox : {crashed, ephemeral}) {
    const auto process = sys::open_process(static_cast<pid_t>(sandbox.sandbox_pid));
    ASSERT_TRUE(process);
    sys::signal_process(process->get(), SIGKILL);
    // They are our children here, since the daemon was a thread of ours.
    ::waitpid(static_cast<pid_t>(sandbox.sandbox_pid), nullptr, 0);
  }
  start();
  EXPECT_EQ(client()->sandbox("crashed").state, SandboxState::Crashed);
  EXPECT_EQ(client()->sandboxes(true).size(), 1U);
  EXPECT_FALSE(sys::exists(paths_.sandbox_data(ephemeral.id)));
}

// What a disk has lost may be one file; the work that people have on their disks does not follow
// it.
TEST_F(DaemonTest, ALostDatabaseTakesNoDisksAlong) {
  start();
  const auto made = client()->create(spec("web"));
  client()->stop("web", {});
  daemon_.reset();
  for (const char* suffix : {"-wal", "-shm"}) sys::remove_file(paths_.state_db() + suffix);
  sys::write_file_atomic(paths_.state_db(), {});
  start();
  EXPECT_TRUE(client()->sandboxes(true).empty());
  const std::string folder = paths_.data() + "/sandboxes.lost";
  const auto kept = sys::list_directory(folder);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_TRUE(kept[0].starts_with(made.id));
  EXPECT_TRUE(sys::exists(folder + "/" + kept[0] + "/overlay.img"));
  const auto repair = client()->version().last_repair;
  ASSERT_TRUE(repair);
  EXPECT_NE(repair->actions[0].find(folder), std::string::npos) << repair->actions[0];
}

TEST_F(DaemonTest, ADamagedDatabaseIsOneLineThatSaysWhatToDo) {
  sys::write_file_atomic(paths_.state_db(), as_bytes(std::string(8192, 'x')));
  const Error error = error_of([&] { Daemon daemon(options()); });
  EXPECT_NE(error.message().find(paths_.state_db()), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("move it away"), std::string::npos) << error.message();
  EXPECT_EQ(error.message().find('\n'), std::string::npos);
  sys::remove_file(paths_.state_db());
}

TEST_F(DaemonTest, RestartedDaemonRemovesOrphans) {
  sys::make_directories(paths_.sandboxes_dir() + "/sb-orphan");
  sys::make_directories(paths_.sandboxes_runtime() + "/orphan");
  start();
  EXPECT_FALSE(sys::exists(paths_.sandboxes_dir() + "/sb-orphan"));
  EXPECT_FALSE(sys::exists(paths_.sandboxes_runtime() + "/orphan"));
  // And says so, this one and the next.
  for (int i = 0; i < 2; ++i) {
    const auto repair = client()->version().last_repair;
    ASSERT_TRUE(repair);
    EXPECT_EQ(repair->actions.size(), 2U);
    EXPECT_NE(repair->actions[0].find("sb-orphan"), std::string::npos);
    restart();
  }
}

TEST_F(DaemonTest, KernelsAreInstalledListedAndGuarded) {
  start();
  EXPECT_FALSE(client()->version().last_repair);
  const std::string source = temporary_.path() + "/other";
  sys::make_directories(source);
  sys::write_file_atomic(source + "/vmlinux", as_bytes("another"));
  sys::write_file_atomic(source + "/bundle.json",
                         as_bytes(R"({"name": "other", "image": "vmlinux", "modules": []})"));
  const api::Kernel made = client()->import_kernel({source, true});
  EXPECT_EQ(made.name, "other");
  EXPECT_TRUE(made.is_default);
  EXPECT_EQ(client()->kernels().size(), 2U);
  EXPECT_EQ(client()->create(spec("web")).kernel, "other");
  const Error used = error_of([&] { client()->remove_kernel("other", false); });
  EXPECT_EQ(used.kind(), Kind::Conflict);
  EXPECT_NE(used.message().find("web"), std::string::npos);
  client()->remove("web", true);
  client()->remove_kernel("other", false);
  EXPECT_EQ(client()->kernels().size(), 1U);
  EXPECT_EQ(error_of([&] { client()->remove_kernel("other", false); }).kind(), Kind::NotFound);
  EXPECT_EQ(error_of([&] { client()->import_kernel({"relative", false}); }).kind(), Kind::Invalid);
}

// The image says which kernel it came with; who starts it may say another.
TEST_F(DaemonTest, ImageIsStartedWithTheKernelThatItCameWith) {
  start();
  const std::string source = temporary_.path() + "/own";
  sys::make_directories(source);
  sys::write_file_atomic(source + "/vmlinux", as_bytes("its own"));
  sys::write_file_atomic(source + "/bundle.json",
                         as_bytes(R"({"name": "plain", "image": "vmlinux"})"));
  const std::string own = client()->import_kernel({source, false, true}).name;
  EXPECT_NE(own, "plain");
  {
    image::ImportOptions options;
    options.config.kernel = own;
    store::Images images(paths_);
    image::import_image(images, temporary_.path() + "/root", store::parse_image_name("with"),
                        options);
  }
  EXPECT_EQ(client()->image("with").kernel, own);
  auto with = spec("web");
  with.image = "with";
  EXPECT_EQ(client()->create(with).kernel, own);
  client()->stop("web", {});
  EXPECT_EQ(client()->start("web", {}).kernel, own);
  auto other = with;
  other.name = "other";
  other.kernel = "plain";
  EXPECT_EQ(client()->create(other).kernel, "plain");
  EXPECT_EQ(client()->create(spec("base")).kernel, "plain");

  client()->remove("web", true);
  const Error used = error_of([&] { client()->remove_kernel(own, false); });
  EXPECT_EQ(used.kind(), Kind::Conflict);
  EXPECT_NE(used.message().find("image with:latest"), std::string::npos) << used.message();
  client()->remove_kernel(own, true);
  const Error gone = error_of([&] { client()->create(with); });
  EXPECT_EQ(gone.kind(), Kind::NotFound);
  EXPECT_NE(gone.message().find("no kernel " + own), std::string::npos) << gone.message();
  EXPECT_EQ(error_of([&] { client()->import_kernel({source, true, true}); }).kind(), Kind::Invalid);
}

TEST_F(DaemonTest, SecondDaemonIsRefused) {
  start();
  const Error error = error_of([&] { Daemon second(options()); });
  EXPECT_EQ(error.kind(), Kind::Conflict);
  EXPECT_NE(error.message().find("another mvm daemon"), std::string::npos);
}

TEST_F(DaemonTest, DeadSocketIsReplaced) {
  // A listener that was closed without removing its file, as kill -9 leaves it.
  sys::listen_unix(paths_.daemon_socket()).reset();
  ASSERT_TRUE(sys::exists(paths_.daemon_socket()));
  EXPECT_EQ(api::Client::connect(paths_.daemon_socket()), nullptr);
  start();
  EXPECT_EQ(client()->version().version, "test");
}

TEST_F(DaemonTest, EndsByItselfWhenIdleButNotWhileASandboxRuns) {
  // Long enough for a client to come before it ends.
  daemon_ = std::make_unique<Running>(options(milliseconds(1'500)));
  client()->create(spec("web"));
  client()->stop("web", {});
  daemon_->join();  // by itself
  EXPECT_EQ(api::Client::connect(paths_.daemon_socket()), nullptr);
  daemon_.reset();
}

TEST_F(DaemonTest, StopRequestEndsTheDaemonAndLeavesSandboxes) {
  start();
  const auto made = client()->create(spec("web"));
  client()->stop_daemon();
  daemon_->join();
  daemon_.reset();
  EXPECT_TRUE(sys::open_process(static_cast<pid_t>(made.sandbox_pid)));
  start();
  EXPECT_EQ(client()->sandbox("web").state, SandboxState::Running);
}

TEST_F(DaemonTest, FollowedLogEndsWithTheSandbox) {
  start();
  client()->create(spec("web"));
  std::string log;
  bool stopping = false;
  client()->logs("web", true, [&](std::string_view piece) {
    log += piece;
    if (!std::exchange(stopping, true)) client()->stop("web", {});
    return true;
  });
  EXPECT_EQ(log, "hello from web\nbye\n");
}

TEST_F(DaemonTest, ImagesAreImportedListedAndGuarded) {
  start();
  sys::make_directories(temporary_.path() + "/tree/bin", 0755);
  sys::write_file_atomic(temporary_.path() + "/tree/bin/sh", as_bytes("#!"));
  std::vector<std::string> stages;
  const auto made = client()->import_image({temporary_.path() + "/tree", "tools"},
                                           [&](const api::ImportProgress& progress) {
                                             stages.push_back(progress.stage);
                                             return true;
                                           });
  EXPECT_EQ(made.name, "tools:latest");
  EXPECT_FALSE(stages.empty());
  EXPECT_EQ(client()->images().size(), 2U);
  EXPECT_EQ(client()->image("tools").digest, made.digest);

  auto user = spec("web");
  user.image = "tools";
  client()->create(user);
  EXPECT_EQ(client()->image("tools").used_by, std::vector<std::string>{"web"});
  EXPECT_EQ(error_of([&] { client()->remove_image("tools", false); }).kind(), Kind::Conflict);
  client()->remove("web", true);
  client()->remove_image("tools", false);
  EXPECT_EQ(error_of([&] { client()->image("tools"); }).kind(), Kind::NotFound);
  EXPECT_EQ(error_of([&] { client()->import_image({"relative", "x"}, {}); }).kind(), Kind::Invalid);
  EXPECT_EQ(
      error_of([&] { client()->import_image({temporary_.path() + "/none", "x"}, {}); }).kind(),
      Kind::NotFound);
}

TEST_F(DaemonTest, KernelsAreListed) {
  start();
  const auto kernels = client()->kernels();
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].name, "plain");
  EXPECT_EQ(kernels[0].size, 26U);
}

TEST_F(DaemonTest, SaysThatThisHostCannotRunAGuestAndAsksAgain) {
  auto crippled = options();
  std::atomic<bool> usable = false;
  crippled.check_host = [&] {
    if (!usable) throw api::ApiError(Kind::Unsupported, "there is no /dev/kvm", "switch it on");
  };
  daemon_ = std::make_unique<Running>(std::move(crippled));
  const Error error = error_of([&] { client()->create(spec("web")); });
  EXPECT_EQ(error.kind(), Kind::Unsupported);
  EXPECT_EQ(error.message(), "there is no /dev/kvm");
  EXPECT_TRUE(client()->sandboxes(true).empty());
  usable = true;
  EXPECT_EQ(client()->create(spec("web")).state, SandboxState::Running);
  daemon_.reset();  // before `usable` goes
  start();
}

// ---- the audit log

// The kinds of the records of the daemon's log about one sandbox.
static std::vector<std::string> recorded(const store::Paths& paths, const std::string& id) {
  std::vector<std::string> kinds;
  audit::for_each_record(paths.audit_log("daemon"), [&](std::string_view, const audit::Line& line) {
    if (line.field("sandbox_id") == id) kinds.emplace_back(line.kind);
  });
  return kinds;
}

static audit::Verdict checked(const store::Paths& paths, const std::string& log,
                              std::optional<audit::Head> known = std::nullopt) {
  return audit::verify_log(paths.audit_log(log), audit::LogId(log),
                           audit::read_public_key(paths.audit_public_key()), known);
}

TEST_F(DaemonTest, RecordsTheLifeOfASandboxAndKeepsItsLog) {
  start();
  const std::string id = client()->create(spec("web")).id;
  client()->stop("web", {});
  client()->start("web", {});
  client()->stop("web", {});
  client()->remove("web", false);
  using Kinds = std::vector<std::string>;
  EXPECT_EQ(recorded(paths_, id),
            (Kinds{"created", "started", "ended", "started", "ended", "removed"}));
  // The sandbox is gone; its log is there, closed, and ends where the daemon says.
  std::optional<audit::Head> end;
  audit::for_each_record(paths_.audit_log("daemon"), [&](std::string_view,
                                                         const audit::Line& line) {
    if (line.kind == "ended")
      end = audit::Head{line.number("log_seq"), *audit::digest_from_hex(line.field("log_hash"))};
  });
  ASSERT_TRUE(end);
  const audit::Verdict verdict = checked(paths_, id, end);
  EXPECT_TRUE(verdict.ok());
  EXPECT_TRUE(verdict.closed);
  EXPECT_EQ(verdict.head, *end);
  EXPECT_TRUE(checked(paths_, "daemon").ok());
}

TEST_F(DaemonTest, RecordsWhichPortsLeadIntoASandbox) {
  start();
  auto asked = spec("web");
  asked.ports = {loopback_port(0, 80)};
  const auto made = client()->create(asked);
  const auto added = client()->publish("web", loopback_port(0, 81));
  client()->unpublish("web", added);
  client()->create(spec("other", "portless"));
  error_of([&] { client()->publish("other", loopback_port(0, 80)); });
  EXPECT_EQ(recorded(paths_, made.id),
            (std::vector<std::string>{"created", "started", "port_published", "port_published",
                                      "port_withdrawn"}));
  EXPECT_EQ(recorded(paths_, client()->sandbox("other").id),
            (std::vector<std::string>{"created", "started", "port_published", "port_withdrawn"}));
  std::string first;
  audit::for_each_record(
      paths_.audit_log("daemon"), [&](std::string_view, const audit::Line& line) {
        if (line.kind == "port_published" && first.empty())
          first = std::string(line.field("address")) + " " + std::to_string(line.number("port")) +
                  " " + std::to_string(line.number("guest_port"));
      });
  EXPECT_EQ(first, "127.0.0.1 " + std::to_string(made.ports[0].host) + " 80");
  EXPECT_TRUE(checked(paths_, "daemon").ok());
}

TEST_F(DaemonTest, ClosesItsOwnLogAndGoesOnWithItAfterARestart) {
  start();
  daemon_.reset();
  EXPECT_TRUE(checked(paths_, "daemon").closed);
  start();
  const audit::Verdict verdict = checked(paths_, "daemon");
  EXPECT_TRUE(verdict.ok());
  EXPECT_FALSE(verdict.closed);
  EXPECT_EQ(verdict.files, 2U);
}

TEST_F(DaemonTest, UseOfAiIsReadAndItsBudgetChanged) {
  start();
  api::SandboxSpec metered = spec("metered");
  metered.network.ai.budget.max_total_tokens = 100;
  client()->create(metered);
  client()->create(spec("plain"));
  const auto usage = client()->ai_usage();
  ASSERT_EQ(usage.size(), 1U);
  EXPECT_EQ(usage[0].sandbox, "metered");
  EXPECT_EQ(usage[0].budget.max_total_tokens, 100U);
  EXPECT_EQ(error_of([&] { client()->change_ai_budget("plain", {std::nullopt, true}); }).kind(),
            Kind::Conflict);

  // Of a stopped one the daemon itself writes the journal; it is there for the next daemon too.
  client()->stop("metered", {});
  proto::AiBudget budget;
  budget.max_requests = 7;
  budget.max_cost = "2.5";
  EXPECT_EQ(client()->change_ai_budget("metered", {budget, false}).budget.max_cost, "2.50");
  restart();
  EXPECT_EQ(client()->ai_usage().at(0).budget.max_requests, 7U);
  EXPECT_FALSE(client()->ai_usage().at(0).budget.max_total_tokens);
  budget.max_cost = "much";
  EXPECT_EQ(error_of([&] { client()->change_ai_budget("metered", {budget, false}); }).kind(),
            Kind::Invalid);

  const std::string text = client()->metrics(false);
  EXPECT_NE(text.find("mvm_sandboxes{state=\"running\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(
      text.find("mvm_instance_ai_budget_limit{instance=\"metered\",budget=\"max_requests\"} 7"),
      std::string::npos)
      << text;
  EXPECT_EQ(client()->metrics(true).front(), '{');
}

TEST_F(DaemonTest, WrongMeteringIsRefused) {
  start();
  api::SandboxSpec wrong = spec("wrong");
  wrong.network.ai.metering = true;
  wrong.network.ai.providers = {"opneai"};
  const Error error = error_of([&] { client()->create(wrong); });
  EXPECT_EQ(error.kind(), Kind::Invalid);
  EXPECT_NE(error.message().find("network.ai.providers"), std::string::npos) << error.message();
}

TEST_F(DaemonTest, RemovesTheLogOfARemovedSandboxAfterItsTime) {
  start();
  const std::string old = client()->create(spec("old")).id;
  const std::string young = client()->create(spec("young")).id;
  const std::string kept = client()->create(spec("kept")).id;
  client()->remove("old", true);
  client()->remove("young", true);
  daemon_.reset();
  const timespec long_ago[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  for (const std::string& id : {old, kept})
    for (const uint64_t number : audit::file_numbers(paths_.audit_log(id)))
      ASSERT_EQ(
          ::utimensat(AT_FDCWD, (paths_.audit_log(id) + "/" + audit::file_name(number)).c_str(),
                      long_ago, 0),
          0);
  start();
  EXPECT_FALSE(sys::exists(paths_.audit_log(old)));
  EXPECT_TRUE(sys::exists(paths_.audit_log(young)));
  EXPECT_TRUE(sys::exists(paths_.audit_log(kept)));
  EXPECT_EQ(recorded(paths_, old).back(), "log_expired");
}

TEST_F(DaemonTest, RecordsOfASandboxAreStrictWhereItOrTheDaemonSaysSo) {
  const auto log = [&](const std::string& name) {
    std::string text;
    client()->logs(name, false, [&](std::string_view piece) {
      text += piece;
      return true;
    });
    return text;
  };
  start();
  auto strict = spec("strict");
  strict.audit_strict = true;
  EXPECT_TRUE(client()->create(strict).audit_strict);
  client()->create(spec("normal"));
  EXPECT_EQ(log("strict"), "hello from strict\nstrict\n");
  EXPECT_EQ(log("normal"), "hello from normal\n");
  daemon_.reset();
  auto all = options();
  all.audit.strict = true;
  daemon_ = std::make_unique<Running>(std::move(all));
  EXPECT_TRUE(client()->sandbox("strict").audit_strict);
  EXPECT_FALSE(client()->create(spec("other")).audit_strict);
  EXPECT_EQ(log("other"), "hello from other\nstrict\n");
}

// ---- secrets

class DaemonSecrets : public DaemonTest {
 protected:
  static constexpr const char* kValue = "sk-0123456789-unmistakable";
  static api::SandboxSpec with_secret(const std::string& name) {
    api::SandboxSpec out = spec(name);
    proto::SecretRule rule;
    rule.name = "KEY";
    rule.from = "env:KEY";
    rule.hosts = {"api.example"};
    out.secrets = {rule};
    out.secret_values = {{"KEY", kValue}};
    return out;
  }
  std::string console(const std::string& name) const {
    std::string log;
    client()->logs(name, false, [&](std::string_view piece) {
      log += piece;
      return true;
    });
    return log;
  }
  // Without the holes of disks. Files of the kernel have no size, and are read as they come.
  static std::string text_in(const std::string& path) {
    std::string out;
    const sys::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) return out;
    if (status.st_size == 0) {
      std::ifstream stream(path, std::ios::binary);
      return {std::istreambuf_iterator<char>(stream), {}};
    }
    for (off_t at = 0; (at = ::lseek(file.get(), at, SEEK_DATA)) >= 0;) {
      const off_t end = ::lseek(file.get(), at, SEEK_HOLE);
      std::string piece(static_cast<size_t>(end - at), '\0');
      const ssize_t got = ::pread(file.get(), piece.data(), piece.size(), at);
      out.append(piece, 0, static_cast<size_t>(std::max<ssize_t>(got, 0)));
      at = end;
    }
    return out;
  }
  // In every file that mvm has, and in what the kernel tells of the processes.
  std::vector<std::string> places_of(std::string_view value,
                                     const std::vector<int64_t>& processes) const {
    std::vector<std::string> out;
    const auto look = [&](const std::string& path) {
      if (text_in(path).find(value) != std::string::npos) out.push_back(path);
    };
    for (const auto& entry : std::filesystem::recursive_directory_iterator(temporary_.path()))
      if (entry.is_regular_file()) look(entry.path());
    for (const int64_t process : processes)
      for (const char* file : {"cmdline", "environ"})
        look("/proc/" + std::to_string(process) + "/" + file);
    return out;
  }
};

TEST_F(DaemonSecrets, ReachTheSandboxsProcessAndNothingElse) {
  start();
  const auto made = client()->create(with_secret("web"));
  EXPECT_EQ(console("web"), "hello from web\nsecret KEY of 26 bytes\n");
  EXPECT_EQ(made.secrets, with_secret("web").secrets);
  std::string shown =
      api::encode(client()->sandbox("web")) + api::encode(client()->sandboxes(true));
  EXPECT_EQ(shown.find(kValue), shown.npos);
  EXPECT_NE(shown.find("env:KEY"), shown.npos);
  EXPECT_EQ(places_of(kValue, {made.sandbox_pid, made.monitor_pid}), std::vector<std::string>());
  // The check sees what is there.
  EXPECT_NE(places_of("env:KEY", {}), std::vector<std::string>());
}

TEST_F(DaemonSecrets, AreGivenAgainAtEachStart) {
  start();
  client()->create(with_secret("web"));
  client()->stop("web", {});
  restart();
  const Error missing = error_of([&] { client()->start("web", {}); });
  EXPECT_EQ(missing.kind(), Kind::Invalid);
  EXPECT_NE(missing.message().find("secret_values.KEY"), std::string::npos) << missing.message();
  api::StartRequest request;
  request.secret_values = {{"KEY", "another-0123456789"}};
  EXPECT_EQ(client()->start("web", request).state, SandboxState::Running);
  EXPECT_NE(console("web").find("secret KEY of 18 bytes"), std::string::npos);
  EXPECT_EQ(places_of("another-0123456789", {}), std::vector<std::string>());
}

TEST_F(DaemonSecrets, ARunningSandboxIsGivenNoFurtherOnes) {
  start();
  const auto made = client()->create(with_secret("web"));
  api::StartRequest request;
  request.secret_values = {{"KEY", "another-0123456789"}, {"OTHER", "further-0123456789"}};
  EXPECT_EQ(error_of([&] { client()->start("web", request); }).kind(), Kind::Conflict);
  auto other = with_secret("web");
  other.secrets[0].name = "OTHER";
  other.secret_values = {{"OTHER", "further-0123456789"}};
  EXPECT_EQ(error_of([&] { client()->create(other); }).kind(), Kind::Conflict);
  EXPECT_EQ(console("web"), "hello from web\nsecret KEY of 26 bytes\n");
  EXPECT_EQ(client()->sandbox("web").secrets, made.secrets);
  // Nor is it given one that it has no rule for when it is started again.
  client()->stop("web", {});
  EXPECT_EQ(error_of([&] { client()->start("web", request); }).kind(), Kind::Invalid);
}

// The daemon has the environment of whoever's command started it.
TEST_F(DaemonSecrets, TheHostsEnvironmentReachesNoSandbox) {
  const std::string value = "host-only-0123456789";
  ASSERT_EQ(::setenv("OF_THE_HOST", value.c_str(), 1), 0);
  const ScopeExit unset([] { ::unsetenv("OF_THE_HOST"); });
  start();
  const auto made = client()->create(spec("web", "names"));
  EXPECT_EQ(console("web"), "hello from web\nvariable FAKE\n");
  EXPECT_EQ(places_of(value, {made.sandbox_pid, made.monitor_pid}), std::vector<std::string>());
}

// What a variable holds is for the guest alone, and is there again after the daemon was.
TEST_F(DaemonSecrets, EnvironmentsReachTheSandboxsProcessAndNoFile) {
  start();
  api::SandboxSpec with = spec("web");
  with.env["TOLD"] = "value-of-nobody-elses-business";
  const auto made = client()->create(with);
  EXPECT_NE(console("web").find("variable TOLD of 30 bytes"), std::string::npos);
  const std::string shown = api::encode(client()->sandbox("web"));
  EXPECT_EQ(shown.find("nobody"), shown.npos);
  const std::vector<std::string> nowhere;
  EXPECT_EQ(places_of("of-nobody-elses", {made.sandbox_pid, made.monitor_pid}), nowhere);
  client()->stop("web", {});
  restart();
  EXPECT_EQ(places_of("of-nobody-elses", {}), nowhere);
  client()->start("web", {});
  EXPECT_NE(console("web").find("variable TOLD of 30 bytes"), std::string::npos);
  client()->remove("web", true);
  EXPECT_EQ(places_of("of-nobody-elses", {}), nowhere);
  const Error refused = error_of([&] {
    with.env["BAD"] = std::string("of-nobody-elses\0x", 17);
    client()->create(with);
  });
  EXPECT_EQ(refused.kind(), Kind::Invalid);
  EXPECT_EQ(refused.message().find("nobody"), std::string::npos) << refused.message();
}

// Whatever becomes of a sandbox: every file of the daemon's, its log with all that it can tell, its
// figures, its answers and its errors.
TEST_F(DaemonSecrets, NoValueIsInALogAFigureAnAnswerOrAnError) {
  const sys::Fd log =
      sys::open_file(temporary_.path() + "/loud.log", O_WRONLY | O_CREAT | O_CLOEXEC);
  auto loud = options();
  loud.margin = milliseconds(200);
  loud.log = obs::Log(log.get(), obs::Level::Debug);
  daemon_ = std::make_unique<Running>(std::move(loud));
  const std::string core = "of-nobody-elses";
  std::string said;
  for (const std::string manner : {"failed", "garbage", "never", "quits", ""}) {
    api::SandboxSpec with = with_secret("web");
    with.env["TOLD"] = "value-" + core + "-business";
    with.secret_values["KEY"] = "secret-" + core + "-business";
    if (manner == "never") with.boot_timeout_ms = 1;
    if (!manner.empty()) with.env["FAKE"] = manner;
    try {
      said += api::encode(client()->create(with));
    } catch (const Error& error) {
      said += error.message() + "\n";
    }
    said +=
        api::encode(client()->sandboxes(true)) + client()->metrics(false) + client()->metrics(true);
    if (!manner.empty()) client()->remove("web", true);
  }
  EXPECT_EQ(places_of(core, {}), std::vector<std::string>());
  EXPECT_EQ(said.find(core), said.npos) << said;
  EXPECT_NE(said.find("mvm_sandboxes"), said.npos);
  EXPECT_NE(said.find("no KVM"), said.npos) << said;
  daemon_.reset();  // it writes to the log, which is closed here
  std::ifstream told(temporary_.path() + "/loud.log");
  const std::string text((std::istreambuf_iterator<char>(told)), {});
  EXPECT_NE(text.find("sandbox started"), text.npos);
}

TEST_F(DaemonSecrets, ASandboxWhoseEnvironmentIsLostDoesNotStart) {
  start();
  client()->create(spec("web"));
  client()->stop("web", {});
  daemon_.reset();
  sys::remove_file(paths_.state_db() + ".key");
  start();
  const Error error = error_of([&] { client()->start("web", {}); });
  EXPECT_EQ(error.kind(), Kind::Invalid);
  EXPECT_NE(error.message().find("state.db.key is not the key"), std::string::npos)
      << error.message();
  client()->remove("web", true);
  EXPECT_EQ(client()->create(spec("web")).state, SandboxState::Running);
}

TEST_F(DaemonSecrets, AreRefusedWithoutBeingSaid) {
  start();
  const auto refused = [&](const std::function<void(api::SandboxSpec&)>& change) {
    api::SandboxSpec bad = with_secret("web");
    change(bad);
    const Error error = error_of([&] { client()->create(bad); });
    EXPECT_EQ(error.kind(), Kind::Invalid) << error.message();
    EXPECT_EQ(error.message().find("0123456789"), std::string::npos) << error.message();
    return error.message();
  };
  refused([](auto& bad) { bad.secret_values.clear(); });
  refused([](auto& bad) { bad.secret_values["KEY"] = "0123456789\n"; });
  refused([](auto& bad) { bad.secret_values["KEY"] = "short"; });
  refused([](auto& bad) { bad.secret_values["KEY"] = "0123456789" + std::string(9000, 'x'); });
  refused([](auto& bad) { bad.secret_values["OTHER"] = "0123456789"; });
  refused([](auto& bad) { bad.env["KEY"] = "0123456789"; });
  refused([](auto& bad) { bad.secrets.push_back(bad.secrets[0]); });
  refused([](auto& bad) { bad.secrets[0].hosts.clear(); });
  EXPECT_TRUE(client()->sandboxes(true).empty());
}

}
