// The newc format: each member is a header of 13 hexadecimal fields, its name, its content, each
// padded to 4 bytes (Linux Documentation/driver-api/early-userspace/buffer-format.rst).

#include "mvm/image/initramfs.h"

#include <array>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>

#include "mvm/base/error.h"
#include "mvm/crypto/hash.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::image {

// Part of every key: raise it when the same input is to give other bytes.
static constexpr std::string_view kFormat = "mvm-initramfs-1";
static constexpr std::string_view kTrailer = "TRAILER!!!";

namespace {

class Cpio {
 public:
  explicit Cpio(size_t expected) { out_.reserve(expected); }

  void add(std::string_view name, uint32_t mode, ByteView content = {}, uint32_t device_major = 0,
           uint32_t device_minor = 0) {
    const uint32_t links = S_ISDIR(mode) ? 2 : 1;
    const std::array<uint32_t, 13> fields{++inode_,
                                          mode,
                                          0,
                                          0,
                                          links,
                                          0,
                                          static_cast<uint32_t>(content.size()),
                                          0,
                                          0,
                                          device_major,
                                          device_minor,
                                          static_cast<uint32_t>(name.size() + 1),
                                          0};
    Writer writer(out_);
    writer.text("070701");
    for (const uint32_t field : fields) {
      std::array<char, 9> text{};
      std::snprintf(text.data(), text.size(), "%08x", field);
      writer.text({text.data(), 8});
    }
    writer.text(name);
    writer.u8(0);
    pad();
    writer.bytes(content);
    pad();
  }

  Bytes finish() && {
    inode_ = static_cast<uint32_t>(-1);  // the trailer's number is 0
    add(kTrailer, 0);
    return std::move(out_);
  }

 private:
  void pad() { out_.resize((out_.size() + 3) / 4 * 4); }
  Bytes out_;
  uint32_t inode_ = 0;
};

}

static void check_module_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == ".." ||
      name.find('/') != std::string_view::npos || name.find('\n') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos)
    throw Error(Kind::Invalid, "a kernel module needs a plain file name");
}

Bytes build_initramfs(ByteView agent, std::span<const ModuleFile> modules) {
  size_t expected = agent.size() + size_t{16} * 1024;
  for (const ModuleFile& module : modules) expected += module.content.size() + 512;

  Cpio archive(expected);
  for (const std::string_view directory :
       {"dev", "proc", "sys", "run", "tmp", "mnt", "newroot", "lib", "lib/modules"})
    archive.add(directory, S_IFDIR | 0755U);
  // The kernel opens it for /init's standard descriptors before anything is mounted.
  archive.add("dev/console", S_IFCHR | 0600U, {}, 5, 1);
  archive.add("init", S_IFREG | 0755U, agent);
  std::string list;
  for (const ModuleFile& module : modules) {
    check_module_name(module.name);
    const std::string path = "lib/modules/" + module.name;
    archive.add(path, S_IFREG | 0644U, module.content);
    list += "/" + path + "\n";
  }
  archive.add("modules.list", S_IFREG | 0644U, as_bytes(list));
  return std::move(archive).finish();
}

static std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// A cheap stand-in for a module's content, so that a start need not read megabytes to find that
// its initramfs is there already: bundles are replaced whole, never changed in place.
static std::string identity(const std::string& path) {
  const sys::Fd fd = sys::open_file(path, O_RDONLY);
  struct stat status{};
  sys::check(::fstat(fd.get(), &status), "reading status of " + path);
  std::string text = path;
  for (const uint64_t part :
       {uint64_t{status.st_dev}, uint64_t{status.st_ino}, static_cast<uint64_t>(status.st_size),
        static_cast<uint64_t>(status.st_ctim.tv_sec),
        static_cast<uint64_t>(status.st_ctim.tv_nsec)})
    text.append(" ").append(std::to_string(part));
  return text + "\n";
}

AgentBinary::AgentBinary(ByteView bytes)
    : bytes_(bytes), digest_(crypto::digest_hex(crypto::sha256(bytes))) {}

// An archive that was cut off has no end.
static bool is_whole(const std::string& path) {
  const auto fd = sys::open_if_exists(path, O_RDONLY | O_NONBLOCK);
  if (!fd || !sys::is_regular_file(fd->get())) return false;
  std::array<std::byte, 16> end{};
  const uint64_t size = sys::file_size(fd->get());
  return size >= end.size() && sys::pread_exact(fd->get(), end, size - end.size()) &&
         as_text(end).find(kTrailer) != std::string_view::npos;
}

std::string ensure_initramfs(const store::Paths& paths, const AgentBinary& agent,
                             const KernelBundle& kernel) {
  std::string key_text(kFormat);
  key_text += "\n" + agent.digest() + "\n";
  for (const std::string& module : kernel.modules) key_text += identity(module);
  const std::string path = paths.initramfs_dir() + "/" +
                           crypto::digest_hex(crypto::sha256(as_bytes(key_text))).substr(0, 32) +
                           ".cpio";
  if (is_whole(path)) return path;

  std::vector<Bytes> contents;
  contents.reserve(kernel.modules.size());
  for (const std::string& module : kernel.modules)
    contents.push_back(sys::read_file(module, kMaxModuleSize));
  std::vector<ModuleFile> modules;
  modules.reserve(contents.size());
  for (size_t i = 0; i < contents.size(); ++i)
    modules.push_back({file_name(kernel.modules[i]), contents[i]});
  sys::write_file_atomic(path, build_initramfs(agent.bytes(), modules));
  return path;
}

}
