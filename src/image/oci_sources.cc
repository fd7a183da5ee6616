// OCI images on this host's disk: layouts (OCI image-spec, image-layout.md) in a directory or an
// archive, and archives of `docker save`.

#include <algorithm>

#include <fcntl.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/image/oci_source.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "inflate.h"
#include "tar_index.h"

namespace mvm::image {
namespace {

// A tag as somebody may write it: the whole reference, or what follows its last colon.
bool is_called(std::string_view name, std::string_view wanted) {
  return name == wanted || (name.ends_with(wanted) && name.size() > wanted.size() &&
                            name[name.size() - wanted.size() - 1] == ':');
}

// Refuses to guess between several.
template <typename Entry, typename NamesOf>
const Entry& only_one(const std::vector<Entry>& entries, const std::optional<std::string>& wanted,
                      NamesOf names_of) {
  const Entry* found = nullptr;
  size_t fitting = 0;
  std::string there;
  for (const Entry& entry : entries) {
    bool fits = !wanted.has_value();
    for (const std::string& name : names_of(entry)) {
      there += (there.empty() ? "" : ", ") + printable(name, 80);
      fits = fits || is_called(name, *wanted);
    }
    if (!fits) continue;
    ++fitting;
    found = &entry;
  }
  if (fitting == 1) return *found;
  if (entries.empty()) throw Error(Kind::NotFound, "there is no image in it");
  if (fitting == 0)
    throw Error(Kind::NotFound, "there is no image \"" + printable(*wanted) + "\" in it" +
                                    (there.empty() ? "; none has a name" : "; there is: " + there));
  throw Error(Kind::Invalid, "it holds " + std::to_string(fitting) + " images" +
                                 (there.empty() ? "" : " (" + there + ")") +
                                 "; choose one with --ref");
}

// What a layout in a directory and one in an archive share.
class LayoutSource : public OciSource {
 public:
  OciImage resolve(const Selection& selection) override {
    check_version();
    const std::string text = read_member("index.json", oci::kMaxDocument);
    const auto document =
        while_doing("index.json", [&] { return oci::parse_document(text, kIndexType); });
    const auto* index = std::get_if<oci::Index>(&document);
    if (index == nullptr) throw Error(Kind::Invalid, "index.json is no index");
    const oci::Descriptor& top = top_of(*index, selection);
    OciImage image = resolve_image(top, selection, [&](const oci::Descriptor& descriptor) {
      return read_member(blob_path(descriptor.digest), oci::kMaxDocument);
    });
    image.reference = top.reference;
    return image;
  }
  Blob open_layer(const Layer& layer) override { return open_member(blob_path(*layer.digest)); }

 protected:
  virtual Blob open_member(const std::string& path) = 0;

 private:
  static constexpr std::string_view kIndexType = "application/vnd.oci.image.index.v1+json";

  static std::string blob_path(const oci::Digest& digest) { return "blobs/sha256/" + digest.hex(); }

  // By name, where one was asked for; else the entry for the platform, where each has one.
  static const oci::Descriptor& top_of(const oci::Index& index, const Selection& selection) {
    const auto& entries = index.manifests;
    const bool platforms =
        !entries.empty() && std::all_of(entries.begin(), entries.end(),
                                        [](const auto& entry) { return entry.platform; });
    if (!selection.reference && platforms) return oci::choose(index, selection.platform);
    return only_one(entries, selection.reference, [](const oci::Descriptor& entry) {
      return entry.reference.empty() ? std::vector<std::string>{}
                                     : std::vector<std::string>{entry.reference};
    });
  }

  void check_version() {
    const std::string text = read_member("oci-layout", 64 * 1024);
    if (text.find("\"1.") == text.npos)
      throw Error(Kind::Unsupported, "oci-layout: not of version 1: " + printable(text, 60));
  }

  std::string read_member(const std::string& path, size_t limit) {
    const Blob blob = open_member(path);
    if (blob.size > limit)
      throw Error(Kind::Exhausted, path + " is larger than " + format_size(limit));
    Bytes data(static_cast<size_t>(blob.size));
    if (!sys::pread_exact(blob.fd.get(), data, blob.offset))
      throw Error(Kind::Invalid, path + " has been cut off");
    return std::string(as_text(data));
  }
};

class DirectorySource : public LayoutSource {
 public:
  explicit DirectorySource(std::string path) : path_(std::move(path)) {}
  std::string_view kind() const override { return "oci-layout"; }

 protected:
  Blob open_member(const std::string& path) override {
    // O_NONBLOCK: a FIFO in a blob's place is refused, not waited for.
    sys::Fd fd = sys::open_file(path_ + "/" + path, O_RDONLY | O_NONBLOCK);
    if (!sys::is_regular_file(fd.get())) throw Error(Kind::Invalid, path + " is no regular file");
    const uint64_t size = sys::file_size(fd.get());
    return {std::move(fd), 0, size};
  }

 private:
  std::string path_;
};

Blob blob_in(const sys::Fd& archive, const TarIndex& index, const std::string& path) {
  const TarIndex::Member* member = index.find(path);
  if (member == nullptr)
    throw Error(Kind::Invalid, "\"" + printable(path) + "\" is not in the archive");
  return {archive.duplicate(), member->offset, member->size};
}

class ArchiveSource : public LayoutSource {
 public:
  ArchiveSource(sys::Fd archive, TarIndex index)
      : archive_(std::move(archive)), index_(std::move(index)) {}
  std::string_view kind() const override { return "oci-archive"; }

 protected:
  Blob open_member(const std::string& path) override { return blob_in(archive_, index_, path); }

 private:
  sys::Fd archive_;
  TarIndex index_;
};

class DockerSource : public OciSource {
 public:
  DockerSource(sys::Fd archive, TarIndex index)
      : archive_(std::move(archive)), index_(std::move(index)) {}
  std::string_view kind() const override { return "docker-archive"; }

  // A root file system may have a manifest.json too, but none that names a member as an image.
  static bool is_in(const sys::Fd& archive, const TarIndex& index) {
    if (index.find("manifest.json") == nullptr) return false;
    try {
      const auto images = oci::parse_docker_images(read(archive, index, "manifest.json"));
      return !images.empty() && index.find(images.front().config) != nullptr;
    } catch (const Error&) {
      return false;
    }
  }

  OciImage resolve(const Selection& selection) override {
    const auto images = oci::parse_docker_images(read(archive_, index_, "manifest.json"));
    const oci::DockerImage& chosen = only_one(
        images, selection.reference, [](const oci::DockerImage& image) { return image.tags; });
    const std::string text = read(archive_, index_, chosen.config);
    const oci::Digest digest = oci::Digest::of(as_bytes(text));
    check_name(chosen.config, digest);
    OciImage image{digest,
                   std::nullopt,
                   oci::parse_config(text),
                   {},
                   chosen.tags.empty() ? "" : chosen.tags.front()};
    if (image.config.platform.os != selection.platform.os ||
        image.config.platform.architecture != selection.platform.architecture)
      throw Error(Kind::Unsupported, "the image is for " +
                                         printable(image.config.platform.text(), 40) +
                                         ", not for " + selection.platform.text());
    if (image.config.diff_ids.size() != chosen.layers.size())
      throw Error(Kind::Invalid, "manifest.json has " + std::to_string(chosen.layers.size()) +
                                     " layers, the configuration " +
                                     std::to_string(image.config.diff_ids.size()));
    for (size_t i = 0; i < chosen.layers.size(); ++i)
      image.layers.push_back({std::nullopt, 0, image.config.diff_ids[i], chosen.layers[i]});
    return image;
  }
  Blob open_layer(const Layer& layer) override { return blob_in(archive_, index_, layer.place); }

 private:
  static std::string read(const sys::Fd& archive, const TarIndex& index, const std::string& path) {
    const Blob blob = blob_in(archive, index, path);
    if (blob.size > oci::kMaxDocument)
      throw Error(Kind::Exhausted,
                  printable(path) + " is larger than " + format_size(oci::kMaxDocument));
    Bytes data(static_cast<size_t>(blob.size));
    if (!sys::pread_exact(blob.fd.get(), data, blob.offset))
      throw Error(Kind::Invalid, printable(path) + " has been cut off");
    return std::string(as_text(data));
  }

  // <digest>.json or blobs/sha256/<digest>: the name is the only check that the format has.
  static void check_name(std::string_view path, const oci::Digest& digest) {
    std::string_view name = path.substr(path.rfind('/') + 1);
    if (name.ends_with(".json")) name.remove_suffix(5);
    const bool is_hex =
        name.size() == 64 && name.find_first_not_of("0123456789abcdef") == name.npos;
    if (is_hex && name != digest.hex())
      throw Error(Kind::Invalid, "\"" + printable(path) + "\" is not what its name promises");
  }

  sys::Fd archive_;
  TarIndex index_;
};

// Whether inflating the archive is worth it: its first member tells.
bool starts_like_image(const sys::Fd& file) {
  uint64_t at = 0;
  Inflater inflater(
      [&](std::span<std::byte> into) {
        const size_t got = sys::pread_some(file.get(), into, at);
        at += got;
        return got;
      },
      1 << 20);
  Bytes block(512);
  size_t have = 0;
  while (have < block.size()) {
    const size_t got = inflater.read(std::span(block).subspan(have));
    if (got == 0) return false;
    have += got;
  }
  if (!inflater.compressed()) return false;
  const auto name = TarIndex::first_name(as_text(block));
  return name && TarIndex::is_image_member(*name);
}

void inflate_into(const sys::Fd& file, const sys::Fd& scratch, uint64_t limit) {
  uint64_t at = 0;
  Inflater inflater(
      [&](std::span<std::byte> into) {
        const size_t got = sys::pread_some(file.get(), into, at);
        at += got;
        return got;
      },
      limit);
  Bytes piece(size_t{1} << 20);
  for (size_t got = 0; (got = inflater.read(piece)) != 0;)
    sys::write_all(scratch.get(), ByteView(piece).first(got));
}

}

std::unique_ptr<OciSource> open_oci_source(const std::string& path, uint64_t limit,
                                           const std::function<sys::Fd()>& scratch) {
  sys::Fd file = sys::open_file(path, O_RDONLY | O_NONBLOCK);
  if (sys::is_directory(file.get())) {
    if (!sys::exists(path + "/oci-layout") || !sys::exists(path + "/index.json")) return nullptr;
    return std::make_unique<DirectorySource>(path);
  }
  if (!sys::is_regular_file(file.get())) return nullptr;
  bool compressed = false;
  try {
    compressed = starts_like_image(file);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // Whoever reads it as something else says what is wrong with it.
  }
  if (compressed) {
    sys::Fd plain = scratch();
    inflate_into(file, plain, limit);
    file = std::move(plain);
  }
  auto index = TarIndex::read(file.get());
  if (!index) return nullptr;
  if (index->find("oci-layout") != nullptr && index->find("index.json") != nullptr)
    return std::make_unique<ArchiveSource>(std::move(file), std::move(*index));
  if (!DockerSource::is_in(file, *index)) return nullptr;
  return std::make_unique<DockerSource>(std::move(file), std::move(*index));
}

}
