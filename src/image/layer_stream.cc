#include "layer_stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/crypto/hash.h"
#include "mvm/sys/io.h"

#include "inflate.h"

namespace mvm::image {

static constexpr size_t kPiece = size_t{256} << 10;
static constexpr size_t kPieces = 32;  // 8 MiB: how far a layer is unpacked before it is its turn

// Pieces go round: the thread fills the free ones in order, the reader has at most one in hand.
struct LayerStream::Impl {
  Impl(Blob source, const Layer& expected, uint64_t most)
      : blob(std::move(source)), layer(expected), limit(most) {}

  void run() noexcept {
    try {
      produce();
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  }

  void produce() {
    crypto::Sha256 packed;
    const bool check_packed = layer.digest && !blob.verified;
    const auto input = [&](std::span<std::byte> into) {
      const uint64_t done = consumed.load(std::memory_order_relaxed);
      const auto want = static_cast<size_t>(std::min<uint64_t>(into.size(), blob.size - done));
      if (want == 0) return size_t{0};
      const size_t got = sys::pread_some(blob.fd.get(), into.first(want), blob.offset + done);
      if (got == 0) throw Error(Kind::Invalid, "it has been cut off");
      if (check_packed) packed.update(into.first(got));
      consumed.store(done + got, std::memory_order_relaxed);
      return got;
    };
    Inflater inflater(input, limit);
    while (true) {
      Piece* piece = take_free();
      if (piece == nullptr) return;  // nobody wants more
      if (!piece->room) piece->room = std::make_unique_for_overwrite<std::byte[]>(kPiece);
      piece->size = inflater.read({piece->room.get(), kPiece});
      if (piece->size == 0) break;
      put_full();
    }
    if (check_packed && oci::Digest(packed.finish()) != *layer.digest)
      throw Error(Kind::Invalid, "its content is not what its digest promises");
  }

  struct Piece {
    std::unique_ptr<std::byte[]> room;  // kPiece bytes, once it is used
    size_t size = 0;
  };

  Piece* take_free() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return stopping || filled - drained < kPieces; });
    return stopping ? nullptr : &pieces.at(filled % kPieces);
  }
  void put_full() {
    const std::lock_guard lock(mutex);
    ++filled;
    changed.notify_all();
  }

  // For the reader; empty when no more comes.
  ByteView wait_for_piece() {
    std::unique_lock lock(mutex);
    if (in_hand) {
      in_hand = false;
      ++drained;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return ended || filled > drained; });
    // What was read before it went wrong is not worth looking at either.
    if (failure) std::rethrow_exception(failure);
    if (filled == drained) return {};
    in_hand = true;
    const Piece& piece = pieces.at(drained % kPieces);
    return {piece.room.get(), piece.size};
  }

  Blob blob;
  Layer layer;
  uint64_t limit;
  std::atomic<uint64_t> consumed{0};

  std::mutex mutex;
  std::condition_variable changed;
  std::array<Piece, kPieces> pieces;
  uint64_t filled = 0;   // pieces, ever
  uint64_t drained = 0;  // the same
  bool in_hand = false;  // the reader still looks at piece number `drained`
  bool stopping = false;
  bool ended = false;
  std::exception_ptr failure;
  std::thread thread;

  // The reader's own.
  crypto::Sha256 unpacked;
  bool verified = false;
};

LayerStream::LayerStream(Blob blob, const Layer& layer, uint64_t limit)
    : impl_(std::make_unique<Impl>(std::move(blob), layer, limit)) {
  if (layer.digest && impl_->blob.size != layer.size)
    throw Error(Kind::Invalid, "it has " + std::to_string(impl_->blob.size) + " bytes, not the " +
                                   std::to_string(layer.size) + " that the manifest promises");
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

LayerStream::~LayerStream() {
  if (!impl_->thread.joinable()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    impl_->changed.notify_all();
  }
  impl_->thread.join();
}

ByteView LayerStream::next() {
  const ByteView piece = impl_->wait_for_piece();
  if (!piece.empty()) {
    impl_->unpacked.update(piece);
  } else if (!impl_->verified) {
    if (oci::Digest(impl_->unpacked.finish()) != impl_->layer.diff_id)
      throw Error(Kind::Invalid,
                  "what it unpacks to is not what the image's configuration promises");
    impl_->verified = true;
  }
  return piece;
}

uint64_t LayerStream::consumed() const { return impl_->consumed.load(std::memory_order_relaxed); }

}
