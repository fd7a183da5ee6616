// How an image is laid out
//
// File data comes first, because it is streamed before the tree is known: each file's whole blocks
// are appended to the output, what is left of it (less than a block) goes to the scratch file when
// it fits behind its inode in one block, else into a padded block.
//
// finish() then knows every inode. An inode with its attributes and inline data must not cross a
// block where it fits into one (the kernel refuses inline data that does), so they are packed best
// fit into metadata blocks; each gets its slot, and with it the nid that directories refer to.
// Directory data is written once all nids are known, then the metadata in the order of slots.

#include "mvm/image/erofs.h"

#include <algorithm>
#include <utility>

#include "erofs_writer.h"

namespace mvm::image {

ErofsWriter::ErofsWriter(int output, int scratch, uint64_t max_bytes)
    : impl_(std::make_unique<Impl>(output, scratch, max_bytes)) {}
ErofsWriter::~ErofsWriter() = default;
uint64_t ErofsWriter::written() const { return impl_->written(); }

void ErofsWriter::begin_file(uint64_t size, const Attributes& attributes, bool sparse) {
  Impl& impl = *impl_;
  impl.file = OpenFile{};
  OpenFile& file = impl.file;
  file.size = size;
  file.body = size;
  if (sparse && size > kBlock) {
    file.sparse = true;
    file.extent.layout = Extent::Layout::Chunked;
    const uint64_t blocks = (size - 1) / kBlock + 1;
    while (((blocks - 1) >> file.extent.chunk_bits) + 1 > kMaxChunks) ++file.extent.chunk_bits;
    file.chunk_size = uint64_t{kBlock} << file.extent.chunk_bits;
    return;
  }
  impl.check_room(size);
  impl.data.align();
  file.extent.first_block = Impl::block_number(impl.data.position());
  const uint64_t tail = size % kBlock;
  if (tail != 0 && tail <= inline_room(attributes)) {
    file.extent.layout = Extent::Layout::Inline;
    file.extent.tail_size = static_cast<uint16_t>(tail);
    file.extent.tail_offset = impl.tails.position();
    file.body = size - tail;
  }
  if (file.body == 0) file.extent.first_block = 0;
}

void ErofsWriter::append(ByteView bytes) {
  Impl& impl = *impl_;
  OpenFile& file = impl.file;
  MVM_ASSERT(bytes.size() <= file.size - file.position);
  while (!bytes.empty()) {
    impl.enter_chunk();
    const ByteView part = bytes.first(std::min<uint64_t>(bytes.size(), impl.run()));
    impl.check_room(part.size());
    (file.position < file.body ? impl.data : impl.tails).put(part);
    file.position += part.size();
    bytes = bytes.subspan(part.size());
  }
}

void ErofsWriter::skip(uint64_t length) {
  Impl& impl = *impl_;
  OpenFile& file = impl.file;
  MVM_ASSERT(length <= file.size - file.position);
  while (length > 0) {
    if (file.sparse && file.position % file.chunk_size == 0) {
      const uint64_t chunk = std::min(file.chunk_size, file.size - file.position);
      if (length >= chunk) {
        file.chunks.push_back(kHole);
        file.position += chunk;
        length -= chunk;
        continue;
      }
    }
    impl.enter_chunk();
    const uint64_t part = std::min(length, impl.run());
    impl.check_room(part);
    (file.position < file.body ? impl.data : impl.tails).gap(part);
    file.position += part;
    length -= part;
  }
}

uint64_t ErofsWriter::append_from(int fd, uint64_t offset, uint64_t length) {
  Impl& impl = *impl_;
  OpenFile& file = impl.file;
  MVM_ASSERT(length <= file.size - file.position);
  uint64_t done = 0;
  while (done < length) {
    impl.enter_chunk();
    const uint64_t part = std::min(length - done, impl.run());
    impl.check_room(part);
    Appender& sink = file.position < file.body ? impl.data : impl.tails;
    const uint64_t got = sink.copy_from(fd, offset + done, part);
    file.position += got;
    done += got;
    if (got < part) break;
  }
  return done;
}

void ErofsWriter::end_file(Node& node) {
  Impl& impl = *impl_;
  MVM_ASSERT(impl.file.position == impl.file.size);
  node.size = impl.file.size;
  node.extent = impl.file.extent;
  if (!impl.file.chunks.empty()) node.set_chunks(std::move(impl.file.chunks));
  impl.content_bytes += node.size;
  impl.chunked_files |= node.extent.layout == Extent::Layout::Chunked;
  impl.file = OpenFile{};
}

}
