#include "disks.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>

#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include "mvm/base/bytes.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "init.h"

namespace mvm::guest {

static constexpr std::chrono::seconds kDeviceDeadline{10};

// Devices are usually there before we run; a module's may come a moment later. devtmpfs tells of a
// new node like any directory does.
void wait_for_device(const std::string& path) {
  if (sys::exists(path)) return;
  const sys::Fd events(
      sys::check(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK), "watching for devices"));
  sys::check(::inotify_add_watch(events.get(), "/dev", IN_CREATE), "watching for devices");
  const auto deadline = std::chrono::steady_clock::now() + kDeviceDeadline;
  while (!sys::exists(path)) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      throw Error(Kind::NotFound, "no device " + path + ": its driver or the disk is missing");
    pollfd entry{events.get(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(left.count()));
    std::array<std::byte, 4096> dropped;
    while (sys::read_some(events.get(), dropped).value_or(0) > 0) {
    }
  }
}

// ext4 super block, at byte 1024 of the device: little-endian, offsets from the kernel's
// Documentation/filesystems/ext4/super.rst.
struct Ext4Size {
  uint64_t blocks = 0;
  uint64_t block_size = 0;
};

static std::optional<Ext4Size> ext4_size(int device) {
  std::array<std::byte, 1024> block;
  if (!sys::pread_exact(device, block, 1024)) return std::nullopt;
  const auto u32_at = [&](size_t offset) { return Reader(ByteView(block).subspan(offset)).u32(); };
  constexpr uint32_t kWideBlocks = 0x80;  // INCOMPAT_64BIT
  const uint32_t shift = u32_at(0x18);
  if (Reader(ByteView(block).subspan(0x38)).u16() != 0xEF53 || shift > 6) return std::nullopt;
  const uint64_t high = (u32_at(0x60) & kWideBlocks) != 0 ? u32_at(0x150) : 0;
  return Ext4Size{high << 32 | u32_at(0x4), uint64_t{1024} << shift};
}

// The host makes the disk as large as it was asked to and copies a small ready-made file system
// into it; this gives it the rest. The kernel does that while it is mounted.
static void grow_to_device(const std::string& device, const char* place) {
  const sys::Fd disk = sys::open_file(device, O_RDONLY);
  const auto size = ext4_size(disk.get());
  uint64_t bytes = 0;
  if (!size || ::ioctl(disk.get(), BLKGETSIZE64, &bytes) != 0) return;
  uint64_t blocks = bytes / size->block_size;
  if (blocks <= size->blocks) return;
  const sys::Fd mounted = sys::open_file(place, O_RDONLY | O_DIRECTORY);
  constexpr unsigned long kResize = _IOW('f', 16, uint64_t);  // EXT4_IOC_RESIZE_FS
  if (::ioctl(mounted.get(), kResize, &blocks) != 0)
    say("growing the file system of " + device + ": " + sys::errno_text(errno));
}

void mount_writable(const std::string& device, const char* place) {
  wait_for_device(device);
  // discard: what the sandbox deletes is given back to the host's sparse file.
  if (::mount(device.c_str(), place, "ext4", MS_NODEV | MS_NOATIME, "discard") != 0) {
    const std::string hint = errno == EINVAL ? " (it has no ext4 file system)" : "";
    throw SystemError(errno, "mounting the disk " + device + hint);
  }
  grow_to_device(device, place);
}

}
