// What the command line does when the system lets it down: each command that does its work itself
// runs again and again, and each time another one of its system calls fails. It says so in one line
// and leaves nothing half done. (MVM_FAULTS and MVM_FAULT_SEED: sample.h.)
#include "mvm/cli/cli.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/agent/copy.h"
#include "mvm/image/import.h"
#include "mvm/store/images.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"
#include "mvm/sys/socket.h"

#include "sample.h"
#include "seam.h"

namespace mvm::faults {

static constexpr int kPlanFd = 3;
static constexpr int kAgentFd = 4;

// ---- the command, in a process of its own -------------------------------------------------------

// `mvm cp`, once it has found the sandbox.
static int copy(const std::vector<std::string>& words) {
  try {
    agent::Connection connection{sys::Fd(kAgentFd)};
    if (words.at(0) == "put")
      agent::put(connection, words.at(1), words.at(2), {});
    else
      agent::get(connection, words.at(1), words.at(2), {});
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "mvm: %s\n", error.message().c_str());
    return 125;
  }
}

static int run_command(int argc, char** argv) {
  Plan& plan = map_plan(kPlanFd);
  watch_calls(plan);
  if (plan.error != EINTR) watch_database();
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words[0] == "put" || words[0] == "get") return copy(words);
  return cli::run_cli(argc, argv, {"test", [](int) { return 2; }});
}

// ---- and whoever gives it -----------------------------------------------------------------------

class Desk {
 public:
  Desk() : plan_fd_(sys::memory_file("plan", sizeof(Plan))), plan_(&map_plan(plan_fd_.get())) {
    const store::Paths paths(in("run"), in("data"));
    paths.ensure_runtime();
    paths.ensure_data();
    sys::make_directories(in("work"));
    sys::make_directories(in("root/etc"), 0755);
    sys::write_file_atomic(in("root/etc/hostname"), as_bytes("x\n"), 0644);
    sys::check(::symlink("etc/hostname", in("root/link").c_str()), "making a link");
    store::Images images(paths);
    image::import_image(images, in("root"), store::parse_image_name("web"));
  }

  struct Outcome {
    int code = 0;
    std::string err;
    bool happened = false;
  };
  Outcome run(const std::vector<std::string>& words, std::string_view input, int n, int error) {
    const sys::Fd err = sys::memory_file("err", 0);
    const sys::Fd out = sys::memory_file("out", 0);
    const sys::Fd given = sys::memory_file("in", 0);
    sys::pwrite_all(given.get(), as_bytes(input), 0);
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    const sys::Child agent = serve(std::move(theirs));
    plan_->victim = 0;
    plan_->error = error;
    plan_->countdown = n;
    sys::SpawnOptions options;
    options.argv = {sys::own_executable()};
    options.argv.insert(options.argv.end(), words.begin(), words.end());
    options.env = {"PATH=/usr/bin:/bin", "MVM_RUNTIME_DIR=" + in("run"),
                   "MVM_DATA_DIR=" + in("data"), "MVM_TEST_COMMAND=1", "HOME=" + in("work")};
    options.directory = in("work");
    options.fds = {{given.get(), 0},
                   {out.get(), 1},
                   {err.get(), 2},
                   {plan_fd_.get(), kPlanFd},
                   {ours.get(), kAgentFd}};
    sys::Child command = sys::spawn(options);
    ours.reset();
    const sys::ExitStatus status = command.wait().value();
    Outcome outcome;
    outcome.happened = plan_->countdown.exchange(0) <= 0;
    outcome.code = status.signal != 0 ? -status.signal : status.code;
    outcome.err.resize(sys::file_size(err.get()));
    sys::pread_exact(err.get(), std::as_writable_bytes(std::span(outcome.err)), 0);
    sys::Child(agent.pid(), sys::Fd(::fcntl(agent.pidfd(), F_DUPFD_CLOEXEC, 0))).wait();
    return outcome;
  }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  // Files that nobody would look for.
  std::string left_over() const {
    std::string out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename();
      for (const char* mark : {".part-", ".new-", ".mvm-", ".tmp-"})
        if (name.find(mark) != std::string::npos) out += entry.path().string() + "\n";
    }
    return out;
  }

 private:
  static sys::Child serve(sys::Fd socket) {
    sys::SpawnOptions options;
    options.argv = {MVM_AGENT, "--serve-fd", "3"};
    options.env = {"PATH=/usr/bin:/bin"};
    options.fds = {{socket.get(), 3}, {0, 0}, {1, 1}, {2, 2}};
    options.die_with_parent = true;
    return sys::spawn(options);
  }

  sys::TempDir folder_;
  sys::Fd plan_fd_;
  Plan* plan_;
};

struct Command {
  std::vector<std::string> words;
  std::string made;  // in the working directory, by the command; removed after it
  std::string input = "";
};

static std::vector<Command> commands(const Desk& desk) {
  return {
      {{"init", "web"}, "mvm.toml"},
      {{"image", "export", "web", "a.tar", "-q"}, "a.tar"},
      {{"image", "export", "--format", "oci-archive", "web", "a.oci", "-q"}, "a.oci"},
      {{"image", "export", "--format", "oci", "web", "layout", "-q"}, "layout"},
      {{"secret", "set", "API_KEY"}, "", "a value that is long enough\n"},
      {{"secret", "ls"}, ""},
      {{"secret", "rm", "API_KEY"}, ""},
      {{"put", desk.in("root"), desk.in("work/there")}, "there"},
      {{"get", desk.in("root"), desk.in("work/here")}, "here"},
  };
}

class CliFaults : public testing::TestWithParam<int> {};

TEST_P(CliFaults, OfOneCallAreOneErrorAndLeaveNothingHalfDone) {
  const int error = GetParam();
  Desk desk;
  Sample sample(kSlow ? 40 : 7);
  int fired = 0;
  for (const Command& command : commands(desk)) {
    for (int n = sample.first();; n += sample.step()) {
      std::string shown;
      for (const std::string& word : command.words) shown += word + " ";
      SCOPED_TRACE(shown + "- call " + std::to_string(n) + ": " + sys::errno_text(error));
      if (command.words[1] == "rm") {
        const std::string value = "a value that is long enough\n";
        ASSERT_EQ(desk.run({"secret", "set", "API_KEY"}, value, 0, error).code, 0);
      }
      const auto outcome = desk.run(command.words, command.input, n, error);
      EXPECT_TRUE(outcome.code == 0 || outcome.code == 125) << outcome.code << outcome.err;
      if (!outcome.happened || error == EINTR) {
        EXPECT_EQ(outcome.code, 0) << outcome.err;
      }
      if (outcome.code != 0) {
        EXPECT_TRUE(outcome.err.starts_with("mvm: ")) << outcome.err;
        EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
      }
      EXPECT_EQ(desk.left_over(), "") << outcome.err;
      if (!command.made.empty()) {
        const std::string made = desk.in("work/" + command.made);
        EXPECT_TRUE(outcome.code != 0 || sys::exists(made));
        sys::remove_tree(made);
      }
      if (!outcome.happened) break;
      ++fired;
    }
  }
  std::printf("%d calls failed with: %s\n", fired, sys::errno_text(error).c_str());
  EXPECT_GT(fired, 0);
}

INSTANTIATE_TEST_SUITE_P(Every, CliFaults, testing::Values(ENOSPC, EMFILE, ENOMEM, EINTR),
                         error_name);

}

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  if (std::getenv("MVM_TEST_COMMAND") != nullptr) return mvm::faults::run_command(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
