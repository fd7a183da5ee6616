#include "mvm/image/verify.h"

#include <algorithm>
#include <string>

#include <fcntl.h>

#include "mvm/base/error.h"
#include "mvm/crypto/hash.h"
#include "mvm/crypto/tree_hash.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "erofs_layout.h"
#include "erofs_read.h"
#include "identity.h"

namespace mvm::image {

// Whether its UUID is the one that it gets with this configuration. Only block 0 depends on the
// UUID, so of all the pieces the first one alone is another than it was when the UUID was chosen.
static bool sealed_with(const store::ImageConfig& config, int root, crypto::FilePieces file) {
  Bytes first(std::min<uint64_t>(file.size, crypto::kTreePiece));
  if (first.size() < erofs::kBlock || !sys::pread_exact(root, first, 0)) return false;
  erofs::Uuid found;
  const auto place = std::span(first).subspan(erofs::kUuidOffset, found.size());
  std::copy_n(place.begin(), found.size(), found.begin());
  std::fill(place.begin(), place.end(), std::byte{});
  erofs::put_checksum(std::span(first).first(erofs::kBlock));
  file.pieces.front() = crypto::sha256(first);
  return found ==
         erofs::uuid_of(crypto::tree_of_pieces(file.size, file.pieces), identity_of(config));
}

store::Image verify_image(store::Images& images, std::string_view ref,
                          const std::function<void(uint64_t)>& progress) {
  store::Image image = images.get(ref);
  const sys::Fd root = store::open_root(image);
  const std::string other_bytes = "the bytes of " + image.root + " are not what its digest names";
  if (image.manifest.version == 1) {
    // Of these the bytes are all that can be told: how their UUIDs were made has changed since.
    if (crypto::digest_hex(crypto::sha256_of_file(root.get(), progress)) != image.digest)
      store::refuse_damaged(image, other_bytes);
    return image;
  }
  crypto::FilePieces file = crypto::pieces_of_file(root.get(), progress);
  if (crypto::digest_hex(crypto::tree_of_pieces(file.size, file.pieces)) != image.digest)
    store::refuse_damaged(image, other_bytes);
  const std::string manifest = store::manifest_file(image);
  if (!sealed_with(image.manifest.config, root.get(), std::move(file)))
    store::refuse_damaged(image, "what " + manifest + " says it runs is not what it was made with");
  if (ErofsImage(root.get()).inodes() != image.manifest.files)
    store::refuse_damaged(image, "it does not have as many files as " + manifest + " says");
  if (!images.remembers_source(image))
    store::refuse_damaged(
        image, manifest + " says that it was made from something else than what was noted then");
  return image;
}

}
