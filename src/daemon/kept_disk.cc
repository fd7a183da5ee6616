#include "kept_disk.h"

#include <fcntl.h>

#include "mvm/base/text.h"
#include "mvm/image/overlay.h"
#include "mvm/sys/file.h"

namespace mvm::daemon {

[[noreturn]] static void refuse(const std::string& complaint) {
  throw Error(Kind::Invalid, "sandbox.kept_disk." + complaint);
}

// The path becomes a word of the kernel's command line, and is mounted over by the agent.
void check_kept_disk(const api::KeptDisk& disk, uint64_t most) {
  if (const auto complaint = name_complaint(disk.name)) refuse("name: " + *complaint);
  if (disk.size < api::kMinDisk || disk.size > most)
    refuse("size: must be " + format_size(api::kMinDisk) + " to " + format_size(most));
  constexpr size_t kMaxPath = 255;
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
  bool good = disk.path.size() > 1 && disk.path.size() <= kMaxPath && disk.path.front() == '/' &&
              disk.path.find_first_not_of(kLetters) == disk.path.npos;
  const auto parts = split(std::string_view(disk.path).substr(good ? 1 : 0), '/');
  for (const std::string_view part : parts)
    good = good && !part.empty() && part != "." && part != "..";
  for (const std::string_view taken : {"proc", "sys", "dev", "run"})
    good = good && parts.front() != taken;
  if (!good)
    refuse("path: must be absolute, of at most " + std::to_string(kMaxPath) +
           " letters, digits, '.', '_', '-' and '/', and not below /proc, /sys, /dev or /run");
}

sys::Fd open_kept_disk(const store::Paths& paths, const api::KeptDisk& disk) {
  const std::string path = paths.kept_disk(disk.name);
  if (!sys::exists(path)) {
    const std::string unfinished = path + ".new-";
    sys::remove_file(unfinished);
    image::create_overlay(paths, disk.size, unfinished);
    sys::rename_file(unfinished, path);
  }
  sys::Fd file = sys::open_own_file(path, O_RDWR);
  if (sys::file_size(file.get()) < disk.size)
    sys::resize_file(file.get(), disk.size, "growing " + path);
  return file;
}

}
