// Whatever stands at a path that the daemon makes or opens, no other file is touched by way of it:
// the daemon replaces what stands there, or refuses.
#include "../../support/plants.h"

#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "mvm/api/client.h"
#include "mvm/audit/log.h"
#include "mvm/daemon/daemon.h"
#include "mvm/image/import.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

namespace mvm::daemon {

class DaemonPlants : public testing::Test {
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
    store::Images images(paths_);
    digest_ = image::import_image(images, root, store::parse_image_name("base")).image.digest;
  }

  // The daemon's life around `body`. Throws Error when it refuses to start.
  void with_daemon(const std::function<void(api::Client&)>& body) {
    DaemonOptions options{.paths = paths_,
                          .agent = as_bytes("no agent"),
                          .sandbox_executable = sys::own_executable(),
                          .version = "test",
                          .idle = std::chrono::milliseconds(0),
                          .log = obs::Log(2, obs::Level::Error)};
    options.margin = std::chrono::seconds(2);
    Daemon daemon(std::move(options));
    std::thread thread([&] { daemon.run(); });
    {
      auto client = api::Client::connect(paths_.daemon_socket());
      EXPECT_TRUE(client);
      if (client) body(*client);
    }
    daemon.stop();
    thread.join();
  }

  static api::SandboxSpec spec() {
    api::SandboxSpec spec;
    spec.name = "web";
    spec.image = "base";
    spec.memory = api::kMinMemory;
    spec.disk = api::kMinDisk;
    spec.kept_disk = {"store", "/nix", api::kMinDisk};
    return spec;
  }

  const sys::TempDir temporary_;
  const store::Paths paths_{temporary_.path() + "/run", temporary_.path() + "/data"};
  std::string digest_;
};

TEST_F(DaemonPlants, AtItsStart) {
  const std::vector<std::string> files = {
      paths_.daemon_lock(),
      paths_.daemon_socket(),
      paths_.state_db(),
      paths_.state_db() + "-wal",
      paths_.state_db() + "-shm",
      paths_.state_db() + ".lock",
      paths_.image_index(),
      paths_.image_index() + "-wal",
      paths_.image_names(),
      paths_.runtime(),
      paths_.sandboxes_runtime(),
      paths_.sandboxes_dir(),
      paths_.images_dir() + "/.tmp-planted",
      paths_.state_db() + ".key",
      paths_.image_settings(),
      paths_.registries_file(),
      paths_.blobs_dir(),
      paths_.blobs_dir() + "/.part-planted",
      paths_.kernels_dir(),
      paths_.kernels_dir() + "/plain",
      paths_.kernels_dir() + "/plain/bundle.json",
      paths_.audit_dir(),
      paths_.audit_dir() + "/key",
      paths_.audit_public_key(),
      paths_.audit_log("daemon"),
      paths_.audit_log("daemon") + "/" + audit::file_name(1),
      paths_.audit_log("daemon") + "/" + audit::file_name(1000),
      paths_.audit_log("sb-planted"),
      paths_.audit_log("sb-removed") + "/" + audit::file_name(1),
      paths_.data(),
      paths_.overlays_dir(),
      paths_.disks_dir(),
      paths_.initramfs_dir(),
      paths_.sandboxes_dir() + "/sb-planted",
      paths_.sandboxes_runtime() + "/planted",
  };
  const auto start = [&] { with_daemon([](api::Client&) {}); };
  start();
  sys::make_directories(paths_.audit_log("sb-removed"));
  for (const std::string& path : files) test::with_each_plant(path, start);
  start();  // when all is as it was
}

TEST_F(DaemonPlants, WhereASandboxStarts) {
  with_daemon([&](api::Client& client) {
    const std::string id = client.create(spec()).id;
    client.stop("web", {.grace_ms = 1, .kill = true});
    const auto start = [&] {
      client.start("web", {.wait = true, .boot_timeout_ms = 10'000});
      client.stop("web", {.grace_ms = 1, .kill = true});
    };
    std::vector<std::string> files = {
        paths_.overlay_image(id),
        paths_.overlay_image(id) + ".new",
        paths_.kept_disk("store"),
        paths_.kept_disk("store") + ".new-",
        paths_.console_log(id),
        paths_.exit_file(id),
        paths_.sandbox_data(id),
        paths_.sandbox_runtime("web"),
        paths_.images_dir() + "/" + digest_ + "/root.erofs",
        paths_.images_dir() + "/" + digest_ + "/manifest.json",
        paths_.images_dir() + "/" + digest_,
        paths_.audit_log(id),
        paths_.audit_log(id) + "/" + audit::file_name(1),
        paths_.audit_log(id) + "/" + audit::file_name(1000),
        paths_.kernels_dir() + "/plain/vmlinux",
    };
    for (const std::string& name : sys::list_directory(paths_.initramfs_dir()))
      files.push_back(paths_.initramfs_dir() + "/" + name);
    for (const std::string& path : files) test::with_each_plant(path, start);
    start();  // when all is as it was
  });
}

TEST_F(DaemonPlants, TemplateOfTheDisk) {
  with_daemon([&](api::Client& client) {
    client.create(spec());
    client.remove("web", true);
    for (const std::string& name : sys::list_directory(paths_.overlays_dir())) {
      for (const test::Plant plant : test::kPlants) {
        SCOPED_TRACE(name + ": " + test::plant_name(plant));
        const test::Victim victim;
        test::put(plant, paths_.overlays_dir() + "/" + name, victim);
        try {
          const auto made = client.create(spec());
          // Made from a template of our own, not from what was planted.
          EXPECT_GE(sys::file_size(sys::open_file(paths_.overlay_image(made.id), O_RDONLY).get()),
                    api::kMinDisk);
          client.remove("web", true);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), Kind::Denied) << error.message();
        }
        EXPECT_TRUE(victim.untouched());
        sys::remove_tree(paths_.overlays_dir() + "/" + name);
      }
    }
  });
}

}
