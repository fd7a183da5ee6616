// Tar archives, read through libarchive with nothing but its tar format and stream filters on.
//
// The archive is hostile. It is never unpacked: an entry's path is cut into components and walked
// in the in-memory tree, so there is no link on the host to be followed. libarchive bounds its own
// headers (1 MiB each); content is bounded by the writer; what is skipped is read through the same
// bound, so that a compressed bomb ends there too.
//
// A layer's stream is inflated and verified by ourselves (layer_stream.h), and libarchive sees
// plain tar.

#include <algorithm>
#include <memory>

#include <archive.h>
#include <archive_entry.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/image/source.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "layer_stream.h"
#include "reading.h"
#include "tar_entries.h"

namespace mvm::image {

static constexpr size_t kReadSize = size_t{256} << 10;
static constexpr uint64_t kTarBlock = 512;

void fail_tar(archive* handle) {
  const char* text = archive_error_string(handle);
  const std::string message = text != nullptr ? printable(text) : "not readable";
  if (archive_errno(handle) == ENOMEM) throw Error(Kind::Exhausted, message);
  throw Error(Kind::Invalid,
              "not a whole tar archive (plain, gzip, bzip2, xz or zstd): " + message);
}

namespace {

// Runs libarchive over pieces that somebody gives.
class TarReader {
 public:
  using Feed = std::function<ByteView()>;  // the next piece; empty at the end

  explicit TarReader(Feed feed)
      : feed_(std::move(feed)), archive_(archive_read_new(), &archive_read_free) {
    MVM_ASSERT(archive_ != nullptr);
    archive_read_support_format_tar(archive_.get());
  }
  archive* handle() { return archive_.get(); }

  void read(const Tree& tree, const Limits& limits, TarEntries& entries, Stacking stacking) {
    if (archive_read_open(archive_.get(), this, nullptr, &TarReader::give, nullptr) != ARCHIVE_OK)
      fail();
    uint64_t count = 0;
    while (true) {
      archive_entry* entry = nullptr;
      const int result = archive_read_next_header(archive_.get(), &entry);
      if (result == ARCHIVE_EOF) break;
      // A warning is about a name or time it could not convert; the entry itself is usable, and
      // names are checked below.
      if (result != ARCHIVE_OK && result != ARCHIVE_WARN) fail();
      const char* path = archive_entry_pathname(entry);
      const std::string name = path != nullptr ? path : "";
      take(entries, name, entry);
      check_tree_limits(tree, limits);
      if (++count > limits.entries)
        throw Error(Kind::Exhausted, "more than " + std::to_string(limits.entries) + " entries");
      data_end_ = archive_filter_bytes(archive_.get(), 0);
    }
    if (failure_) std::rethrow_exception(failure_);
    // A layer's digests say that it is whole, and some builders leave the end mark out.
    if (stacking == Stacking::Layer) return;
    check_end();
    if (count == 0) throw Error(Kind::Invalid, "the archive is empty");
  }

 private:
  // Called from C, which exceptions must not cross.
  static la_ssize_t give(archive* handle, void* self, const void** buffer) {
    auto* reader = static_cast<TarReader*>(self);
    try {
      const ByteView piece = reader->feed_();
      *buffer = piece.data();
      return static_cast<la_ssize_t>(piece.size());
    } catch (const Error& error) {
      reader->failure_ = std::current_exception();
      archive_set_error(handle, EIO, "%s", error.what());
      return ARCHIVE_FATAL;
    }
  }

  void take(TarEntries& entries, const std::string& name, archive_entry* entry) {
    try {
      while_doing("entry \"" + printable(name) + "\"", [&] { entries.add(name, entry); });
    } catch (const Error&) {
      if (failure_) std::rethrow_exception(failure_);
      throw;
    }
  }

  // What went wrong below libarchive is the cause; its own words are about the consequence.
  [[noreturn]] void fail() {
    if (failure_) std::rethrow_exception(failure_);
    fail_tar(archive_.get());
  }

  // An archive ends with a block of zeros. Without it, it was cut off exactly between two entries,
  // which libarchive lets pass.
  void check_end() const {
    const auto padded = static_cast<uint64_t>(data_end_) + kTarBlock - 1;
    const uint64_t last_entry = padded - padded % kTarBlock;
    const auto end = static_cast<uint64_t>(archive_filter_bytes(archive_.get(), 0));
    if (end < last_entry + kTarBlock)
      throw Error(Kind::Invalid, "the archive ends without its end mark; it has been cut off");
  }

  Feed feed_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  std::exception_ptr failure_;
  int64_t data_end_ = 0;  // in the unpacked stream: where the last entry's data ended
};

}

void read_tar(int fd, const std::string& shown, const ImportOptions& options,
              const Progress& progress, Tree& tree, ErofsWriter& writer, Notes& notes) {
  Meter meter(progress, Phase::Reading, sys::file_size(fd));
  Bytes buffer(kReadSize);
  uint64_t done = 0;
  TarReader reader([&] {
    const size_t got = sys::read_some(fd, buffer).value_or(0);
    done += got;
    return ByteView(buffer).first(got);
  });
  archive_read_support_filter_gzip(reader.handle());
  archive_read_support_filter_bzip2(reader.handle());
  archive_read_support_filter_xz(reader.handle());
  archive_read_support_filter_zstd(reader.handle());
  std::set<std::string> dropped;
  TarEntries entries(reader.handle(), Stacking::Whole, options, tree, writer, notes, dropped,
                     [&] { meter.at(done); });
  while_doing(shown, [&] { reader.read(tree, options.limits, entries, Stacking::Whole); });
  meter.tell(done);
}

void read_tar_stream(const std::function<ByteView()>& next, const std::string& shown,
                     const ImportOptions& options, const Progress& progress, Tree& tree,
                     ErofsWriter& writer, Notes& notes) {
  Meter meter(progress, Phase::Reading, std::nullopt);
  uint64_t done = 0;
  TarReader reader([&] {
    const ByteView piece = next();
    done += piece.size();
    if (done > options.limits.unpacked)
      throw Error(Kind::Exhausted,
                  "the archive is larger than " + format_size(options.limits.unpacked));
    return piece;
  });
  std::set<std::string> dropped;
  TarEntries entries(reader.handle(), Stacking::Whole, options, tree, writer, notes, dropped,
                     [&] { meter.at(done); });
  while_doing(shown, [&] {
    reader.read(tree, options.limits, entries, Stacking::Whole);
    // Behind the end mark there is padding up to a record, which tar(1) makes of 10 KiB.
    constexpr uint64_t kMaxPadding = uint64_t{1} << 20;
    const uint64_t end = done;
    while (true) {
      const ByteView piece = next();
      if (piece.empty()) break;
      done += piece.size();
      if (done - end > kMaxPadding)
        throw Error(Kind::Invalid, "the archive goes on behind its end mark");
    }
  });
  meter.tell(done);
}

void LayerReader::read(LayerStream& stream, const std::function<void(uint64_t)>& tick) {
  tree_.next_layer();
  const uint64_t before = unpacked_;
  const Bytes zeros(kTarBlock);
  bool padded = false;
  const auto next = [&] {
    const ByteView piece = stream.next();
    unpacked_ += piece.size();
    if (unpacked_ > options_.limits.unpacked)
      throw Error(Kind::Exhausted,
                  "the layers unpack to more than " + format_size(options_.limits.unpacked));
    return piece;
  };
  TarReader reader([&] {
    const ByteView piece = next();
    if (!piece.empty() || padded) return piece;
    // Some builders (umoci) end with the last file's last byte instead of a whole block.
    padded = true;
    return ByteView(zeros).first((kTarBlock - (unpacked_ - before) % kTarBlock) % kTarBlock);
  });
  TarEntries entries(reader.handle(), Stacking::Layer, options_, tree_, writer_, notes_, dropped_,
                     [&] {
                       // What was filled in is no content.
                       if (padded) throw Error(Kind::Invalid, "the layer ends within it");
                       tick(stream.consumed());
                     });
  archive_read_support_format_empty(reader.handle());
  reader.read(tree_, options_.limits, entries, Stacking::Layer);
  // What follows the end mark is part of what the digests are about.
  while (!next().empty()) {
  }
  tick(stream.consumed());
}

}
