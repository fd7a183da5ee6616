// The file verbs of a real agent, through the host's own functions.
#include "mvm/agent/files.h"

#include <atomic>
#include <set>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"
#include "mvm/sys/socket.h"

namespace mvm::guest {
namespace {

using proto::FilePlace;
using proto::WatchKind;

class Files : public testing::Test {
 protected:
  Files() : agent_(connect()) {}
  ~Files() override {
    agent_.close();
    if (child_ && !child_.wait(std::chrono::seconds(20))) child_.signal(SIGKILL);
    if (child_) child_.wait();
  }

  agent::Connection connect() {
    ::signal(SIGPIPE, SIG_IGN);
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    sys::SpawnOptions options;
    options.argv = {MVM_AGENT, "--serve-fd", "3"};
    options.fds = {{theirs.get(), 3}, {0, 0}, {1, 1}, {2, 2}};
    if (child_) child_.signal(SIGKILL);
    child_ = sys::spawn(options);
    return agent::Connection(std::move(ours));
  }

  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  FilePlace place(const std::string& name) const { return {"", path(name)}; }
  FilePlace inside(const std::string& name) const { return {directory_.path(), name}; }

  proto::WriteResult write(const proto::WriteRequest& request, std::string_view text) {
    ByteView rest = as_bytes(text);
    return agent::write_file(agent_, request, [&](size_t room) {
      const ByteView piece = rest.first(std::min(room, rest.size()));
      rest = rest.subspan(piece.size());
      return piece;
    });
  }
  std::string read(const proto::ReadRequest& request) {
    std::string text;
    agent::read_file(agent_, request, [&](ByteView piece) { text += as_text(piece); });
    return text;
  }
  std::string here(const std::string& name) const {
    return sys::read_text_file(path(name), 1 << 20);
  }
  void make(const std::string& name, std::string_view text, unsigned mode = 0644) const {
    sys::write_file_atomic(path(name), as_bytes(text), mode);
  }
  std::vector<std::string> names() const { return sys::list_directory(directory_.path()); }

  template <typename Body>
  static std::pair<Kind, std::string> error_of(Body body) {
    try {
      body();
    } catch (const Error& error) {
      return {error.kind(), error.message()};
    }
    return {Kind::Internal, "no error"};
  }
  template <typename Body>
  static Kind kind_of(Body body) {
    const auto [kind, message] = error_of(body);
    EXPECT_NE(message, "no error");
    return kind;
  }

  sys::TempDir directory_;
  sys::Child child_;
  agent::Connection agent_;
};

TEST_F(Files, AFileIsWrittenReadAndLookedAt) {
  EXPECT_EQ(write({.place = place("new")}, "content").bytes, 7U);
  EXPECT_EQ(read({.place = place("new")}), "content");
  EXPECT_EQ(read({.place = place("new"), .offset = 3, .length = 2}), "te");
  EXPECT_EQ(read({.place = place("new"), .offset = 100}), "");
  const auto status = agent::stat_file(agent_, {place("new"), false});
  EXPECT_EQ(status.type, proto::FileType::File);
  EXPECT_EQ(status.mode, 0644U);
  EXPECT_EQ(status.size, 7U);
  EXPECT_EQ(status.links, 1U);
}

TEST_F(Files, AReplacementKeepsTheModeAndLeavesOldReadersTheirContent) {
  make("file", "old", 0640);
  const sys::Fd old = sys::open_file(path("file"), O_RDONLY);
  write({.place = place("file")}, "new");
  EXPECT_EQ(here("file"), "new");
  EXPECT_EQ(sys::file_size(old.get()), 3U);
  std::array<std::byte, 3> kept{};
  sys::pread_exact(old.get(), kept, 0);
  EXPECT_EQ(as_text(kept), "old");
  EXPECT_EQ(agent::stat_file(agent_, {place("file"), false}).mode, 0640U);
  write({.place = place("file"), .mode = 0600}, "newer");
  EXPECT_EQ(agent::stat_file(agent_, {place("file"), false}).mode, 0600U);
}

TEST_F(Files, AReplacementTakesALinksPlaceAndNotItsTargets) {
  make("target", "untouched");
  ASSERT_EQ(::symlink(path("target").c_str(), path("link").c_str()), 0);
  write({.place = place("link")}, "new");
  EXPECT_EQ(here("target"), "untouched");
  EXPECT_EQ(agent::stat_file(agent_, {place("link"), false}).type, proto::FileType::File);
}

TEST_F(Files, AWriteThatIsGivenUpLeavesNothing) {
  make("file", "old");
  const auto give_up = [&](size_t) -> ByteView { throw Error(Kind::Timeout, "given up"); };
  EXPECT_EQ(kind_of([&] { agent::write_file(agent_, {.place = place("file")}, give_up); }),
            Kind::Timeout);
  child_.wait(std::chrono::seconds(20));  // it ends when its last connection has
  EXPECT_EQ(here("file"), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"file"});
}

TEST_F(Files, ContentBeyondItsLimitIsRefusedAndLeavesNothing) {
  EXPECT_EQ(write({.place = place("fits"), .limit = 5}, "12345").bytes, 5U);
  EXPECT_EQ(kind_of([&] { write({.place = place("file"), .limit = 5}, "123456"); }),
            Kind::Exhausted);
  EXPECT_EQ(names(), std::vector<std::string>{"fits"});
}

TEST_F(Files, OffsetsReachBeyondFourGibibytesAndLeaveHoles) {
  constexpr uint64_t kFar = uint64_t{5} << 30;
  EXPECT_EQ(write({.place = place("sparse"), .offset = kFar}, "end").bytes, 3U);
  write({.place = place("sparse"), .offset = 0}, "begin");
  write({.place = place("sparse"), .append = true}, "+");
  const auto status = agent::stat_file(agent_, {place("sparse"), false});
  EXPECT_EQ(status.size, kFar + 4);
  EXPECT_LT(status.allocated, 1U << 20);
  EXPECT_EQ(read({.place = place("sparse"), .offset = kFar - 2}), std::string("\0\0end+", 6));
  EXPECT_EQ(read({.place = place("sparse"), .offset = 0, .length = 5}), "begin");
}

TEST_F(Files, ZerosOfANewFileBecomeHoles) {
  const std::string text = "x" + std::string(512 * 1024, '\0');
  write({.place = place("file")}, text);
  EXPECT_EQ(here("file"), text);
  const auto status = agent::stat_file(agent_, {place("file"), false});
  EXPECT_LT(status.allocated, text.size() / 2);
}

TEST_F(Files, NewRefusesWhatExists) {
  make("file", "old");
  EXPECT_EQ(kind_of([&] { write({.place = place("file"), .exclusive = true}, "new"); }),
            Kind::Conflict);
  EXPECT_EQ(here("file"), "old");
}

TEST_F(Files, WhatIsNoFileIsNeitherReadNorReplaced) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir(path("directory").c_str(), 0700), 0);
  for (const char* name : {"pipe", "directory"}) {
    EXPECT_EQ(kind_of([&] { read({.place = place(name)}); }), Kind::Invalid);
    agent_ = connect();
    EXPECT_EQ(kind_of([&] { write({.place = place(name)}, "x"); }), Kind::Conflict);
    agent_ = connect();
  }
  EXPECT_EQ(kind_of([&] { read({.place = place("nothing")}); }), Kind::NotFound);
}

TEST_F(Files, AHugeDirectoryComesInPieces) {
  constexpr size_t kCount = 5000;
  for (size_t i = 0; i < kCount; ++i)
    sys::Fd(::open(path("f" + std::to_string(i)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  std::set<std::string> seen;
  const auto all = agent::list_files(
      agent_, {place("."), 0}, [&](const proto::ListEntry& entry) { seen.insert(entry.name); });
  EXPECT_EQ(seen.size(), kCount);
  EXPECT_EQ(all.entries, kCount);
  EXPECT_FALSE(all.truncated);
  const auto some = agent::list_files(agent_, {place("."), 10}, [](const proto::ListEntry&) {});
  EXPECT_EQ(some.entries, 10U);
  EXPECT_TRUE(some.truncated);
}

TEST_F(Files, DirectoriesAreMadeMovedAndRemoved) {
  agent::make_directory(agent_, {.place = place("a/b/c"), .mode = 0750, .parents = true});
  agent::make_directory(agent_, {.place = place("a/b/c"), .parents = true});
  EXPECT_EQ(agent::stat_file(agent_, {place("a/b/c"), false}).mode, 0750U);
  EXPECT_EQ(kind_of([&] { agent::make_directory(agent_, {.place = place("a")}); }), Kind::Conflict);
  make("a/file", "1");
  make("a/other", "2");
  agent::rename_file(agent_, {place("a/file"), path("a/b/moved")});
  EXPECT_EQ(here("a/b/moved"), "1");
  EXPECT_EQ(
      kind_of([&] { agent::rename_file(agent_, {place("a/other"), path("a/b/moved"), true}); }),
      Kind::Conflict);
  EXPECT_EQ(kind_of([&] { agent::remove_file(agent_, {place("a"), false}); }), Kind::Conflict);
  EXPECT_EQ(agent::remove_file(agent_, {place("a"), true}).entries, 5U);
  EXPECT_TRUE(names().empty());
}

TEST_F(Files, RemovingATreeFollowsNoLink) {
  const sys::TempDir elsewhere;
  sys::write_file_atomic(elsewhere.path() + "/kept", as_bytes("kept"));
  agent::make_directory(agent_, {.place = place("tree")});
  ASSERT_EQ(::symlink(elsewhere.path().c_str(), path("tree/link").c_str()), 0);
  for (int i = 0; i < 1000; ++i) make("tree/f" + std::to_string(i), "");
  EXPECT_EQ(agent::remove_file(agent_, {place("tree"), true}).entries, 1002U);
  EXPECT_EQ(sys::list_directory(elsewhere.path()), std::vector<std::string>{"kept"});
}

TEST_F(Files, NothingLeadsOutOfTheRoot) {
  const sys::TempDir elsewhere;
  sys::write_file_atomic(elsewhere.path() + "/secret", as_bytes("secret"));
  ASSERT_EQ(::symlink(elsewhere.path().c_str(), path("out").c_str()), 0);
  ASSERT_EQ(::symlink("..", path("up").c_str()), 0);
  make("file", "mine");
  EXPECT_EQ(read({.place = inside("file")}), "mine");
  const std::string relative = "../" + elsewhere.path().substr(elsewhere.path().rfind('/') + 1);
  for (const std::string& way : {std::string("out"), relative, "up/" + relative.substr(3)}) {
    const auto tries = std::to_array<std::function<void()>>(
        {[&] { read({.place = inside(way + "/secret")}); },
         [&] { write({.place = inside(way + "/new")}, "x"); },
         [&] { write({.place = inside(way + "/secret"), .offset = 0}, "x"); },
         [&] { agent::list_files(agent_, {inside(way + "/."), 0}, [](const auto&) {}); },
         [&] { agent::make_directory(agent_, {.place = inside(way + "/new")}); },
         [&] { agent::rename_file(agent_, {inside("file"), way + "/stolen"}); },
         [&] { agent::rename_file(agent_, {inside(way + "/secret"), "stolen"}); },
         [&] { agent::remove_file(agent_, {inside(way + "/secret"), true}); },
         [&] { agent::stat_file(agent_, {inside(way + "/secret"), true}); },
         [&] {
           agent::watch_files(agent_, {inside(way + "/.")}, [](const auto&) { return false; });
         }});
    for (const auto& attempt : tries) {
      EXPECT_EQ(kind_of(attempt), Kind::Denied) << way;
      agent_ = connect();
    }
  }
  EXPECT_EQ(sys::list_directory(elsewhere.path()), std::vector<std::string>{"secret"});
}

TEST_F(Files, MagicLinksAreNeverFollowed) {
  EXPECT_EQ(kind_of([&] { read({.place = {"", "/proc/self/root/etc/hostname"}}); }), Kind::Denied);
  agent_ = connect();
  EXPECT_NE(error_of([&] {
              agent::list_files(agent_, {{"", "/proc/self/cwd/"}, 0}, [](auto&) {});
            }).second,
            "no error");
}

TEST_F(Files, ARaceDoesNotLeadOutOfTheRoot) {
  const sys::TempDir elsewhere;
  sys::write_file_atomic(elsewhere.path() + "/file", as_bytes("secret"));
  agent::make_directory(agent_, {.place = place("real")});
  make("real/file", "mine");
  ASSERT_EQ(::symlink(elsewhere.path().c_str(), path("link").c_str()), 0);
  std::atomic<bool> stop = false;
  std::thread swapper([&] {
    while (!stop)
      ::renameat2(AT_FDCWD, path("real").c_str(), AT_FDCWD, path("link").c_str(), RENAME_EXCHANGE);
  });
  int seen = 0;
  for (int i = 0; i < 300; ++i) {
    try {
      const std::string text = read({.place = inside("real/file")});
      EXPECT_EQ(text, "mine");
      ++seen;
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), Kind::Internal) << error.message();
      agent_ = connect();
    }
  }
  stop = true;
  swapper.join();
  EXPECT_GT(seen, 0);
}

TEST_F(Files, AWatchSeesWhatHappensAndEndsWithItsDirectory) {
  agent::make_directory(agent_, {.place = place("watched")});
  std::vector<std::pair<WatchKind, std::string>> seen;
  agent::watch_files(agent_, {place("watched")}, [&](const proto::WatchEvent& event) {
    if (event.kind == WatchKind::Ready) {
      sys::Fd(::open(path("watched/f").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
      sys::rename_file(path("watched/f"), path("watched/g"));
      sys::remove_file(path("watched/g"));
      ::rmdir(path("watched").c_str());
    }
    seen.emplace_back(event.kind, event.name);
    return true;
  });
  const std::vector<std::pair<WatchKind, std::string>> expected{
      {WatchKind::Ready, ""},      {WatchKind::Created, "f"}, {WatchKind::Closed, "f"},
      {WatchKind::MovedFrom, "f"}, {WatchKind::MovedTo, "g"}, {WatchKind::Removed, "g"},
      {WatchKind::Gone, ""}};
  EXPECT_EQ(seen, expected);
}

TEST_F(Files, AWatchIsOfOneDirectoryAndNotOfThoseBelow) {
  agent::make_directory(agent_, {.place = place("above")});
  agent::make_directory(agent_, {.place = place("above/below")});
  std::vector<std::pair<WatchKind, std::string>> seen;
  agent::watch_files(agent_, {place("above")}, [&](const proto::WatchEvent& event) {
    if (event.kind == WatchKind::Ready) {
      sys::Fd(::open(path("above/below/f").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
      sys::make_directories(path("above/new"));
    }
    seen.emplace_back(event.kind, event.name);
    return event.kind != WatchKind::Created;
  });
  const std::vector<std::pair<WatchKind, std::string>> expected{{WatchKind::Ready, ""},
                                                                {WatchKind::Created, "new"}};
  EXPECT_EQ(seen, expected);
}

TEST_F(Files, AWatchThatIsNotReadSaysThatItLostEvents) {
  bool overflowed = false;
  agent::watch_files(agent_, {place(".")}, [&](const proto::WatchEvent& event) {
    if (event.kind == WatchKind::Ready)
      for (int i = 0; i < 15000; ++i) {
        sys::Fd(::open(path("f").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        sys::remove_file(path("f"));
      }
    overflowed = event.kind == WatchKind::Overflow;
    return !overflowed;
  });
  EXPECT_TRUE(overflowed);
}

}
}
