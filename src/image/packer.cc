#include "packer.h"

#include <zlib.h>
#include <zstd.h>

#include "mvm/base/error.h"
#include "mvm/crypto/hash.h"
#include "mvm/sys/io.h"

namespace mvm::image {

static constexpr size_t kBuffer = size_t{1} << 20;

// What packs: whatever is put in comes out packed, into the buffer that is flushed when it is full.
struct Packer::Impl {
  Impl(int fd, Packing how) : output(fd), packing(how), buffer(kBuffer) {
    if (packing == Packing::Gzip) {
      // 16: a gzip header, without time and name, so that the same bytes come out each time.
      if (::deflateInit2(&zlib, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        throw Error(Kind::Exhausted, "no memory for gzip");
    } else if (packing == Packing::Zstd) {
      zstd = ::ZSTD_createCCtx();
      if (zstd == nullptr) throw Error(Kind::Exhausted, "no memory for zstd");
    }
  }
  ~Impl() {
    if (packing == Packing::Gzip) ::deflateEnd(&zlib);
    ::ZSTD_freeCCtx(zstd);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void write(ByteView bytes) {
    if (packing != Packing::None) packed.update(bytes);
    sys::write_all(output, bytes);
    size += bytes.size();
  }

  void flush() {
    write(ByteView(buffer).first(used));
    used = 0;
  }

  void pack(ByteView bytes, bool last) {
    switch (packing) {
      case Packing::None:
        return copy(bytes, last);
      case Packing::Gzip:
        return deflate(bytes, last);
      case Packing::Zstd:
        return compress(bytes, last);
    }
  }

  void copy(ByteView bytes, bool last) {
    while (!bytes.empty()) {
      const ByteView part = bytes.first(std::min(bytes.size(), buffer.size() - used));
      std::copy(part.begin(), part.end(), &buffer[used]);
      used += part.size();
      bytes = bytes.subspan(part.size());
      if (used == buffer.size()) flush();
    }
    if (last) flush();
  }

  void deflate(ByteView bytes, bool last) {
    // zlib does not write to its input, but has no const.
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
    zlib.avail_in = static_cast<uInt>(bytes.size());
    while (true) {
      zlib.next_out = reinterpret_cast<Bytef*>(&buffer[used]);
      zlib.avail_out = static_cast<uInt>(buffer.size() - used);
      const int result = ::deflate(&zlib, last ? Z_FINISH : Z_NO_FLUSH);
      MVM_ASSERT(result != Z_STREAM_ERROR);
      used = buffer.size() - zlib.avail_out;
      if (used == buffer.size()) {
        flush();
        continue;
      }
      break;
    }
    if (last) flush();
  }

  void compress(ByteView bytes, bool last) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    while (true) {
      ZSTD_outBuffer out{buffer.data(), buffer.size(), used};
      const size_t left =
          ::ZSTD_compressStream2(zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
      if (::ZSTD_isError(left) != 0)
        throw Error(Kind::Internal, std::string("zstd: ") + ::ZSTD_getErrorName(left));
      used = out.pos;
      if (used == buffer.size()) flush();
      if (last ? left == 0 : in.pos == in.size) break;
    }
    if (last) flush();
  }

  int output;
  Packing packing;
  z_stream zlib{};
  ZSTD_CCtx* zstd = nullptr;
  Bytes buffer;
  size_t used = 0;
  crypto::Sha256 plain;
  crypto::Sha256 packed;
  uint64_t size = 0;
};

Packer::Packer(int output, Packing packing) : impl_(std::make_unique<Impl>(output, packing)) {}
Packer::~Packer() = default;

void Packer::put(ByteView bytes) {
  impl_->plain.update(bytes);
  impl_->pack(bytes, false);
}

Packer::Packed Packer::finish() {
  impl_->pack({}, true);
  const oci::Digest plain(impl_->plain.finish());
  if (impl_->packing == Packing::None) return {plain, plain, impl_->size};
  return {plain, oci::Digest(impl_->packed.finish()), impl_->size};
}

}
