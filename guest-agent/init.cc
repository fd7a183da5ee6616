// Theory of operation. The kernel starts us in the initramfs, which is a RAM file system. There we
// find the two disks, and stack them: the image (read-only, shared by all sandboxes made from it)
// below, the sandbox's own writable ext4 on top, joined by overlayfs. That becomes the root, by the
// classic switch: empty the initramfs, move the new root over "/", chroot. The mounts of /proc,
// /dev and the others are made inside the new root, after the chroot: the image may have symbolic
// links in their places, and must not lead us elsewhere.
#include "init.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "mvm/base/bytes.h"
#include "mvm/base/scope_exit.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "disks.h"
#include "kept_disk.h"
#include "modules.h"
#include "network.h"

namespace mvm::guest {

// Where things are stacked, in the initramfs.
static constexpr const char* kLower = "/lower";
static constexpr const char* kLayer = "/layer";
static constexpr const char* kNewRoot = "/newroot";

// ---- talking ----------------------------------------------------------------------------------

void open_console() {
  int fd = ::open("/dev/console", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  for (int target = 0; target < 3; ++target)
    if (fd != target) ::dup2(fd, target);
  if (fd > 2) ::close(fd);
}

void say(const std::string& line) {
  const std::string text = "mvm-agent: " + line + "\n";
  static_cast<void>(!::write(2, text.data(), text.size()));
}

void fatal(const std::string& why) {
  say("fatal: " + why);
  end_machine(PowerAction::Off, nullptr);
}

// ---- mounting ---------------------------------------------------------------------------------

struct Mount {
  const char* type;
  const char* target;
  unsigned long flags;
  const char* options;
  unsigned mode;  // of the directory, where it has to be made
  bool needed;    // without it there is no point in going on
};

static constexpr unsigned long kGuarded = MS_NOSUID | MS_NODEV | MS_NOEXEC;

// In the initramfs: enough to see the disks and the command line.
static constexpr Mount kEarly[] = {
    {"devtmpfs", "/dev", MS_NOSUID, "mode=755", 0755, true},
    {"proc", "/proc", kGuarded, nullptr, 0555, true},
};

// In the root, in this order. /tmp stays on the writable layer: what a command puts there is
// bounded by the sandbox's disk, not by its memory.
static constexpr Mount kFinal[] = {
    {"proc", "/proc", kGuarded, nullptr, 0555, true},
    {"sysfs", "/sys", kGuarded, nullptr, 0555, false},
    {"devtmpfs", "/dev", MS_NOSUID, "mode=755", 0755, true},
    {"devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666", 0755, false},
    {"tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777", 01777, false},
    {"mqueue", "/dev/mqueue", kGuarded, nullptr, 01777, false},
    {"tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=755", 0755, true},
    {"cgroup2", "/sys/fs/cgroup", kGuarded, "nsdelegate,memory_recursiveprot", 0555, false},
};

static void mount_all(std::span<const Mount> table) {
  for (const auto& entry : table) {
    ::mkdir(entry.target, entry.mode);
    if (::mount(entry.type, entry.target, entry.type, entry.flags, entry.options) == 0) continue;
    // Options differ between kernels; the file system itself matters more.
    if (errno == EINVAL && ::mount(entry.type, entry.target, entry.type, entry.flags, nullptr) == 0)
      continue;
    const std::string what = "mounting " + std::string(entry.type) + " on " + entry.target;
    if (entry.needed) throw SystemError(errno, what);
    say(what + ": " + sys::errno_text(errno));
  }
}

// ---- disks ------------------------------------------------------------------------------------

static void mount_image(const std::string& device) {
  wait_for_device(device);
  int error = 0;
  for (const char* type : {"erofs", "ext4"}) {
    if (::mount(device.c_str(), kLower, type, MS_RDONLY | MS_NODEV, nullptr) == 0) return;
    // "No such file system here" and "not of this type" leave the others to be tried.
    if (errno != ENODEV && errno != EINVAL) throw SystemError(errno, "mounting " + device);
    error = errno;
  }
  throw SystemError(error, "mounting " + device + " as erofs or ext4");
}

static void mount_layer(const Settings& settings) {
  if (settings.overlay.empty()) {
    const std::string size = settings.overlay_size.empty() ? "50%" : settings.overlay_size;
    const std::string options = "mode=755,size=" + size;
    sys::check(::mount("tmpfs", kLayer, "tmpfs", MS_NODEV, options.c_str()),
               "mounting the writable layer in memory");
    return;
  }
  mount_writable(settings.overlay, kLayer);
}

static void stack_root() {
  const std::string layer = kLayer;
  const std::string upper = layer + "/upper";
  const std::string work = layer + "/work";
  ::mkdir(upper.c_str(), 0755);
  ::mkdir(work.c_str(), 0700);
  // redirect_dir: without it, renaming a directory of the image fails with EXDEV, which package
  // managers trip over.
  const std::string options = "lowerdir=" + std::string(kLower) + ",upperdir=" + upper +
                              ",workdir=" + work + ",redirect_dir=on";
  sys::check(::mount("overlay", kNewRoot, "overlay", 0, options.c_str()),
             "stacking the writable layer on the image");
}

// ---- the switch -------------------------------------------------------------------------------

// Empties the initramfs, whose memory nobody else would free. Stays on its file system: mounts are
// other devices.
static void empty_directory(int directory, dev_t device) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(directory), &::closedir);
  if (!stream) return;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat status{};
    if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (status.st_dev != device) continue;
    if (S_ISDIR(status.st_mode)) {
      const int child =
          ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (child >= 0) empty_directory(child, device);
      ::unlinkat(directory, name.c_str(), AT_REMOVEDIR);
    } else {
      ::unlinkat(directory, name.c_str(), 0);
    }
  }
}

static sys::Fd switch_root() {
  sys::Fd old_root = sys::open_file("/", O_RDONLY | O_DIRECTORY);
  for (const char* early : {"/dev", "/proc"}) ::umount2(early, MNT_DETACH);
  // The overlay holds the image by itself; the layer stays reachable through old_root alone.
  ::umount2(kLower, MNT_DETACH);
  struct stat status{};
  sys::check(::fstat(old_root.get(), &status), "looking at the initramfs");
  empty_directory(old_root.duplicate().release(), status.st_dev);
  sys::check(::chdir(kNewRoot), "entering the new root");
  sys::check(::mount(".", "/", nullptr, MS_MOVE, nullptr), "moving the new root into place");
  sys::check(::chroot("."), "changing the root");
  sys::check(::chdir("/"), "entering the root");
  return old_root;
}

// ---- the rest ---------------------------------------------------------------------------------

static void link_devices() {
  // What scripts expect besides the device nodes. Existing ones are fine.
  const std::array<std::pair<const char*, const char*>, 4> links{
      {{"/proc/self/fd", "/dev/fd"},
       {"/proc/self/fd/0", "/dev/stdin"},
       {"/proc/self/fd/1", "/dev/stdout"},
       {"/proc/self/fd/2", "/dev/stderr"}}};
  for (const auto& [target, link] : links) static_cast<void>(!::symlink(target, link));
}

static void raise_loopback() {
  const sys::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", sizeof "lo");
  // The kernel gives lo its addresses, IPv4 and IPv6, when it comes up.
  if (socket && ::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0) {
    request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
    if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0) return;
  }
  say(std::string("bringing up the loopback interface: ") + sys::errno_text(errno));
}

// A file that programs expect and the image may lack. What the image has, stays.
static void write_if_missing(const char* path, const std::string& content) {
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return;
  const sys::Fd file(fd);
  static_cast<void>(!::write(fd, content.data(), content.size()));
}

static void name_host(const std::string& hostname, bool has_network) {
  if (::sethostname(hostname.data(), hostname.size()) != 0)
    say("setting the hostname: " + sys::errno_text(errno));
  ::mkdir("/etc", 0755);
  write_if_missing("/etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 " +
                                     hostname + "\n");
  if (!has_network)
    write_if_missing("/etc/resolv.conf", "# No name server: this sandbox has no network.\n");
}

System set_up_system() {
  ::umask(0);
  mount_all(kEarly);
  open_console();
  System system;
  system.settings = parse_settings(sys::read_text_file("/proc/cmdline", kMaxCommandLine));
  const Settings& settings = system.settings;
  const auto step = [&](const char* done) {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    if (settings.verbose)
      say(std::to_string(now.tv_sec * 1000 + now.tv_nsec / 1000000) + " ms: " + done);
  };
  if (settings.root.empty())
    throw Error(Kind::Invalid, "no mvm.root= on the kernel's command line");
  load_modules();
  step("modules loaded");
  for (const char* directory : {kLower, kLayer, kNewRoot}) ::mkdir(directory, 0755);
  mount_image(settings.root);
  mount_layer(settings);
  stack_root();
  step("root stacked");
  system.hidden_root = switch_root();
  mount_all(kFinal);
  open_console();
  link_devices();
  ::mkdir("/tmp", 01777);
  if (settings.kept) mount_kept_disk(*settings.kept);
  raise_loopback();
  name_host(settings.hostname, settings.ip4.has_value());
  set_up_network(settings);
  // What commands get: select(2) programs need the soft limit small, databases the hard one large.
  const rlimit files{1024, 524288};
  sys::check(::setrlimit(RLIMIT_NOFILE, &files), "setting the limit of open files");
  ::umask(022);
  step("system set up");
  return system;
}

void end_machine(PowerAction action, const System* system) {
  ::sync();
  // Leaves the disks clean, so that the next boot has no journals to replay.
  constexpr unsigned long kReadOnly = MS_REMOUNT | MS_RDONLY | MS_NODEV | MS_NOATIME;
  if (system != nullptr && system->settings.kept)
    ::mount(nullptr, system->settings.kept->path.c_str(), nullptr, kReadOnly, nullptr);
  if (system != nullptr && system->hidden_root && ::fchdir(system->hidden_root.get()) == 0)
    ::mount(nullptr, &kLayer[1], nullptr, kReadOnly, nullptr);
  ::reboot(action == PowerAction::Off ? RB_POWER_OFF : RB_AUTOBOOT);
  // A machine that cannot power off can at least stop.
  ::reboot(static_cast<int>(RB_HALT_SYSTEM));
  while (true) ::pause();
}

}
