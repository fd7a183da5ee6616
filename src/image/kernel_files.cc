#include "kernel_files.h"

#include <set>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/crypto/hash.h"
#include "mvm/json/json.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::image {

using Json = json::Value;

static constexpr size_t kMaxNote = size_t{1} << 20;
static constexpr std::string_view kNote = "/.files.json";

void refuse_damaged_kernel(const std::string& why) {
  throw Error(Kind::Invalid, why + "; get the kernel again: mvm kernel import DIR");
}

sys::Fd open_bundle_file(const std::string& directory, const std::string& below) {
  bool plain = !below.empty() && below.front() != '/' && printable(below) == below;
  for (const std::string_view part : split(below, '/'))
    plain = plain && !part.empty() && part != "." && part != "..";
  if (!plain)
    throw Error(Kind::Invalid,
                "\"" + printable(below) + "\" is no plain relative path inside the bundle");
  const std::string full = directory + "/" + below;
  // Looked at before it is opened: to open a device can do things.
  struct stat status{};
  if (::stat(full.c_str(), &status) == 0 && S_ISREG(status.st_mode))
    if (auto fd = sys::open_if_exists(full, O_RDONLY | O_NONBLOCK);
        fd && sys::is_regular_file(fd->get()))
      return std::move(*fd);
  throw Error(Kind::NotFound, "there is no file " + full);
}

static void sync(int fd, const std::string& path) {
  sys::check(sys::uninterrupted([&] { return ::fsync(fd); }), "syncing " + path);
}

void seal_bundle(const std::string& directory, const KernelBundle& source) {
  Json note = Json::object();
  std::set<std::string> folders{directory};
  std::vector<std::string> files = source.modules;
  files.push_back(source.image);
  files.push_back(source.directory + "/bundle.json");
  for (const std::string& file : files) {
    const std::string below = file.substr(source.directory.size());
    const std::string path = directory + below;
    const sys::Fd fd = sys::open_file(path, O_RDONLY);
    sync(fd.get(), path);
    note[below.substr(1)] = {{"size", sys::file_size(fd.get())},
                             {"sha256", crypto::digest_hex(crypto::sha256_of_file(fd.get()))}};
    for (size_t slash = path.rfind('/'); slash > directory.size();
         slash = path.rfind('/', slash - 1))
      folders.insert(path.substr(0, slash));
  }
  sys::write_file_atomic(directory + std::string(kNote), as_bytes(note.dump(1) + "\n"));
  for (const std::string& folder : folders) sys::sync_directory(folder);
}

// Calls check(path, descriptor, what was noted) for each file.
template <typename Check>
static void for_each_noted(const std::string& directory, Check check) {
  const std::string where = directory + std::string(kNote);
  if (!sys::exists(where)) return;
  const auto note = json::parse_object(sys::read_own_text_file(where, kMaxNote));
  if (!note) refuse_damaged_kernel(where + " is damaged");
  for (const auto& [below, known] : note->items()) {
    const std::string path = directory + "/" + below;
    const auto size = known.find("size");
    const auto digest = known.find("sha256");
    if (size == known.end() || !size->is_number_unsigned() || digest == known.end() ||
        !digest->is_string())
      refuse_damaged_kernel(where + " is damaged");
    const sys::Fd fd = open_bundle_file(directory, below);
    check(path, fd.get(), size->template get<uint64_t>(),
          digest->template get_ref<const std::string&>());
  }
}

void check_sizes(const std::string& directory) {
  for_each_noted(directory, [](const std::string& path, int fd, uint64_t size, const std::string&) {
    if (const uint64_t now = sys::file_size(fd); now != size)
      refuse_damaged_kernel(path + " has " + std::to_string(now) + " bytes, not " +
                            std::to_string(size) + " as when it was installed");
  });
}

void verify_bundle(const KernelBundle& bundle) {
  check_sizes(bundle.directory);
  for_each_noted(bundle.directory,
                 [](const std::string& path, int fd, uint64_t, const std::string& digest) {
                   if (crypto::digest_hex(crypto::sha256_of_file(fd)) != digest)
                     refuse_damaged_kernel(path + " is not what was installed");
                 });
}

}
