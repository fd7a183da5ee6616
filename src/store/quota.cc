#include "mvm/store/quota.h"

#include <sys/stat.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/json/json.h"
#include "mvm/sys/file.h"

namespace mvm::store {

static constexpr size_t kMaxFile = size_t{1} << 20;

StoreSettings parse_store_settings(std::string_view text, std::string_view where) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Kind::Invalid, std::string(where) + ": " + why);
  };
  const auto json = json::parse_object(text);
  if (!json) refuse("it must be a JSON object; mend it, or remove it for what holds without it");
  StoreSettings settings;
  for (const auto& [key, value] : json->items()) {
    if (key != "quota") refuse("unknown key \"" + printable(key) + "\"; there is quota");
    settings.quota =
        value.is_string() ? parse_size(value.get_ref<const std::string&>()) : std::nullopt;
    if (!settings.quota || *settings.quota == 0) refuse("quota must be a size, as \"50G\"");
  }
  return settings;
}

Quota::Quota(const Paths& paths) : paths_(paths) {
  const std::string path = paths.image_settings();
  if (sys::exists(path))
    limit_ = parse_store_settings(sys::read_own_text_file(path, kMaxFile), path).quota;
}

static uint64_t on_disk(const std::string& path) {
  struct stat status{};
  // What is gone meanwhile takes nothing.
  if (::lstat(path.c_str(), &status) != 0) return 0;
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

uint64_t Quota::used() const {
  uint64_t bytes = 0;
  for (const std::string& name : sys::list_directory(paths_.images_dir())) {
    const std::string directory = paths_.images_dir() + "/" + name;
    bytes += on_disk(directory + "/root.erofs") + on_disk(directory + "/manifest.json");
  }
  for (const std::string& name : sys::list_directory(paths_.blobs_dir()))
    bytes += on_disk(paths_.blobs_dir() + "/" + name);
  return bytes;
}

std::optional<uint64_t> Quota::room() const {
  if (!limit_) return std::nullopt;
  const uint64_t taken = used();
  return taken < *limit_ ? *limit_ - taken : 0;
}

void Quota::require(uint64_t more) const {
  if (!limit_) return;
  const uint64_t taken = used();
  if (taken <= *limit_ && more <= *limit_ - taken) return;
  throw Error(
      Kind::Exhausted,
      "the quota of " + format_size(*limit_) + " for images and layers is used up (" +
          format_size(taken) + " are there" +
          (more > 0 ? ", " + format_size(more) + " would come" : "") +
          "): see mvm image prune --dry-run, remove images (mvm image rm), or raise it in " +
          paths_.image_settings());
}

}
