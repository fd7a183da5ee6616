// Of one image, without the store: its name, and whether its files can be used.

#include <fcntl.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/oci/reference.h"
#include "mvm/store/images.h"
#include "mvm/sys/file.h"

namespace mvm::store {

ImageName parse_image_name(std::string_view text) {
  if (text.find('/') != text.npos) {
    const oci::Reference reference = oci::parse_reference(text);
    if (reference.digest)
      throw Error(Kind::Invalid,
                  "image name \"" + printable(text) + "\": a name cannot hold a digest");
    return {reference.repository(), reference.tag};
  }
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view tag = colon == std::string_view::npos ? "latest" : text.substr(colon + 1);
  if (const auto complaint = name_complaint(name))
    throw Error(Kind::Invalid, "image name \"" + printable(text) + "\": " + *complaint);
  if (const auto complaint = name_complaint(tag))
    throw Error(Kind::Invalid, "image tag of \"" + printable(text) + "\": " + *complaint);
  return {std::string(name), std::string(tag)};
}

std::string manifest_file(const Image& image) {
  return image.root.substr(0, image.root.rfind('/')) + "/manifest.json";
}

void refuse_damaged(const Image& image, const std::string& why) {
  const std::string digest = image.digest.substr(0, kMinDigestPrefix);
  throw Error(Kind::Invalid, "image " + digest + " is damaged: " + why +
                                 "; remove it (mvm image rm --force " + digest +
                                 ") and import, pull or build it again");
}

sys::Fd open_root(const Image& image) {
  if (!sys::exists(image.root)) refuse_damaged(image, "there is no " + image.root);
  sys::Fd root = sys::open_own_file(image.root, O_RDONLY);
  if (const uint64_t size = sys::file_size(root.get()); size != image.manifest.size)
    refuse_damaged(image, image.root + " has " + std::to_string(size) + " bytes, not " +
                              std::to_string(image.manifest.size));
  return root;
}

}
