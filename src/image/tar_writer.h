#pragma once
// Writes tar archives: POSIX ustar, with pax records (POSIX.1-2017, pax, "pax Header Block") where
// ustar cannot say it, extended attributes as SCHILY.xattr.NAME, and holes as GNU tar's sparse
// format 1.0. The same entries give the same bytes.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/image/tree.h"

namespace mvm::image {

class TarWriter {
 public:
  using Sink = std::function<void(ByteView)>;
  explicit TarWriter(Sink sink) : sink_(std::move(sink)) {}

  // What is not a file with data. `path` is as it shall be there; a directory's ends with a slash.
  void directory(const std::string& path, const Attributes& attributes);
  void symlink(const std::string& path, const std::string& target, const Attributes& attributes);
  void hard_link(const std::string& path, const std::string& target, const Attributes& attributes);
  void fifo(const std::string& path, const Attributes& attributes);

  // A file of `size` bytes: data() with all of them in order, then end_file().
  void begin_file(const std::string& path, uint64_t size, const Attributes& attributes);
  // One with holes: data() with what is in `parts` (offset, length; sorted, apart) alone.
  using Part = std::pair<uint64_t, uint64_t>;
  void begin_sparse_file(const std::string& path, uint64_t size, std::span<const Part> parts,
                         const Attributes& attributes);
  void data(ByteView bytes);
  void end_file();

  void finish();  // the end mark

 private:
  struct Header;
  void put(Header header);
  void put_block(const Header& header);
  void pad(uint64_t length);

  Sink sink_;
  uint64_t left_ = 0;  // of the file's data
  uint64_t padding_ = 0;
};

}
