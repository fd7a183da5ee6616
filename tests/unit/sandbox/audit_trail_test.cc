// A sandbox's log on a disk that is full for a while: nothing new is admitted, and what ends
// meanwhile is recorded when there is room again, without anything else having to happen.
#include "../../../src/sandbox/audit_trail.h"

#include <csignal>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "../audit/sample.h"

namespace mvm::sandbox {
namespace {

void limit_files_to(uint64_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, RLIM_INFINITY};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// In a process of its own, because of the limit.
void fill_and_empty_the_disk(const std::string& folder) {
  audit::Session session = audit::session_in(folder);
  proto::AuditConfig config;
  config.file = session.number;
  config.file_size = session.file_size;
  config.log_size = session.size;
  config.seq = session.next.seq;
  config.prev = session.next.prev;
  config.key = session.key.seed();
  loop::Loop loop;
  std::vector<bool> works;
  AuditTrail trail(loop, "sb-test", config, std::move(session.directory), std::move(session.file),
                   [&](const std::optional<audit::Failure>& failure) {
                     works.push_back(!failure);
                     if (!failure) loop.stop();
                   });
  limit_files_to(1);
  trail.record_end("run-1", proto::ExecResult{});
  EXPECT_FALSE(trail.record(audit::connect_to("a.example")));
  EXPECT_FALSE(trail.note(audit::connect_to("b.example")));
  loop.run_once(std::chrono::milliseconds(0));
  EXPECT_EQ(works, (std::vector{false}));
  limit_files_to(RLIM_INFINITY);
  loop.run();
  EXPECT_EQ(works, (std::vector{false, true}));
  EXPECT_TRUE(trail.record(audit::connect_to("c.example")));
}

TEST(AuditTrail, WhatEndsOnAFullDiskIsRecordedWhenThereIsRoom) {
  sys::TempDir folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    fill_and_empty_the_disk(folder.path());
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::vector<std::string> seen;
  for (const audit::File& file : audit::read_files(folder.path()))
    for (const std::string& line : file.lines)
      if (const auto record = audit::parse(line))
        seen.push_back(std::string(record->kind) + " " + std::string(record->field("host")) +
                       std::string(record->field("run_id")));
  EXPECT_THAT(seen, testing::ElementsAre("open ", "checkpoint ", "exec_ended run-1",
                                         "connect b.example", "connect c.example"));
}

}
}
