// From a name to documents that all agree with each other.

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/image/oci_source.h"

namespace mvm::image {

static constexpr int kMaxIndexDepth = 4;

static std::string verified(const oci::Descriptor& descriptor, const ReadDocument& read) {
  const std::string shown = descriptor.digest.text();
  if (descriptor.size > oci::kMaxDocument)
    throw Error(Kind::Exhausted,
                "document " + shown + " is larger than " + format_size(oci::kMaxDocument));
  std::string text = read(descriptor);
  if (text.size() != descriptor.size)
    throw Error(Kind::Invalid, "document " + shown + " has " + std::to_string(text.size()) +
                                   " bytes, not the " + std::to_string(descriptor.size) +
                                   " that were promised");
  if (oci::Digest::of(as_bytes(text)) != descriptor.digest)
    throw Error(Kind::Invalid, "document " + shown + " is not what its digest promises");
  return text;
}

static void check_platform(const oci::Config& config, const Selection& selection) {
  const oci::Platform& have = config.platform;
  if (have.os != selection.platform.os || have.architecture != selection.platform.architecture)
    throw Error(Kind::Unsupported, "the image is for " + printable(have.text(), 40) + ", not for " +
                                       selection.platform.text());
}

static OciImage image_of(const oci::Digest& digest, const oci::Manifest& manifest,
                         const Selection& selection, const ReadDocument& read) {
  OciImage image{digest, std::nullopt, {}, {}, ""};
  image.config = oci::parse_config(verified(manifest.config, read));
  check_platform(image.config, selection);
  if (image.config.diff_ids.size() != manifest.layers.size())
    throw Error(Kind::Invalid, "the manifest has " + std::to_string(manifest.layers.size()) +
                                   " layers, the configuration " +
                                   std::to_string(image.config.diff_ids.size()));
  for (size_t i = 0; i < manifest.layers.size(); ++i) {
    const oci::Descriptor& layer = manifest.layers[i];
    image.layers.push_back(
        {layer.digest, layer.size, image.config.diff_ids[i], layer.digest.text()});
  }
  return image;
}

OciImage resolve_image(const oci::Digest& digest, std::string_view document,
                       std::string_view media_type, const Selection& selection,
                       const ReadDocument& read) {
  std::optional<oci::Digest> index;
  oci::Digest current = digest;
  std::string text(document);
  std::string type(media_type);
  for (int depth = 0; depth < kMaxIndexDepth; ++depth) {
    const auto parsed = oci::parse_document(text, type);
    if (const auto* manifest = std::get_if<oci::Manifest>(&parsed)) {
      OciImage image = image_of(current, *manifest, selection, read);
      image.index = index;
      return image;
    }
    const oci::Descriptor& next = oci::choose(std::get<oci::Index>(parsed), selection.platform);
    if (!index) index = current;
    text = verified(next, read);
    type = next.media_type;
    current = next.digest;
  }
  throw Error(Kind::Exhausted, "the image's indexes are nested too deep");
}

OciImage resolve_image(const oci::Descriptor& top, const Selection& selection,
                       const ReadDocument& read) {
  return resolve_image(top.digest, verified(top, read), top.media_type, selection, read);
}

}
