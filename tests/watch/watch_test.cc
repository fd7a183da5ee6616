// `mvm build --watch` from end to end: the program, a daemon, flakes that Nix builds. Of all that
// happens on a host, the builder's machine alone is stood in for.

#include <csignal>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/api/client.h"
#include "mvm/daemon/daemon.h"
#include "mvm/image/import.h"
#include "mvm/store/images.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"
#include "mvm/sys/socket.h"

#include "stand_in.h"
#include "unit/build/native.h"
#include "unit/image/erofs_reader.h"

namespace mvm::watch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr seconds kPatience{120};  // of one build, on a machine that does much else

// `mvm` with these words in a folder; what it prints, both streams in one.
class Program {
 public:
  Program(const store::Paths& paths, const std::string& folder, std::vector<std::string> words) {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    sys::SpawnOptions options;
    options.argv = std::move(words);
    options.argv.insert(options.argv.begin(), MVM_PROGRAM);
    options.env = {"PATH=/usr/bin:/bin", "HOME=" + folder, "MVM_RUNTIME_DIR=" + paths.runtime(),
                   "MVM_DATA_DIR=" + paths.data()};
    options.directory = folder;
    const sys::Fd nothing = sys::open_file("/dev/null", O_RDONLY);
    options.fds = {{nothing.get(), 0}, {theirs.get(), 1}, {theirs.get(), 2}};
    options.die_with_parent = true;
    child_ = sys::spawn(options);
    out_ = std::move(ours);
  }
  ~Program() {
    if (!child_) return;
    child_.signal(SIGKILL);
    child_.wait();
  }

  // The next line that holds `part`; what came instead, where it does not come.
  std::string line_with(const std::string& part) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      for (size_t end = text_.find('\n', read_); end != text_.npos; end = text_.find('\n', read_)) {
        const std::string line = text_.substr(read_, end - read_);
        read_ = end + 1;
        if (line.find(part) != line.npos) return line;
      }
      const auto left =
          std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd entry{out_.get(), POLLIN, 0};
      if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) <= 0)
        return "not in time: " + text_;
      std::array<std::byte, 4096> piece{};
      const auto got = sys::read_some(out_.get(), piece);
      if (!got || *got == 0) return "it ended: " + text_;
      text_ += as_text(ByteView(piece).first(*got));
    }
  }
  // Its exit code after this signal.
  int ended_by(int signal) {
    child_.signal(signal);
    const auto status = child_.wait(kPatience);
    if (!status) return -1;
    child_ = {};
    return status->signal == 0 ? status->code : -status->signal;
  }

 private:
  sys::Child child_;
  sys::Fd out_;
  std::string text_;
  size_t read_ = 0;
};

class BuildWatch : public testing::Test {
 protected:
  void SetUp() override {
    paths_.ensure_runtime();
    paths_.ensure_data();
    const std::string kernel = paths_.kernels_dir() + "/plain";
    sys::make_directories(kernel);
    sys::write_file_atomic(kernel + "/vmlinux", as_bytes("no kernel, nobody boots it"));
    sys::write_file_atomic(kernel + "/bundle.json",
                           as_bytes(R"({"name": "plain", "image": "vmlinux", "modules": []})"));
    sys::write_file_atomic(paths_.data() + "/" + kRootFile, as_bytes(build::builder_root()));
    const std::string root = base_.path() + "/root";
    sys::make_directories(root + "/etc", 0755);
    store::Images images(paths_);
    image::import_image(images, root, store::parse_image_name("mvm-builder"));

    sys::make_directories(flake_, 0755);
    build::run_program({"cp", build::stand_in_folder() + "/bin/bash-static", flake_ + "/sh"});
    build::run_program({"cp", build::stand_in_folder() + "/bin/busybox", flake_ + "/box"});
    write("mvm.toml",
          "name = \"made\"\n[builder]\nnetwork = \"none\"\nmem = \"1G\"\ndisk = \"1G\"\n");
    daemon_.emplace(daemon::DaemonOptions{.paths = paths_,
                                          .agent = as_bytes("no agent"),
                                          .sandbox_executable = sys::own_executable(),
                                          .version = "test",
                                          .idle = milliseconds(0),
                                          .log = obs::Log(2, obs::Level::Error)});
    thread_ = std::thread([this] { daemon_->run(); });
  }
  void TearDown() override {
    auto client = api::Client::connect(paths_.daemon_socket());
    for (const auto& sandbox : client->sandboxes(true)) client->remove(sandbox.name, true);
    daemon_->stop();
    thread_.join();
    // What Nix made is read-only.
    build::run_program({"chmod", "-R", "u+w", base_.path()});
  }

  void write(const std::string& name, const std::string& text) {
    sys::write_file_atomic(flake_ + "/" + name, as_bytes(text), 0644);
  }
  // A guest whose root file system this script makes, in $out.
  void flake(const std::string& script) {
    write("flake.nix", R"({
  outputs = { self }: {
    packages.x86_64-linux.default =
      let
        made = name: script: derivation {
          inherit name; system = "x86_64-linux"; builder = ./sh;
          args = [ "-euc" "box() { (exec -a busybox ${./box} \"$@\"); }\n${script}" ];
        };
        root = made "root" ''
          box mkdir $out
          )" + script + R"(
        '';
      in made "guest" ''
        box mkdir $out
        echo '{"mvm":1,"name":"guest","root":"${root}"}' >$out/image.json
      '';
  };
}
)");
  }
  std::string motd() {
    const image::ErofsReader image(store::Images(paths_).get("made").root);
    return image.at("motd").content;
  }

  sys::TempDir base_;
  store::Paths paths_{base_.path() + "/run", base_.path() + "/data"};
  std::string flake_ = base_.path() + "/flake";
  std::optional<daemon::Daemon> daemon_;
  std::thread thread_;
};

TEST_F(BuildWatch, BuildsAgainWhatHasChangedAndEndsByAnInterrupt) {
  flake("box cp ${./motd} $out/motd");
  write("motd", "first");
  Program mvm(paths_, flake_, {"build", "--watch"});
  EXPECT_THAT(mvm.line_with("image made: "), HasSubstr(" KiB, "));
  EXPECT_EQ(motd(), "first");
  write("motd", "second");
  EXPECT_THAT(mvm.line_with("image made: "), HasSubstr(" KiB, "));
  EXPECT_EQ(motd(), "second");
  EXPECT_EQ(mvm.ended_by(SIGINT), 130);
}

TEST_F(BuildWatch, TellsOfAMistakeAndBuildsWhenItIsMended) {
  flake("this is no command");
  Program mvm(paths_, flake_, {"build", "--watch"});
  EXPECT_THAT(mvm.line_with("mvm: "), HasSubstr("flake: a derivation failed to build"));
  write("flake.nix", "{ outputs = ");
  EXPECT_THAT(mvm.line_with("syntax error"), testing::StartsWith("error: syntax error"));
  flake("echo mended >$out/motd");
  EXPECT_THAT(mvm.line_with("image made: "), HasSubstr(" KiB, "));
  EXPECT_EQ(motd(), "mended\n");
  EXPECT_EQ(mvm.ended_by(SIGTERM), 143);
}

TEST_F(BuildWatch, AnInterruptEndsTheBuildInsideToo) {
  flake("echo it has begun >&2; while :; do box sleep 1; done");
  Program mvm(paths_, flake_, {"build", "--watch", "-v"});
  EXPECT_THAT(mvm.line_with("it has begun"), HasSubstr("it has begun"));
  EXPECT_EQ(mvm.ended_by(SIGINT), 130);
  // The next build finds the builder free, and builds.
  flake("echo next >$out/motd");
  Program next(paths_, flake_, {"build"});
  EXPECT_THAT(next.line_with("image made: "), HasSubstr(" KiB, "));
  EXPECT_EQ(motd(), "next\n");
}

}
}
