#include "mvm/image/export.h"

#include <map>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/json/json.h"
#include "mvm/oci/document.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "erofs_read.h"
#include "packer.h"
#include "reading.h"
#include "tar_writer.h"

namespace mvm::image {

using Json = json::Ordered;

static constexpr std::string_view kWhiteout = ".wh.";

namespace {

// An image's files as tar entries.
class Files {
 public:
  Files(const ErofsImage& image, TarWriter& tar, bool layer, Meter& meter)
      : image_(image), tar_(tar), layer_(layer), meter_(meter) {}

  void add(const std::string& path, const ErofsInode& inode) {
    if (inode.type == Type::Directory) {
      check_name(path);
      return tar_.directory(path.empty() ? "./" : path + "/", inode.attributes);
    }
    check_name(path);
    // One inode of several names is a file once and hard links to it from then on.
    if (inode.links > 1) {
      const auto [first, fresh] = linked_.emplace(inode.nid, path);
      if (!fresh) return tar_.hard_link(path, first->second, inode.attributes);
    }
    if (inode.type == Type::Symlink)
      return tar_.symlink(path, image_.target(inode), inode.attributes);
    if (inode.type == Type::Fifo) return tar_.fifo(path, inode.attributes);
    add_file(path, inode);
  }

 private:
  void check_name(const std::string& path) const {
    if (layer_ && path.substr(path.rfind('/') + 1).starts_with(kWhiteout))
      throw Error(Kind::Unsupported,
                  "a name that begins with .wh. hides another one in an OCI layer; export it with "
                  "--format tar");
  }

  void add_file(const std::string& path, const ErofsInode& inode) {
    const std::vector<ErofsImage::Segment> segments = image_.segments(inode);
    uint64_t length = 0;
    std::vector<TarWriter::Part> parts;
    for (const auto& segment : segments) {
      length += segment.length;
      if (!parts.empty() && parts.back().first + parts.back().second == segment.offset)
        parts.back().second += segment.length;
      else
        parts.emplace_back(segment.offset, segment.length);
    }
    if (length == inode.size)
      tar_.begin_file(path, inode.size, inode.attributes);
    else
      tar_.begin_sparse_file(path, inode.size, parts, inode.attributes);
    for (const auto& segment : segments)
      image_.read(segment, [&](ByteView piece) {
        tar_.data(piece);
        done_ += piece.size();
        meter_.at(done_);
      });
    tar_.end_file();
  }

  const ErofsImage& image_;
  TarWriter& tar_;
  bool layer_;
  Meter& meter_;
  std::map<uint64_t, std::string> linked_;
  uint64_t done_ = 0;
};

Packer::Packed write_files(const store::Image& image, int output, Packing packing, bool layer,
                           const Progress& progress) {
  return while_doing("image " + image.digest.substr(0, 12), [&] {
    const sys::Fd root = store::open_root(image);
    const ErofsImage erofs(root.get());
    Packer packer(output, packing);
    TarWriter tar([&](ByteView bytes) { packer.put(bytes); });
    Meter meter(progress, Phase::Writing, image.manifest.content_bytes);
    Files files(erofs, tar, layer, meter);
    walk_erofs(erofs,
               [&](const std::string& path, const ErofsInode& inode) { files.add(path, inode); });
    tar.finish();
    meter.tell(image.manifest.content_bytes);
    return packer.finish();
  });
}

// The documents of an OCI image of one layer.
struct Documents {
  std::string config;
  std::string manifest;
  std::string index;
  std::string docker;  // manifest.json, for what does not know OCI archives
};

Json descriptor(const char* type, const oci::Digest& digest, uint64_t size) {
  return {{"mediaType", type}, {"digest", digest.text()}, {"size", size}};
}

const char* layer_type(Packing packing) {
  switch (packing) {
    case Packing::None:
      return "application/vnd.oci.image.layer.v1.tar";
    case Packing::Gzip:
      return "application/vnd.oci.image.layer.v1.tar+gzip";
    case Packing::Zstd:
      return "application/vnd.oci.image.layer.v1.tar+zstd";
  }
  return "";
}

// As Docker has it: nanoseconds.
Json health_json(const proto::HealthCheck& health) {
  constexpr uint64_t kNanoseconds = 1'000'000;
  Json test = Json::array({"CMD"});
  for (const std::string& word : health.command) test.push_back(word);
  return {{"Test", std::move(test)},
          {"Interval", health.interval_ms * kNanoseconds},
          {"Timeout", health.timeout_ms * kNanoseconds},
          {"StartPeriod", health.start_period_ms * kNanoseconds},
          {"StartInterval", health.start_interval_ms * kNanoseconds},
          {"Retries", health.retries}};
}

Json config_json(const store::ImageConfig& config) {
  Json json = Json::object();
  const auto add = [&](const char* key, const auto& value) {
    if (!value.empty()) json[key] = value;
  };
  add("User", config.user);
  add("Env", config.env);
  add("Entrypoint", config.entrypoint);
  add("Cmd", config.cmd);
  add("WorkingDir", config.workdir);
  add("Labels", config.labels);
  add("StopSignal", config.stop_signal);
  if (config.health) json["Healthcheck"] = health_json(*config.health);
  return json;
}

std::string blob_path(const oci::Digest& digest) { return "blobs/sha256/" + digest.hex(); }

Documents documents_of(const store::Manifest& image, const Packer::Packed& layer,
                       const ExportOptions& options) {
  Documents documents;
  const oci::Platform platform = oci::host_platform();
  documents.config = json::dump(
      Json({{"created", image.created},
            {"architecture", platform.architecture},
            {"os", platform.os},
            {"config", config_json(image.config)},
            {"rootfs", {{"type", "layers"}, {"diff_ids", {layer.plain.text()}}}},
            {"history",
             Json::array({{{"created", image.created}, {"created_by", "mvm image export"}}})}}));
  const oci::Digest config = oci::Digest::of(as_bytes(documents.config));
  documents.manifest = json::dump(
      Json({{"schemaVersion", 2},
            {"mediaType", "application/vnd.oci.image.manifest.v1+json"},
            {"config", descriptor("application/vnd.oci.image.config.v1+json", config,
                                  documents.config.size())},
            {"layers",
             Json::array({descriptor(layer_type(options.packing), layer.packed, layer.size)})}}));
  Json top = descriptor("application/vnd.oci.image.manifest.v1+json",
                        oci::Digest::of(as_bytes(documents.manifest)), documents.manifest.size());
  Json tags = Json::array();
  if (!options.reference.empty()) {
    top["annotations"] = {{"org.opencontainers.image.ref.name", options.reference}};
    tags.push_back(options.reference);
  }
  documents.index = json::dump(Json({{"schemaVersion", 2},
                                     {"mediaType", "application/vnd.oci.image.index.v1+json"},
                                     {"manifests", Json::array({top})}}));
  documents.docker =
      json::dump(Json::array({{{"Config", blob_path(config)},
                               {"RepoTags", tags},
                               {"Layers", Json::array({blob_path(layer.packed)})}}}));
  return documents;
}

constexpr std::string_view kLayoutFile = R"({"imageLayoutVersion":"1.0.0"})";

void write_new(const std::string& path, std::string_view text) {
  const sys::Fd fd = sys::open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  sys::write_all(fd.get(), as_bytes(text));
}

}

void export_tar(const store::Image& image, int output, const ExportOptions& options,
                const Progress& progress) {
  write_files(image, output, options.packing, false, progress);
}

void export_oci_layout(const store::Image& image, const std::string& directory,
                       const ExportOptions& options, const Progress& progress) {
  sys::make_directories(directory + "/blobs/sha256", 0755);
  const std::string unfinished = directory + "/blobs/sha256/layer";
  const sys::Fd fd = sys::open_file(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  const Packer::Packed layer = write_files(image, fd.get(), options.packing, true, progress);
  sys::rename_file(unfinished, directory + "/" + blob_path(layer.packed));
  const Documents documents = documents_of(image.manifest, layer, options);
  for (const std::string* blob : {&documents.config, &documents.manifest})
    write_new(directory + "/" + blob_path(oci::Digest::of(as_bytes(*blob))), *blob);
  write_new(directory + "/oci-layout", kLayoutFile);
  write_new(directory + "/index.json", documents.index);
}

void export_oci_archive(const store::Image& image, int output, int scratch,
                        const ExportOptions& options, const Progress& progress) {
  const Packer::Packed layer = write_files(image, scratch, options.packing, true, progress);
  const Documents documents = documents_of(image.manifest, layer, options);
  TarWriter tar([&](ByteView bytes) { sys::write_all(output, bytes); });
  Attributes file;
  file.permissions = 0644;
  const auto add = [&](const std::string& path, std::string_view text) {
    tar.begin_file(path, text.size(), file);
    tar.data(as_bytes(text));
    tar.end_file();
  };
  add("oci-layout", kLayoutFile);
  add("index.json", documents.index);
  add("manifest.json", documents.docker);
  for (const std::string* blob : {&documents.config, &documents.manifest})
    add(blob_path(oci::Digest::of(as_bytes(*blob))), *blob);
  tar.begin_file(blob_path(layer.packed), layer.size, file);
  Bytes buffer(size_t{1} << 20);
  for (uint64_t done = 0; done < layer.size;) {
    const auto part = std::span(buffer).first(std::min<uint64_t>(buffer.size(), layer.size - done));
    if (!sys::pread_exact(scratch, part, done))
      throw Error(Kind::Internal, "the scratch file lost what was written to it");
    tar.data(part);
    done += part.size();
  }
  tar.end_file();
  tar.finish();
}

}
