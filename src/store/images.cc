// Order of writing is what makes this safe to kill at any point: bytes and manifest are synced and
// renamed into place before a name points at them, and a name goes before the bytes do. What can
// be left over is therefore only a .tmp- directory or a directory without names, never a name
// without bytes.

#include "mvm/store/images.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <tuple>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/crypto/hash.h"
#include "mvm/crypto/random.h"
#include "mvm/oci/reference.h"
#include "mvm/store/quota.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/uninterrupted.h"

#include "image_index.h"

namespace mvm::store {

static constexpr std::string_view kTemporary = ".tmp-";
static constexpr std::string_view kSourceLock = ".lock-";
static constexpr size_t kDigestLength = 64;
static constexpr size_t kMaxManifest = size_t{1} << 20;

static bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Staging::~Staging() {
  // The lock is empty once the directory was committed or this was moved from.
  if (!lock_) return;
  try {
    sys::remove_tree(path_);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // remove_unfinished will try again.
  }
}

SourceLock::~SourceLock() {
  // While it is held: who waits for it sees that it is gone, and takes a new one.
  if (lock_) ::unlink(path_.c_str());
}

struct Images::Impl {
  explicit Impl(const Paths& where) : paths(where), index(where) {}

  std::string directory(std::string_view digest) const {
    return paths.images_dir() + "/" + std::string(digest);
  }

  // A plain name, else docker.io's of that name.
  std::optional<ImageName> known_name(std::string_view ref) {
    ImageName name = parse_image_name(ref);
    if (index.digest_of(name)) return name;
    if (name.name.find('/') != std::string::npos) return std::nullopt;
    name.name.insert(0, "docker.io/library/");
    return index.digest_of(name) ? std::optional(name) : std::nullopt;
  }

  std::vector<std::string> digests() const {
    std::vector<std::string> found;
    for (const std::string& name : sys::list_directory(paths.images_dir()))
      if (is_image_digest(name)) found.push_back(name);
    return found;
  }

  Image load(const std::string& digest) {
    Image image{digest, directory(digest) + "/root.erofs", index.names_of(digest), {}};
    const std::string file = manifest_file(image);
    try {
      image.manifest = manifest_from_json(sys::read_own_text_file(file, kMaxManifest), file);
    } catch (const Error& error) {
      if (error.kind() == Kind::Invalid) refuse_damaged(image, error.message());
      // Images go as a whole.
      if (error.kind() == Kind::NotFound && sys::exists(directory(digest)))
        refuse_damaged(image, "there is no " + file);
      throw;
    }
    if (image.manifest.digest != digest) refuse_damaged(image, file + " is of another image");
    return image;
  }

  // Nothing where it is not, or damaged.
  std::optional<Image> whole(const std::string& digest) {
    if (!sys::exists(directory(digest))) return std::nullopt;
    try {
      Image image = load(digest);
      open_root(image);
      return image;
    } catch (const Error& error) {
      if (error.kind() != Kind::Invalid) throw;
      return std::nullopt;
    }
  }

  struct Reference {
    std::string digest;
    std::optional<ImageName> name;  // when it was found by name
  };
  std::optional<Reference> find(std::string_view ref) {
    if (ref.find('@') != ref.npos) {
      const auto digest = index.made_from(oci::parse_reference(ref).digest->text());
      return digest && sys::exists(directory(*digest))
                 ? std::optional(Reference{*digest, std::nullopt})
                 : std::nullopt;
    }
    std::string_view prefix = ref;
    if (prefix.starts_with("sha256:")) prefix.remove_prefix(7);
    const bool may_be_digest =
        prefix.size() >= kMinDigestPrefix && prefix.size() <= kDigestLength && is_hex(prefix);
    // A name comes first: somebody chose it. (A whole digest is too long for one.)
    if (prefix == ref && !is_image_digest(ref)) {
      if (const auto name = known_name(ref)) return Reference{*index.digest_of(*name), name};
    }
    if (!may_be_digest) return std::nullopt;
    std::optional<Reference> found;
    for (const std::string& digest : digests()) {
      if (!digest.starts_with(prefix)) continue;
      if (found)
        throw Error(Kind::Conflict, "image " + std::string(ref) +
                                        ": more than one digest starts "
                                        "so; give more digits");
      found = Reference{digest, std::nullopt};
    }
    return found;
  }

  [[noreturn]] void not_found(std::string_view ref) {
    std::vector<std::string> known;
    for (const auto& [digest, names] : index.names_by_digest())
      known.insert(known.end(), names.begin(), names.end());
    std::string message = "no image " + printable(ref);
    const std::vector<std::string_view> views(known.begin(), known.end());
    if (const auto near =
            nearest(ref.find(':') == std::string_view::npos ? std::string(ref) + ":latest"
                                                            : std::string(ref),
                    views))
      message += "; did you mean " + *near + "?";
    else if (known.empty())
      message += "; there is none yet: mvm image import DIR|TAR NAME, or mvm image pull NAME";
    else
      message += "; mvm image ls shows what there is, mvm image pull gets more";
    throw Error(Kind::NotFound, message);
  }

  // Renames it away first, so that nobody sees an image with half of its files.
  void remove_bytes(const std::string& digest) const {
    const std::string doomed =
        paths.images_dir() + "/" + crypto::random_id(std::string(kTemporary), 12);
    if (::rename(directory(digest).c_str(), doomed.c_str()) != 0) {
      if (errno == ENOENT) return;
      throw SystemError(errno, "removing image " + digest);
    }
    sys::remove_tree(doomed);
  }

  Paths paths;
  ImageIndex index;
};

Images::Images(const Paths& paths) : impl_(std::make_unique<Impl>(paths)) {}
Images::~Images() = default;
Images::Images(Images&&) noexcept = default;
Images& Images::operator=(Images&&) noexcept = default;

std::vector<Image> Images::list() {
  std::vector<Image> images;
  for (const std::string& digest : impl_->digests()) {
    try {
      images.push_back(impl_->load(digest));
    } catch (const Error& error) {
      // Removed by somebody else since the directory was read: it simply is not there.
      if (error.kind() == Kind::NotFound) continue;
      if (error.kind() != Kind::Invalid && error.kind() != Kind::Unsupported) throw;
      images.push_back({digest,
                        impl_->directory(digest) + "/root.erofs",
                        impl_->index.names_of(digest),
                        {},
                        error.message()});
    }
  }
  std::sort(images.begin(), images.end(), [](const Image& a, const Image& b) {
    return std::tuple(a.names.empty(), a.names, a.digest) <
           std::tuple(b.names.empty(), b.names, b.digest);
  });
  return images;
}

std::optional<Image> Images::find(std::string_view ref) {
  const auto reference = impl_->find(ref);
  if (!reference) return std::nullopt;
  return while_doing("image " + std::string(ref), [&] { return impl_->load(reference->digest); });
}

Image Images::get(std::string_view ref) {
  auto image = find(ref);
  if (!image) impl_->not_found(ref);
  return std::move(*image);
}

bool Images::is_name(std::string_view ref) {
  const auto reference = impl_->find(ref);
  return reference && reference->name;
}

bool Images::whole(std::string_view digest) {
  return impl_->whole(std::string(digest)).has_value();
}

std::optional<Image> Images::adopt(std::string_view source_key, const ImageName& name) {
  MVM_ASSERT(!source_key.empty());
  const auto made = [&]() -> std::optional<Image> {
    const auto digest = impl_->index.made_by(source_key);
    return digest ? impl_->whole(*digest) : std::nullopt;
  };
  // Most often the name is that image's already, and nothing has to be written.
  auto image = made();
  if (!image || impl_->index.digest_of(name) == image->digest) return image;
  ImageIndex::Change change(impl_->index);
  image = made();
  if (!image) return std::nullopt;
  change.set_name(name, image->digest);
  change.commit();
  return impl_->load(image->digest);
}

std::optional<SourceLock> Images::lock_source(std::string_view source_key) {
  const std::string path = impl_->paths.images_dir() + "/" + std::string(kSourceLock) +
                           crypto::digest_hex(crypto::sha256(as_bytes(source_key)));
  while (true) {
    auto lock = sys::try_lock_file(path);
    if (!lock) return std::nullopt;
    // Whoever held it before may have removed it between our open and our lock.
    struct stat ours{};
    struct stat there{};
    sys::check(::fstat(lock->get(), &ours), "reading status of " + path);
    if (::stat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino)
      return SourceLock(path, std::move(*lock));
  }
}

Staging Images::stage() {
  const std::string path =
      impl_->paths.images_dir() + "/" + crypto::random_id(std::string(kTemporary), 12);
  sys::check(::mkdir(path.c_str(), 0700), "making directory " + path);
  ScopeExit undo([&] { ::rmdir(path.c_str()); });
  sys::Fd lock = sys::open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  sys::check(::flock(lock.get(), LOCK_EX | LOCK_NB), "locking " + path);
  undo.release();
  return {path, std::move(lock)};
}

std::optional<uint64_t> Images::room() const { return Quota(impl_->paths).room(); }

void Images::require_room(uint64_t more) const { Quota(impl_->paths).require(more); }

Image Images::commit(Staging staging, const Manifest& manifest, const ImageName& name) {
  MVM_ASSERT(is_image_digest(manifest.digest));
  const sys::Fd root = sys::open_own_file(staging.root(), O_RDONLY);
  sys::check(sys::uninterrupted([&] { return ::fsync(root.get()); }), "syncing " + staging.root());
  sys::check(::fchmod(root.get(), 0400), "setting the mode of " + staging.root());
  sys::write_file_atomic(staging.path() + "/manifest.json", as_bytes(manifest_to_json(manifest)));

  const std::string final_path = impl_->directory(manifest.digest);
  // The bytes and the name appear in one transaction, so that a removal of the last name of these
  // bytes cannot come in between.
  ImageIndex::Change change(impl_->index);
  Manifest known = manifest;
  // The staged file counts already, and of imports at the same time one is here first.
  if (!sys::exists(final_path)) Quota(impl_->paths).require(0);
  if (::rename(staging.path().c_str(), final_path.c_str()) == 0) {
    staging.lock_.reset();
  } else if (errno != EEXIST && errno != ENOTEMPTY) {
    throw SystemError(errno, "moving the image to " + final_path);
  } else if (auto kept = impl_->whole(manifest.digest); !kept) {
    // Sandboxes that run from what is damaged have it open.
    impl_->remove_bytes(manifest.digest);
    sys::rename_file(staging.path(), final_path);
    staging.lock_.reset();
  } else if (!manifest.source_key.empty()) {
    // The same files and configuration from another manifest: whoever pins that one finds it.
    kept->manifest.source_digest = manifest.source_digest;
    kept->manifest.source_index = manifest.source_index;
    kept->manifest.source_key = manifest.source_key;
    kept->manifest.layers = manifest.layers;
    sys::write_file_atomic(manifest_file(*kept), as_bytes(manifest_to_json(kept->manifest)));
  } else {
    known = std::move(kept->manifest);
  }
  sys::sync_directory(impl_->paths.images_dir());
  change.set_name(name, manifest.digest);
  change.remember(known);
  change.commit();
  return impl_->load(manifest.digest);
}

void Images::set_name(const ImageName& name, std::string_view digest) {
  ImageIndex::Change change(impl_->index);
  change.set_name(name, digest);
  change.commit();
}

Image Images::tag(std::string_view ref, const ImageName& name) {
  ImageIndex::Change change(impl_->index);
  const auto reference = impl_->find(ref);
  if (!reference) impl_->not_found(ref);
  impl_->load(reference->digest);  // throws for one that is damaged
  change.set_name(name, reference->digest);
  change.commit();
  return impl_->load(reference->digest);
}

bool Images::remembers_source(const Image& image) {
  return impl_->index.agrees_with(image.manifest);
}

Images::Pruned Images::prune(const InUse& in_use, bool all, bool dry_run) {
  Pruned pruned;
  for (const Image& image : list()) {
    if (!all && !image.names.empty()) continue;
    if (in_use && !in_use(image.digest).empty()) continue;
    struct stat status{};
    if (::stat(image.root.c_str(), &status) != 0) status = {};  // a damaged one may have lost it
    try {
      if (!dry_run) remove("sha256:" + image.digest, in_use);
    } catch (const Error& error) {
      // Taken into use, or removed, since we looked.
      if (error.kind() != Kind::Conflict && error.kind() != Kind::NotFound) throw;
      continue;
    }
    pruned.digests.push_back(image.digest);
    pruned.bytes += static_cast<uint64_t>(status.st_blocks) * 512;
  }
  return pruned;
}

bool Images::remove(std::string_view ref, const InUse& in_use, bool force) {
  ImageIndex::Change change(impl_->index);
  const auto reference = impl_->find(ref);
  if (!reference) impl_->not_found(ref);
  const std::string& digest = reference->digest;

  if (reference->name && impl_->index.names_of(digest).size() > 1) {
    change.remove_name(*reference->name);
    change.commit();
    return false;
  }
  const std::vector<std::string> users = in_use ? in_use(digest) : std::vector<std::string>{};
  if (!users.empty() && !force) {
    std::string list;
    for (const std::string& user : users) list += (list.empty() ? "" : ", ") + user;
    throw Error(Kind::Conflict,
                "image " + std::string(ref) + " is in use by " + list + "; remove them first");
  }
  change.forget(digest);
  change.commit();
  impl_->remove_bytes(digest);
  return true;
}

bool Images::check_index() { return impl_->index.check(); }

size_t Images::remove_unfinished() {
  size_t removed = 0;
  for (const std::string& name : sys::list_directory(impl_->paths.images_dir())) {
    const std::string path = impl_->paths.images_dir() + "/" + name;
    if (name.starts_with(kSourceLock)) {
      if (const auto lock = sys::try_lock_file(path)) sys::remove_file(path);
      continue;
    }
    if (!name.starts_with(kTemporary)) continue;
    // What is no directory of ours is nobody's staging: it goes, whatever it is or points to.
    const sys::Fd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    sys::remove_tree(path);
    ++removed;
  }
  return removed;
}

}
