#pragma once
// A daemon with real processes, sockets and SQLite; only the machine behind a sandbox is not there
// (fake_sandbox.h).

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "mvm/api/client.h"
#include "mvm/daemon/daemon.h"
#include "mvm/image/import.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

namespace mvm::daemon {

using api::SandboxState;
using std::chrono::milliseconds;

// One daemon on a thread, as the role runs it.
class Running {
 public:
  explicit Running(DaemonOptions options)
      : daemon_(std::move(options)), thread_([this] { daemon_.run(); }) {}
  ~Running() {
    daemon_.stop();
    if (thread_.joinable()) thread_.join();
  }
  void join() { thread_.join(); }

 private:
  Daemon daemon_;
  std::thread thread_;
};

class DaemonTest : public testing::Test {
 protected:
  void SetUp() override {
    paths_.ensure_runtime();
    paths_.ensure_data();
    const std::string kernel = paths_.kernels_dir() + "/plain";
    sys::make_directories(kernel);
    sys::write_file_atomic(kernel + "/vmlinux", as_bytes("no kernel, nobody boots it"));
    sys::write_file_atomic(kernel + "/bundle.json",
                           as_bytes(R"({"name": "plain", "image": "vmlinux", "modules": []})"));
    const std::string root = temporary_.path() + "/root";
    sys::make_directories(root + "/etc", 0755);
    sys::write_file_atomic(root + "/etc/hostname", as_bytes("x\n"));
    store::Images images(paths_);
    image::import_image(images, root, store::parse_image_name("base"));
  }

  // The image "checked": base with a check of its health.
  void import_checked() {
    image::ImportOptions options;
    options.config.health = proto::HealthCheck{{"/bin/image-check"}};
    store::Images images(paths_);
    image::import_image(images, temporary_.path() + "/root", store::parse_image_name("checked"),
                        options);
  }

  void TearDown() override {
    // What a failed test left running.
    if (!sys::exists(paths_.daemon_socket())) start();
    auto remaining = client();
    for (const auto& sandbox : remaining->sandboxes(true)) remaining->remove(sandbox.name, true);
    daemon_.reset();
  }

  DaemonOptions options(milliseconds idle = milliseconds(0)) const {
    return {.paths = paths_,
            .agent = as_bytes("no agent"),
            .sandbox_executable = sys::own_executable(),
            .version = "test",
            .idle = idle,
            .log = obs::Log(2, obs::Level::Error)};
  }
  void start() { daemon_ = std::make_unique<Running>(options()); }
  // For sandboxes that will use up all the time they are given.
  void start_impatient() {
    auto impatient = options();
    impatient.margin = milliseconds(200);
    daemon_ = std::make_unique<Running>(std::move(impatient));
  }
  void restart() {
    daemon_.reset();
    start();
  }
  std::unique_ptr<api::Client> client() const {
    auto client = api::Client::connect(paths_.daemon_socket());
    if (!client) throw Error(Kind::Unavailable, "no daemon");
    return client;
  }
  static api::SandboxSpec spec(const std::string& name, const std::string& manner = "") {
    api::SandboxSpec spec;
    spec.name = name;
    spec.image = "base";
    spec.memory = api::kMinMemory;
    spec.disk = api::kMinDisk;
    if (!manner.empty()) spec.env["FAKE"] = manner;
    return spec;
  }
  // Until the sandbox is as `expected`, by asking; the daemon has no push.
  template <typename Done>
  bool eventually(Done done) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      if (done()) return true;
      std::this_thread::yield();
    }
    return false;
  }
  bool reaches(const std::string& name, SandboxState state) const {
    return eventually([&] { return client()->sandbox(name).state == state; });
  }
  template <typename Call>
  static Error error_of(Call call) {
    try {
      call();
    } catch (const Error& error) {
      return error;
    }
    return {Kind::Internal, "no error at all"};
  }

  sys::TempDir temporary_;
  store::Paths paths_{temporary_.path() + "/run", temporary_.path() + "/data"};
  std::unique_ptr<Running> daemon_;
};

}
