#pragma once
// From a directory, a tar archive or an OCI image to an image of ours: the way in for every root
// file system.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "mvm/base/bytes.h"
#include "mvm/image/oci_source.h"
#include "mvm/store/images.h"

namespace mvm::image {

// What a source may hold at most. Sources are hostile: nothing below is exceeded, whatever they
// say.
struct Limits {
  uint64_t content = uint64_t{64} << 30;   // bytes of file data
  uint64_t entries = uint64_t{4} << 20;    // files, directories and links
  uint64_t metadata = uint64_t{1} << 30;   // bytes of names, link targets and attributes, in memory
  uint64_t unpacked = uint64_t{96} << 30;  // bytes of tar streams that layers unpack to
};

struct Owner {
  uid_t uid = 0;
  gid_t gid = 0;
};

struct ImportOptions {
  std::optional<Owner> owner;    // everything belongs to it; else as the source says
  bool one_file_system = false;  // directory: what is mounted below it stays out
  bool drop_set_id = false;      // archives: files lose their set-user-ID and set-group-ID bits
  Selection selection;           // OCI: which image, where there are several
  Limits limits;
  store::ImageConfig config;
};

enum class Phase { Waiting, Downloading, Reading, Writing, Hashing, Storing };
std::string_view phase_name(Phase phase);  // "reading", ...

// Called from the importing thread, at most once per MiB of work and at each phase's end. It may
// throw to give up; nothing is left behind then.
using Progress = std::function<void(uint64_t done, std::optional<uint64_t> total, Phase phase)>;

struct Imported {
  store::Image image;
  bool existed = false;            // the store had these very bytes
  std::vector<std::string> notes;  // what was left out and why, one line a kind
};

// `source` is a directory, a tar archive (plain, gzip, bzip2, xz or zstd), or an OCI image: a
// layout (directory or archive) or what `docker save` writes, told by their content. The same
// source gives the same bytes, and so the same digest. Throws Error: Invalid names the archive
// entry or file that is wrong, Exhausted the limit.
Imported import_image(store::Images& images, const std::string& source,
                      const store::ImageName& name, const ImportOptions& options = {},
                      const Progress& progress = {});

// What an archive cannot say of a path, or says otherwise.
struct PathAttributes {
  std::string path;  // absolute, in the image
  uint16_t permissions = 0644;
  Owner owner;
};

// A tar archive that somebody makes while it is read.
struct TarStream {
  std::function<ByteView()> next;  // the next piece, valid until the next call; empty: no more
  std::string shown;               // where it comes from, for messages and the manifest
  std::string kind;                // "flake", for the manifest
  std::string key;                 // of the work (store::Manifest::source_key), or ""
  std::vector<PathAttributes> attributes;
};
// Reads it to its end, which is `next` giving nothing: what that throws is thrown, and no image
// made of what was half there.
Imported import_tar(store::Images& images, const TarStream& stream, const store::ImageName& name,
                    const ImportOptions& options = {}, const Progress& progress = {});

// The image that `source` resolves to. Work that is done already, or is being done by another
// import, is not done again. `shown` is where it came from, for messages and the manifest.
Imported import_oci(store::Images& images, OciSource& source, const std::string& shown,
                    const store::ImageName& name, const ImportOptions& options = {},
                    const Progress& progress = {});

}
