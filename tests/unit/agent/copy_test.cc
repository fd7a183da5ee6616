// Copies over a connection, with the agent itself at the other end.
#include "mvm/agent/copy.h"

#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/agent/exec.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

#include "peer.h"

namespace mvm::agent {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// As in mvm itself: a sandbox that has gone is an error, and not the end.
[[maybe_unused]] static const auto kIgnored = ::signal(SIGPIPE, SIG_IGN);

class WithAgent : public testing::Test {
 protected:
  WithAgent() {
    start_agent();
    sys::make_directories(here_);
    sys::make_directories(there_);
  }
  ~WithAgent() override { end_agent(); }
  void end_agent() {
    connection_.reset();
    if (agent_) agent_.wait();
  }
  void start_agent() {
    end_agent();
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    sys::SpawnOptions options;
    options.argv = {MVM_AGENT, "--serve-fd", "3", "--lanes", lanes_.path()};
    options.env = {"PATH=/usr/bin:/bin"};
    options.fds = {{theirs.get(), 3}, {0, 0}, {1, 1}, {2, 2}};
    agent_ = sys::spawn(options);
    connection_.emplace(std::move(ours));
    connection_->set_dial([this](uint32_t port) {
      dialled_ = port;
      auto lane = sys::connect_unix(lanes_.path() + "/" + std::to_string(port));
      if (!lane) throw Error(Kind::Unavailable, "nobody serves the lane");
      return std::move(*lane);
    });
  }
  static std::string text(const std::string& path) { return sys::read_text_file(path, 64 << 20); }
  static void make(const std::string& path, std::string_view content, mode_t mode = 0644) {
    const sys::Fd fd = sys::open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    sys::write_all(fd.get(), as_bytes(content));
    ASSERT_EQ(::fchmod(fd.get(), mode), 0);
  }

  sys::TempDir lanes_;
  uint32_t dialled_ = 0;  // the lane that was opened last
  sys::TempDir base_;
  std::string here_ = base_.path() + "/here";
  std::string there_ = base_.path() + "/there";
  sys::Child agent_;
  std::optional<Connection> connection_;
};

TEST_F(WithAgent, AnswersShortCalls) {
  connection_->ping(Milliseconds(60'000));
  const auto info = connection_->info(Milliseconds(60'000));
  EXPECT_GT(info.memory_total, 0U);
  EXPECT_FALSE(info.kernel.empty());
  EXPECT_EQ(info.commands, 0U);
}

// Six GiB that hold three bytes: holes before, between and behind them.
TEST_F(WithAgent, CopiesASparseFileAsHolesThereAndBack) {
  constexpr off_t kGiB = off_t{1} << 30;
  const sys::Fd fd = sys::open_file(here_ + "/sparse", O_RDWR | O_CREAT | O_EXCL, 0600);
  for (const off_t at : {kGiB, 2 * kGiB - 1, 5 * kGiB + 12345})
    sys::pwrite_all(fd.get(), as_bytes("x"), static_cast<uint64_t>(at));
  ASSERT_EQ(::ftruncate(fd.get(), 6 * kGiB), 0);
  EXPECT_EQ(put(*connection_, here_ + "/sparse", there_, {}).bytes, uint64_t{6} << 30);
  EXPECT_EQ(get(*connection_, there_ + "/sparse", here_ + "/back", {}).bytes, uint64_t{6} << 30);
  for (const std::string& path : {there_ + "/sparse", here_ + "/back"}) {
    const sys::Fd copy = sys::open_file(path, O_RDONLY);
    struct stat status{};
    ASSERT_EQ(::fstat(copy.get(), &status), 0);
    EXPECT_EQ(status.st_size, 6 * kGiB) << path;
    EXPECT_LT(status.st_blocks * 512, 1 << 20) << path;
    for (const off_t at : {kGiB, 2 * kGiB - 1, 5 * kGiB + 12345}) {
      Bytes around(3);
      ASSERT_TRUE(sys::pread_exact(copy.get(), around, static_cast<uint64_t>(at - 1)));
      EXPECT_EQ(as_text(around), std::string_view("\0x\0", 3)) << path << " " << at;
    }
  }
}

// Every kind of thing a tree may hold, there and back again.
TEST_F(WithAgent, CopiesATreeThereAndBack) {
  const std::string tree = here_ + "/tree";
  sys::make_directories(tree + "/deep/er", 0755);
  sys::make_directories(tree + "/empty", 0755);
  std::string large;
  for (size_t i = 0; i < 3'000'000; ++i) large += static_cast<char>(i * 2654435761U >> 24);
  make(tree + "/large", large);
  make(tree + "/nothing", "");
  make(tree + "/one", "1", 0400);
  make(tree + "/deep/er/script", "#!/bin/sh\n", 0755);
  make(tree + "/new\nline \xc3\xa4 \xff", "odd");
  for (int i = 0; i < 1000; ++i) make(tree + "/deep/" + std::to_string(i), std::to_string(i));
  ASSERT_EQ(::symlink("one", (tree + "/link").c_str()), 0);
  ASSERT_EQ(::symlink("/no/where", (tree + "/dangling").c_str()), 0);
  ASSERT_EQ(::mkfifo((tree + "/pipe").c_str(), 0600), 0);
  const std::array<timespec, 2> times{timespec{1, 0}, timespec{1234567890, 42}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (tree + "/empty").c_str(), times.data(), 0), 0);
  ASSERT_EQ(::utimensat(AT_FDCWD, (tree + "/one").c_str(), times.data(), 0), 0);

  std::vector<std::string> notes;
  uint64_t progress = 0;
  PutOptions options;
  options.watch.note = [&](const std::string& note) { notes.push_back(note); };
  options.watch.progress = [&](uint64_t bytes) { progress = bytes; };
  const TreeCounts put_counts = put(*connection_, tree, there_, options);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("pipe is a socket, pipe or device")));
  EXPECT_EQ(put_counts.entries, 4U + 5U + 1000U + 2U);
  EXPECT_EQ(progress, put_counts.bytes);

  ASSERT_EQ(::mkfifo((there_ + "/tree/other-pipe").c_str(), 0600), 0);
  const TreeCounts got = get(*connection_, there_ + "/tree", here_ + "/back", {});
  EXPECT_EQ(got.entries, put_counts.entries);
  EXPECT_EQ(got.bytes, put_counts.bytes);
  EXPECT_EQ(got.skipped, 1U);

  const std::string back = here_ + "/back";
  EXPECT_EQ(text(back + "/large"), large);
  EXPECT_EQ(text(back + "/nothing"), "");
  EXPECT_EQ(text(back + "/new\nline \xc3\xa4 \xff"), "odd");
  EXPECT_EQ(text(back + "/deep/999"), "999");
  EXPECT_EQ(sys::list_directory(back + "/deep").size(), 1001U);
  struct stat status{};
  ASSERT_EQ(::stat((back + "/one").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0400U);
  EXPECT_EQ(status.st_mtim.tv_nsec, 42);
  ASSERT_EQ(::stat((back + "/empty").c_str(), &status), 0);
  EXPECT_EQ(status.st_mtim.tv_sec, 1234567890);
  ASSERT_EQ(::stat((back + "/deep/er/script").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0755U);
  std::array<char, 64> target{};
  EXPECT_EQ(::readlink((back + "/dangling").c_str(), target.data(), target.size()), 9);
  EXPECT_STREQ(target.data(), "/no/where");
}

static std::string noise(size_t size) {
  std::string out(size, '\0');
  uint32_t state = 1;
  for (char& each : out) each = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return out;
}

TEST_F(WithAgent, CopiesLargeFilesByALane) {
  make(here_ + "/small", noise(kLargeFile - 1));
  put(*connection_, here_ + "/small", there_, {});
  EXPECT_EQ(dialled_, 0U);
  // Neither blocks, pages nor pipes divide its length.
  const std::string large = noise((5 << 20) + 4097);
  make(here_ + "/large", large, 0640);
  const TreeCounts counts = put(*connection_, here_ + "/large", there_, {});
  EXPECT_EQ(dialled_, 1U);
  EXPECT_EQ(counts.bytes, large.size());
  EXPECT_TRUE(text(there_ + "/large") == large);
  struct stat status{};
  ASSERT_EQ(::stat((there_ + "/large").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
}

TEST_F(WithAgent, CopiesLargeFilesWithoutLanesToo) {
  const std::string large = noise(3 << 20);
  make(here_ + "/large", large);
  connection_->set_dial({});
  put(*connection_, here_ + "/large", there_, {});
  EXPECT_TRUE(text(there_ + "/large") == large);
}

// What comes behind the first large file comes by the same lane.
TEST_F(WithAgent, CopiesATreeWithSeveralLargeFilesByOneLane) {
  std::vector<std::string> contents;
  for (int i = 0; i < 8; ++i) {
    contents.push_back(noise(i % 2 == 0 ? 70'000 : (2 << 20) + static_cast<size_t>(i)));
    make(here_ + "/" + std::to_string(i), contents.back());
  }
  put(*connection_, here_ + "/.", there_ + "/to", {});
  EXPECT_EQ(dialled_, 1U);
  for (size_t i = 0; i < contents.size(); ++i)
    EXPECT_TRUE(text(there_ + "/to/" + std::to_string(i)) == contents[i]) << i;
}

TEST_F(WithAgent, CopiesWhatThereIsOfAFileThatChangesItsLength) {
  const std::string content = noise(24 << 20);
  for (const off_t length : {off_t{1} << 20, off_t{30} << 20}) {
    const std::string path = here_ + "/" + std::to_string(length);
    make(path, content);
    PutOptions options;
    bool changed = false;
    options.watch.progress = [&](uint64_t bytes) {
      if (bytes > 0 && !std::exchange(changed, true)) {
        ASSERT_EQ(::truncate(path.c_str(), length), 0);
      }
    };
    const TreeCounts counts = put(*connection_, path, there_ + "/f", options);
    const std::string got = text(there_ + "/f");
    EXPECT_EQ(counts.bytes, got.size());
    if (length > (24 << 20)) {
      EXPECT_EQ(got.size(), static_cast<size_t>(length));
    }
    const size_t same = std::min(got.size(), content.size());
    EXPECT_GE(same, size_t{1} << 20);
    EXPECT_TRUE(got.compare(0, size_t{1} << 20, content, 0, size_t{1} << 20) == 0);
  }
}

TEST_F(WithAgent, TellsOfALaneThatNobodyConnects) {
  make(here_ + "/f", noise(2 << 20));
  connection_->set_dial([](uint32_t) -> sys::Fd { throw Error(Kind::Unavailable, "no way"); });
  EXPECT_EQ(error_of([&] { put(*connection_, here_ + "/f", there_, {}); }).message(), "no way");
  agent_.wait();  // the agent has seen that nobody is there any more, and is gone itself
  EXPECT_THAT(sys::list_directory(there_), IsEmpty());
}

TEST_F(WithAgent, CopiesOneAfterTheOtherOverOneConnection) {
  // The last of what is sent gives credit back, which must not come behind the end.
  make(here_ + "/big", std::string(300'000, 'x'));
  for (int round = 0; round < 5; ++round)
    put(*connection_, here_ + "/big", there_ + "/copy" + std::to_string(round), {});
  EXPECT_EQ(text(there_ + "/copy4"), std::string(300'000, 'x'));
}

TEST_F(WithAgent, CopiesTheSameStreamForTheSameContentUnderAView) {
  make(here_ + "/kept", "one", 0600);
  make(here_ + "/tool", "two", 0711);
  make(here_ + "/left", "three");
  sys::make_directories(here_ + "/empty", 0700);
  PutOptions options;
  options.view.emplace();
  options.view->mtime = 77;
  options.view->keep = [](const std::string& path, bool directory) {
    return !directory && path != "left";
  };
  put(*connection_, here_ + "/.", there_ + "/to", options);
  EXPECT_THAT(sys::list_directory(there_ + "/to"), ElementsAre("kept", "tool"));
  struct stat status{};
  ASSERT_EQ(::stat((there_ + "/to/kept").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0644U);
  EXPECT_EQ(status.st_mtime, 77);
  ASSERT_EQ(::stat((there_ + "/to/tool").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0755U);

  const auto stream = [&](const std::string& folder) {
    Bytes out;
    TreeReader reader(folder, true, {}, TreeView{});
    while (reader.produce(out)) {
    }
    return out;
  };
  const std::string other = base_.path() + "/other";
  sys::make_directories(other);
  for (const char* name : {"b", "a", "c"}) make(other + "/" + name, name);
  EXPECT_EQ(stream(other), stream(other));
}

TEST_F(WithAgent, RunsCommandsAndTakesWhatTheyPrint) {
  proto::ExecRequest request;
  request.argv = {"/bin/sh", "-c", "printf out; printf err >&2; exit 3"};
  for (int round = 0; round < 2; ++round) {
    std::string out;
    std::string err;
    const auto result = run_command(*connection_, request, [&](Stream stream, ByteView data) {
      (stream == Stream::Out ? out : err) += as_text(data);
    });
    EXPECT_EQ(out, "out");
    EXPECT_EQ(err, "err");
    EXPECT_EQ(result.exit_code, 3);
  }
  // More than a window, so credit has to be given back.
  request.argv = {"/bin/sh", "-c", "head -c 3000000 /dev/zero"};
  size_t bytes = 0;
  run_command(*connection_, request, [&](Stream, ByteView data) { bytes += data.size(); });
  EXPECT_EQ(bytes, 3'000'000U);
}

TEST_F(WithAgent, EndsACommandWhoseOutputNobodyWants) {
  proto::ExecRequest request;
  request.argv = {"/bin/sh", "-c", "while :; do echo more; done"};
  EXPECT_THROW(run_command(*connection_, request,
                           [](Stream, ByteView) { throw Error(Kind::Exhausted, "enough"); }),
               Error);
  // The agent ends when nothing runs any more, and the fixture waits for that.
}

TEST_F(WithAgent, FollowsTheRulesForDestinations) {
  make(here_ + "/f", "content");
  put(*connection_, here_ + "/f", there_, {});  // into a directory
  EXPECT_EQ(text(there_ + "/f"), "content");
  put(*connection_, here_ + "/f", there_ + "/g", {});  // under a name
  EXPECT_EQ(text(there_ + "/g"), "content");
  get(*connection_, there_ + "/g", here_, {});
  EXPECT_EQ(text(here_ + "/g"), "content");
  get(*connection_, there_ + "/g", here_ + "/h", {});
  EXPECT_EQ(text(here_ + "/h"), "content");
  get(*connection_, there_ + "/.", here_ + "/new", {});  // the content, under a new name
  EXPECT_THAT(sys::list_directory(here_ + "/new"), ElementsAre("f", "g"));
  get(*connection_, there_ + "/.", here_, {});  // the content, merged
  EXPECT_THAT(sys::list_directory(here_), ElementsAre("f", "g", "h", "new"));
  GetOptions options;
  options.make_parents = true;
  get(*connection_, there_ + "/g", here_ + "/a/b/c", options);
  EXPECT_EQ(text(here_ + "/a/b/c"), "content");
}

TEST_F(WithAgent, CopiesALinkOrWhatItPointsTo) {
  make(here_ + "/f", "content");
  ASSERT_EQ(::symlink("f", (here_ + "/l").c_str()), 0);
  put(*connection_, here_ + "/l", there_ + "/l", {});
  PutOptions put_options;
  put_options.follow = true;
  put(*connection_, here_ + "/l", there_ + "/f", put_options);
  EXPECT_EQ(text(there_ + "/l"), "content");
  GetOptions get_options;
  get_options.follow = true;
  get(*connection_, there_ + "/l", here_ + "/got", get_options);
  struct stat status{};
  ASSERT_EQ(::lstat((here_ + "/got").c_str(), &status), 0);
  EXPECT_TRUE(S_ISREG(status.st_mode));
}

TEST_F(WithAgent, SaysWhatIsMissing) {
  EXPECT_THAT(error_of([&] { put(*connection_, here_ + "/none", there_, {}); }).message(),
              HasSubstr("here/none: No such file"));
  EXPECT_EQ(error_of([&] { put(*connection_, here_, "relative", {}); }).kind(), Kind::Invalid);
  const Error missing = error_of([&] { get(*connection_, there_ + "/none", here_, {}); });
  EXPECT_THAT(missing.message(), HasSubstr("No such file"));
  EXPECT_THAT(sys::list_directory(here_), IsEmpty());
}

TEST_F(WithAgent, SaysWhyTheSandboxCannotTakeIt) {
  make(here_ + "/f", std::string(4 << 20, 'x'));
  const Error error =
      error_of([&] { put(*connection_, here_ + "/f", there_ + "/no/such/place", {}); });
  EXPECT_THAT(error.message(), HasSubstr("no/such"));
}

TEST_F(WithAgent, ReportsAnAgentThatDies) {
  make(here_ + "/f", std::string(32 << 20, 'x'));
  PutOptions options;
  options.watch.progress = [&](uint64_t) { agent_.signal(SIGKILL); };
  EXPECT_EQ(error_of([&] { put(*connection_, here_ + "/f", there_, options); }).kind(),
            Kind::Unavailable);
  EXPECT_FALSE(sys::exists(there_ + "/f"));
}

TEST_F(WithAgent, LeavesNothingHalfDoneHereWhenTheAgentDies) {
  make(there_ + "/f", std::string(32 << 20, 'x'));
  GetOptions options;
  options.watch.progress = [&](uint64_t) { agent_.signal(SIGKILL); };
  EXPECT_EQ(error_of([&] { get(*connection_, there_ + "/f", here_, options); }).kind(),
            Kind::Unavailable);
  EXPECT_THAT(sys::list_directory(here_), IsEmpty());
}

// The other end may go at any moment of any call: then there is one line that says so, and of what
// was copied to this side whole files or none.
TEST_F(WithAgent, DiesAtAnyMomentAndNothingIsHalfDone) {
  const std::string content(3 << 20, 'x');
  make(here_ + "/f", content);
  make(there_ + "/g", content);
  proto::ExecRequest command;
  command.argv = {"/bin/sh", "-c", "head -c 3000000 /dev/zero"};
  const auto act = [&](int which) {
    if (which == 0) put(*connection_, here_ + "/f", there_ + "/f", {});
    if (which == 1) get(*connection_, there_ + "/g", here_ + "/g", {});
    if (which == 2) run_command(*connection_, command, [](Stream, ByteView) {});
  };
  std::mt19937 chance(1);
  int died = 0;
  for (int round = 0; round < 90; ++round) {
    // Less than any of them takes, and more than the last step of each.
    const auto moment = std::chrono::microseconds(chance() % 6000);
    std::thread killer([&, pid = agent_.pid()] {
      std::this_thread::sleep_for(moment);
      ::kill(pid, SIGKILL);
    });
    std::string told;
    try {
      act(round % 3);
    } catch (const Error& error) {
      told = error.message();
      EXPECT_EQ(error.kind(), Kind::Unavailable) << told;
      ++died;
    }
    killer.join();
    EXPECT_EQ(told.find('\n'), std::string::npos) << told;
    for (const std::string& name : sys::list_directory(here_)) {
      EXPECT_TRUE(name == "f" || name == "g") << name;
      EXPECT_TRUE(text(here_ + "/" + name) == content) << name << " is cut";
    }
    sys::remove_file(here_ + "/g");
    start_agent();
  }
  std::printf("%d of 90 calls lost their agent\n", died);
  EXPECT_GT(died, 10);
}

}
