#include "world.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mvm/image/export.h"
#include "mvm/image/import.h"
#include "mvm/store/images.h"
#include "mvm/sys/error.h"

namespace mvm::faults {

// From before any test moves to another mount namespace.
static const std::string kExecutable = sys::own_executable();

// Until it holds, or long enough that it never will.
template <typename Done>
static bool eventually(Done done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

World::World()
    : plan_fd_(sys::memory_file("plan", sizeof(Plan))), plan_(&map_plan(plan_fd_.get())) {
  // Sandboxes whose daemon was killed become our children: none can hide.
  sys::check(::prctl(PR_SET_CHILD_SUBREAPER, 1), "becoming a subreaper");
  paths_.ensure_runtime();
  paths_.ensure_data();
  const std::string kernel = paths_.kernels_dir() + "/plain";
  sys::make_directories(kernel);
  sys::write_file_atomic(kernel + "/vmlinux", as_bytes("no kernel, nobody boots it"));
  sys::write_file_atomic(kernel + "/bundle.json",
                         as_bytes(R"({"name": "plain", "image": "vmlinux", "modules": []})"));
  const std::string root = folder() + "/root";
  sys::make_directories(root + "/etc", 0755);
  sys::write_file_atomic(root + "/etc/hostname", as_bytes("x\n"));
  store::Images images(paths_);
  const auto base = image::import_image(images, root, store::parse_image_name("base"));
  // The same as other sources: an OCI layout, and what a sandbox prints.
  sys::make_directories(folder() + "/layout");
  image::export_oci_layout(base.image, folder() + "/layout", {});
  const sys::Fd tar = sys::open_file(folder() + "/root.tar", O_WRONLY | O_CREAT);
  image::export_tar(base.image, tar.get(), {});
}

World::~World() {
  kill_daemon();
  for (const pid_t pid : sandbox_processes()) ::kill(pid, SIGKILL);
  eventually([this] {
    reap();
    return sandbox_processes().empty();
  });
}

bool World::start() {
  const sys::Fd log = sys::open_file(folder() + "/log", O_WRONLY | O_CREAT | O_TRUNC);
  const sys::Fd nothing = sys::open_file("/dev/null", O_RDWR);
  sys::SpawnOptions options;
  options.argv = {kExecutable, "daemon", paths_.runtime(), paths_.data()};
  options.env = {"PATH=/usr/bin:/bin"};
  options.fds = {{nothing.get(), 0}, {nothing.get(), 1}, {log.get(), 2}, {plan_fd_.get(), 3}};
  daemon_ = sys::spawn(options);
  return eventually([this] { return !daemon_lives() || answers(); }) && daemon_lives();
}

// To connect is not enough: a start may fail after it has begun to listen.
bool World::answers() const {
  try {
    const auto connection = client();
    return connection && connection->version().pid == daemon_.pid();
  } catch (const Error&) {
    return false;
  }
}

void World::kill_daemon() {
  if (!daemon_) return;
  daemon_.signal(SIGKILL);
  daemon_.wait();
}

bool World::daemon_lives() { return daemon_ && !daemon_.wait(std::chrono::milliseconds(0)); }

std::string World::last_words() const {
  return sys::read_text_file(folder() + "/log", size_t{1} << 20);
}

std::unique_ptr<api::Client> World::client() const {
  return api::Client::connect(paths_.daemon_socket());
}

void World::arm(int n, int error) {
  plan_->calls = 0;
  plan_->error = error;
  plan_->victim = daemon_lives() ? daemon_.pid() : 0;
  plan_->countdown = n;
}

bool World::disarm() {
  // Not by a mark that the call makes: it may be on its way between the two.
  return plan_->countdown.exchange(0) <= 0;
}

void World::reap() {
  siginfo_t info{};
  // The daemon is waited for by its own descriptor.
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
         info.si_pid != daemon_.pid()) {
    ::waitpid(info.si_pid, nullptr, 0);
    info = {};
  }
}

// Children of the daemon and of ours that run our program as a sandbox.
std::set<pid_t> World::sandbox_processes() const {
  std::set<pid_t> found;
  for (const std::string& name : sys::list_directory("/proc")) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    try {
      const std::string words = sys::read_text_file("/proc/" + name + "/cmdline", 4096);
      const std::string_view expected("\0sandbox\0", 9);
      const std::string stat = sys::read_text_file("/proc/" + name + "/stat", 4096);
      const size_t end = stat.rfind(')');
      const pid_t parent = std::stoi(stat.substr(end + 4));
      if (words.find(expected) != words.npos && (parent == ::getpid() || parent == daemon_.pid()))
        found.insert(std::stoi(name));
    } catch (const Error&) {
      continue;  // gone meanwhile
    }
  }
  return found;
}

std::string World::complaints() {
  std::string out;
  const auto complain = [&](const std::string& what) { out += what + "\n"; };
  std::vector<api::Sandbox> all;
  std::set<pid_t> pids;
  // What ends by itself needs a moment, and so does its record: a held process whose daemon died.
  if (!eventually([&] {
        reap();
        all = client()->sandboxes(true);
        pids.clear();
        for (const api::Sandbox& sandbox : all)
          if (is_live(sandbox.state)) pids.insert(static_cast<pid_t>(sandbox.sandbox_pid));
        return sandbox_processes() == pids;
      })) {
    complain("the sandbox processes are not those of the records:");
    for (const pid_t pid : sandbox_processes()) complain("  there is " + std::to_string(pid));
    for (const pid_t pid : pids) complain("  recorded is " + std::to_string(pid));
  }
  std::set<std::string> ids;
  std::set<std::string> names;
  for (const api::Sandbox& sandbox : all) {
    ids.insert(sandbox.id);
    if (is_live(sandbox.state)) names.insert(sandbox.name);
    if (!is_live(sandbox.state) && !sandbox.end)
      complain(sandbox.name + " has ended for no reason");
  }
  const auto compare = [&](const std::string& folder, const std::set<std::string>& expected) {
    std::vector<std::string> have;
    // What could not be removed at once is removed soon.
    const bool fits = eventually([&] {
      have = sys::list_directory(folder);
      return std::set<std::string>(have.begin(), have.end()) == expected;
    });
    if (fits) return;
    complain(folder + " holds what it should not, or lacks what it should hold:");
    for (const std::string& name : have) complain("  " + name);
  };
  compare(paths_.sandboxes_dir(), ids);
  compare(paths_.sandboxes_runtime(), names);
  for (const std::string& folder :
       {paths_.images_dir(), paths_.initramfs_dir(), paths_.overlays_dir(), paths_.kernels_dir()})
    for (const std::string& name : sys::list_directory(folder))
      if (name.starts_with(".tmp-") || name.find(".new") != std::string::npos)
        complain("left over: " + folder + "/" + name);
  for (const std::string& name : sys::list_directory(paths_.data()))
    if (name.find(".new-") != std::string::npos) complain("left over: " + name);
  for (const api::Image& image : client()->images())
    if (!sys::exists(paths_.images_dir() + "/" + image.digest + "/root.erofs"))
      complain("image " + image.name + " has no bytes");
  return out;
}

size_t World::open_descriptors() const {
  return sys::list_directory("/proc/" + std::to_string(daemon_.pid()) + "/fd").size();
}

}
