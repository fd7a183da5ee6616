#pragma once
// The image store: read-only root file systems, addressed by the SHA-256 of their bytes, and the
// names that people give them.
//
//   data/images/<digest>/root.erofs      what a sandbox maps read-only; shared by all of them
//   data/images/<digest>/manifest.json   what it is and where it came from
//   data/images/.tmp-XXXX/               an import under way; locked while its process lives
//
// An image appears by one rename of its finished, synced directory, so it exists whole or not at
// all. Names are rows of an index (images.db) that is made anew from files when it is lost.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/proto/health.h"
#include "mvm/store/paths.h"
#include "mvm/sys/fd.h"

namespace mvm::store {

// The shortest part of a digest that may stand for it.
inline constexpr size_t kMinDigestPrefix = 12;
// 1: the digest is SHA-256 of all bytes in their order. 2: it is crypto::tree_of_file.
inline constexpr int kManifestVersion = 2;

// "name" or "name:tag"; the tag is "latest" when there is none. A plain name follows
// name_complaint; one with a slash is a repository of a registry with its host
// ("docker.io/library/python").
struct ImageName {
  std::string name;
  std::string tag;
  std::string text() const { return name + ":" + tag; }
  bool operator==(const ImageName&) const = default;
};
// Throws Error{Invalid} with the complaint.
ImageName parse_image_name(std::string_view text);

// What a sandbox of this image runs by default; every part may be empty.
struct ImageConfig {
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::string> env;  // "NAME=value"
  std::string user;
  std::string workdir;
  std::string stop_signal;
  std::map<std::string, std::string> labels;
  std::optional<proto::HealthCheck> health = std::nullopt;
  std::string kernel;  // name of an installed one; empty: the host's default
  bool operator==(const ImageConfig&) const = default;
};

struct Manifest {
  int version = kManifestVersion;
  std::string name;         // name:tag it was first imported as
  std::string created;      // RFC 3339, UTC
  std::string source_kind;  // "directory", "tar", "oci-layout", "registry", ...
  std::string source_path;
  // OCI: the manifest it was made from, and the index that this was chosen from ("sha256:..."), and
  // the blobs of its layers. source_key names the work: of equal keys come equal images.
  std::string source_digest;
  std::string source_index;
  std::string source_key;
  std::vector<std::string> layers;
  std::string digest;          // of root.erofs, 64 hex digits
  uint64_t size = 0;           // of root.erofs, bytes
  uint64_t files = 0;          // inodes in it
  uint64_t content_bytes = 0;  // sum of its files' sizes
  ImageConfig config;
};

std::string manifest_to_json(const Manifest& manifest);
// Throws Error{Invalid}; `where` names the file in the message.
Manifest manifest_from_json(std::string_view json, std::string_view where);

struct Image {
  std::string digest;
  std::string root;                // path of root.erofs
  std::vector<std::string> names;  // name:tag, sorted; empty for an image that lost its name
  Manifest manifest;
  std::string problem;  // why its manifest cannot be read, and is empty here: list() alone
};

std::string manifest_file(const Image& image);
// Throws Error{Invalid}: which image is damaged, how, and what the next step is.
[[noreturn]] void refuse_damaged(const Image& image, const std::string& why);
// root.erofs for reading. Throws Error{Invalid} with the next step where it is gone or has not the
// size that it was made with.
sys::Fd open_root(const Image& image);

// A directory that becomes an image with Images::commit, or vanishes when dropped.
class Staging {
 public:
  ~Staging();
  Staging(Staging&&) noexcept = default;
  Staging& operator=(Staging&&) = delete;
  const std::string& path() const { return path_; }
  std::string root() const { return path_ + "/root.erofs"; }

 private:
  friend class Images;
  Staging(std::string path, sys::Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  sys::Fd lock_;
};

// The right to make the image of one source.
class SourceLock {
 public:
  ~SourceLock();
  SourceLock(SourceLock&&) noexcept = default;
  SourceLock& operator=(SourceLock&&) = delete;

 private:
  friend class Images;
  SourceLock(std::string path, sys::Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  sys::Fd lock_;
};

// One thread's view of the store; each thread makes its own. Any number of them, in any number of
// processes, may work at once.
class Images {
 public:
  // Opens the index, and makes it anew where it is missing or no database. ensure_data() must have
  // run.
  explicit Images(const Paths& paths);
  ~Images();
  Images(Images&&) noexcept;
  Images& operator=(Images&&) noexcept;

  // By first name, then digest. What is damaged is among them, with its problem.
  std::vector<Image> list();
  // By name, name:tag, digest, or a unique prefix of a digest of at least kMinDigestPrefix digits.
  // A plain name that nobody gave is docker.io's of that name, where that was pulled. With
  // "@sha256:..." it is what was made from the OCI manifest or index of that digest, whatever its
  // name. Throws Error{Invalid} with the next step when its manifest is damaged.
  std::optional<Image> find(std::string_view ref);
  // The same; throws Error{NotFound} that names near misses. An ambiguous prefix is Conflict.
  Image get(std::string_view ref);

  // Whether `ref` finds an image by a name, which may be another image's tomorrow, and not by a
  // digest.
  bool is_name(std::string_view ref);
  // Whether there is an image of this digest, with a manifest that can be read and bytes of the
  // size that it says.
  bool whole(std::string_view digest);
  // What was made from a source with this key and is whole, after pointing `name` at it.
  std::optional<Image> adopt(std::string_view source_key, const ImageName& name);
  // Held by whoever makes the image of a source, so that it is made once; nothing while somebody
  // else does. It goes with the process.
  std::optional<SourceLock> lock_source(std::string_view source_key);

  Staging stage();
  // What the store's quota leaves for images; nothing when there is none.
  std::optional<uint64_t> room() const;
  // Throws Error{Exhausted} with the ways out when `more` bytes do not fit.
  void require_room(uint64_t more) const;
  // Takes a staged root.erofs into the store under manifest.digest and points `name` at it. Where
  // an image of that digest is there already and whole, it is kept and the staged copy goes; one
  // that is damaged is replaced. Error{Exhausted} when it does not fit the quota.
  Image commit(Staging staging, const Manifest& manifest, const ImageName& name);
  void set_name(const ImageName& name, std::string_view digest);
  // Gives what `ref` names another name; taken from the image that had it.
  Image tag(std::string_view ref, const ImageName& name);
  // Whether its manifest says that it was made from what was noted when it was made.
  bool remembers_source(const Image& image);

  // `in_use` tells which sandboxes use a digest (ids or names, for the message). By name: the name
  // goes, and the bytes with it when it was the last. By digest: all names and the bytes. Bytes in
  // use are Conflict unless forced. Returns true when the bytes were removed.
  using InUse = std::function<std::vector<std::string>(const std::string& digest)>;
  bool remove(std::string_view ref, const InUse& in_use, bool force = false);

  // Removes what no sandbox was made from: images without a name, with `all` those with one too.
  struct Pruned {
    std::vector<std::string> digests;
    uint64_t bytes = 0;  // of disk
  };
  Pruned prune(const InUse& in_use, bool all, bool dry_run = false);

  // Reads all of the index, and makes it anew where it is damaged. Returns whether that, or the
  // constructor, had to make it for images that were there. For the daemon's start.
  bool check_index();

  // What an interrupted import or removal left; a running import's directory is locked and stays.
  // For the daemon's start. Returns how many went.
  size_t remove_unfinished();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}
