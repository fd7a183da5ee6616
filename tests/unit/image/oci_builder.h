#pragma once
// Writes OCI layouts byte by byte, so that a test can lie anywhere.

#include <map>
#include <string>
#include <vector>

#include <zlib.h>
#include <zstd.h>

#include "mvm/base/bytes.h"
#include "mvm/json/json.h"
#include "mvm/oci/digest.h"
#include "mvm/sys/file.h"

#include "unit/image/tar_builder.h"

namespace mvm::image {

inline std::string gzip(const std::string& text) {
  z_stream stream{};
  ::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(::deflateBound(&stream, text.size()), '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

inline std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

inline std::string digest_of(const std::string& text) {
  return oci::Digest::of(as_bytes(text)).text();
}

class OciBuilder {
 public:
  using Json = json::Value;
  static constexpr const char* kLayer = "application/vnd.oci.image.layer.v1.tar";

  Json config = {{"os", "linux"}, {"architecture", "amd64"}, {"config", Json::object()}};
  std::map<std::string, std::string> blobs;  // by digest

  OciBuilder() {
    config["rootfs"] = {{"type", "layers"}, {"diff_ids", Json::array()}};
    layers_ = Json::array();
  }

  std::string blob(const std::string& content) {
    std::string digest = digest_of(content);
    blobs[digest] = content;
    return digest;
  }
  Json descriptor(const std::string& type, const std::string& content) {
    return {{"mediaType", type}, {"digest", blob(content)}, {"size", content.size()}};
  }
  // A layer that is stored as `packed` and promises to unpack to `tar`.
  OciBuilder& layer(const std::string& tar, const std::string& packed,
                    const std::string& type = kLayer) {
    config["rootfs"]["diff_ids"].push_back(digest_of(tar));
    layers_.push_back(descriptor(type, packed));
    return *this;
  }
  OciBuilder& layer(const TarBuilder& tar) {
    return layer(tar.bytes(), gzip(tar.bytes()), std::string(kLayer) + "+gzip");
  }

  Json& layers() { return layers_; }

  Json manifest() {
    return {{"schemaVersion", 2},
            {"mediaType", "application/vnd.oci.image.manifest.v1+json"},
            {"config", descriptor("application/vnd.oci.image.config.v1+json", config.dump())},
            {"layers", layers_}};
  }
  // The manifest as an entry of an index.
  Json entry(const Json& platform = nullptr, const std::string& name = "") {
    Json json = descriptor("application/vnd.oci.image.manifest.v1+json", manifest().dump());
    if (!platform.is_null()) json["platform"] = platform;
    if (!name.empty()) json["annotations"]["org.opencontainers.image.ref.name"] = name;
    return json;
  }
  static Json index(const std::vector<Json>& entries) {
    return {{"schemaVersion", 2},
            {"mediaType", "application/vnd.oci.image.index.v1+json"},
            {"manifests", entries}};
  }

  // The files of a layout, by path.
  std::map<std::string, std::string> files(const Json& index) const {
    std::map<std::string, std::string> out{{"oci-layout", R"({"imageLayoutVersion":"1.0.0"})"},
                                           {"index.json", index.dump()}};
    for (const auto& [digest, content] : blobs) out["blobs/sha256/" + digest.substr(7)] = content;
    return out;
  }
  std::string save(const std::string& directory, const Json& index) const {
    sys::make_directories(directory + "/blobs/sha256");
    for (const auto& [path, content] : files(index))
      sys::write_file_atomic(directory + "/" + path, as_bytes(content));
    return directory;
  }
  std::string save(const std::string& directory) {
    const Json only = entry();
    return save(directory, index({only}));
  }

 private:
  Json layers_;
};

}
