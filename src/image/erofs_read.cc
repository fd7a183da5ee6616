#include "erofs_read.h"

#include <algorithm>
#include <set>

#include <sys/stat.h>

#include "mvm/base/checked.h"
#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/image/erofs.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "erofs_layout.h"

namespace mvm::image {

using erofs::kBlock;

static constexpr uint64_t kPiece = uint64_t{1} << 20;
static constexpr uint64_t kXattrHeader = 12;

[[noreturn]] static void damaged(const std::string& what) {
  throw Error(Kind::Invalid, "the image is damaged: " + what);
}

template <typename T>
static T at(ByteView bytes, size_t offset) {
  T value{};
  MVM_ASSERT(offset <= bytes.size() && sizeof value <= bytes.size() - offset);
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

ErofsImage::ErofsImage(int fd) : fd_(fd), size_(sys::file_size(fd)) {
  std::array<std::byte, kBlock> block{};
  load(block, 0);
  const ByteView super = ByteView(block).subspan(erofs::kSuperOffset);
  Bytes summed(super.begin(), super.end());
  std::fill_n(summed.begin() + 4, 4, std::byte{});
  if (at<uint32_t>(super, 0) != erofs::kMagic ||
      at<uint32_t>(super, 4) != erofs::crc32c(~uint32_t{0}, summed))
    damaged("its first block is not what was written");
  root_ = at<uint16_t>(super, 14);
  inodes_ = at<uint64_t>(super, 16);
  time_ = at<int64_t>(super, 24);
  time_nsec_ = at<uint32_t>(super, 32);
  meta_ = uint64_t{at<uint32_t>(super, 40)} * kBlock;
}

void ErofsImage::load(std::span<std::byte> into, uint64_t offset) const {
  if (offset > size_ || into.size() > size_ - offset || !sys::pread_exact(fd_, into, offset))
    damaged("it ends too early");
}

static Type type_of(uint16_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return Type::Regular;
    case S_IFDIR:
      return Type::Directory;
    case S_IFLNK:
      return Type::Symlink;
    case S_IFIFO:
      return Type::Fifo;
    default:
      damaged("an inode of an unknown kind");
  }
}

static Extent::Layout layout_of(unsigned bits) {
  switch (bits) {
    case 0:
      return Extent::Layout::Plain;
    case 2:
      return Extent::Layout::Inline;
    case 4:
      return Extent::Layout::Chunked;
    default:
      damaged("an inode of an unknown layout");
  }
}

ErofsInode ErofsImage::inode(uint64_t nid) const {
  if (nid >= size_ / erofs::kSlot) damaged("an inode outside of it");
  const uint64_t offset = meta_ + nid * erofs::kSlot;
  std::array<std::byte, erofs::kExtendedInode> head{};
  load(std::span(head).first(erofs::kCompactInode), offset);
  const auto format = at<uint16_t>(head, 0);
  const bool extended = (format & 1U) != 0;
  if (extended) load(head, offset);

  ErofsInode inode;
  inode.nid = nid;
  inode.layout = layout_of((format >> 1U) & 7U);
  const auto mode = at<uint16_t>(head, 4);
  inode.type = type_of(mode);
  inode.attributes.permissions = mode & 07777U;
  inode.location = at<uint32_t>(head, 16);
  if (extended) {
    inode.size = at<uint64_t>(head, 8);
    inode.attributes.uid = at<uint32_t>(head, 24);
    inode.attributes.gid = at<uint32_t>(head, 28);
    inode.attributes.mtime = at<int64_t>(head, 32);
    inode.attributes.mtime_nsec = at<uint32_t>(head, 40);
    inode.links = at<uint32_t>(head, 44);
  } else {
    inode.links = at<uint16_t>(head, 6);
    inode.size = at<uint32_t>(head, 8);
    inode.attributes.uid = at<uint16_t>(head, 24);
    inode.attributes.gid = at<uint16_t>(head, 26);
    inode.attributes.mtime = time_;
    inode.attributes.mtime_nsec = time_nsec_;
  }
  inode.behind = offset + (extended ? erofs::kExtendedInode : erofs::kCompactInode);
  if (const uint64_t count = at<uint16_t>(head, 2); count > 0) {
    const uint64_t length = kXattrHeader + (count - 1) * 4;
    load_xattrs(inode, inode.behind, length);
    inode.behind += length;
  }
  return inode;
}

void ErofsImage::load_xattrs(ErofsInode& inode, uint64_t offset, uint64_t length) const {
  Bytes area(length);  // at most 256 KiB, by its 16-bit count
  load(area, offset);
  Xattrs::List list;
  size_t next = kXattrHeader;
  while (next + 4 <= area.size()) {
    const size_t name_size = at<uint8_t>(area, next);
    const size_t value_size = at<uint16_t>(area, next + 2);
    const size_t end = next + 4 + name_size + value_size;
    if (end > area.size()) damaged("an extended attribute outside of its place");
    const ByteView value = ByteView(area).subspan(next + 4 + name_size, value_size);
    const auto prefix = erofs::xattr_prefix(at<uint8_t>(area, next + 1));
    if (!prefix) damaged("an extended attribute of an unknown kind");
    list.emplace_back(
        std::string(*prefix) + std::string(as_text(ByteView(area).subspan(next + 4, name_size))),
        Bytes(value.begin(), value.end()));
    next = (end + 3) / 4 * 4;
  }
  inode.attributes.xattrs = Xattrs(std::move(list));
}

std::vector<ErofsImage::Segment> ErofsImage::segments(const ErofsInode& inode) const {
  std::vector<Segment> segments;
  const auto add = [&](uint64_t offset, uint64_t place, uint64_t length) {
    if (length == 0) return;
    if (place > size_ || length > size_ - place) damaged("data outside of it");
    if (!segments.empty() && segments.back().offset + segments.back().length == offset &&
        segments.back().place + segments.back().length == place)
      segments.back().length += length;
    else
      segments.push_back({offset, place, length});
  };
  const uint64_t start = uint64_t{inode.location} * kBlock;
  if (inode.layout != Extent::Layout::Chunked) {
    const uint64_t tail = inode.layout == Extent::Layout::Inline ? inode.size % kBlock : 0;
    add(0, start, inode.size - tail);
    add(inode.size - tail, inode.behind, tail);
    return segments;
  }
  const unsigned bits = inode.location & 31U;
  const uint64_t chunk = uint64_t{kBlock} << bits;
  if (bits > 20 || inode.size > chunk * kMaxChunks) damaged("a file of too many chunks");
  Bytes map((inode.size + chunk - 1) / chunk * sizeof(uint32_t));
  load(map, inode.behind);
  for (uint64_t i = 0; i * chunk < inode.size; ++i) {
    const auto first = at<uint32_t>(map, i * sizeof(uint32_t));
    if (first != kHole)
      add(i * chunk, uint64_t{first} * kBlock, std::min(chunk, inode.size - i * chunk));
  }
  return segments;
}

void ErofsImage::read(const Segment& segment, const std::function<void(ByteView)>& piece) const {
  Bytes buffer(std::min(segment.length, kPiece));
  for (uint64_t done = 0; done < segment.length;) {
    const auto part =
        std::span(buffer).first(std::min<uint64_t>(segment.length - done, buffer.size()));
    load(part, segment.place + done);
    piece(part);
    done += part.size();
  }
}

std::string ErofsImage::target(const ErofsInode& link) const {
  if (link.size == 0 || link.size > kMaxLinkTarget) damaged("a symbolic link of a wrong size");
  std::string text;
  for (const Segment& segment : segments(link))
    read(segment, [&](ByteView piece) { text += as_text(piece); });
  return text;
}

void ErofsImage::list(const ErofsInode& directory,
                      const std::function<void(std::string_view, uint64_t)>& entry) const {
  // Pieces are whole blocks but for the last, and blocks stand for themselves.
  const auto list_block = [&](ByteView block) {
    if (block.size() < erofs::kDirent) damaged("a directory that ends within an entry");
    const size_t first_name = at<uint16_t>(block, 8);
    if (first_name == 0 || first_name % erofs::kDirent != 0 || first_name > block.size())
      damaged("a directory without a first name");
    for (size_t head = 0; head < first_name; head += erofs::kDirent) {
      const size_t start = at<uint16_t>(block, head + 8);
      const size_t end =
          head + erofs::kDirent < first_name ? at<uint16_t>(block, head + 20) : block.size();
      if (start < first_name || end < start || end > block.size())
        damaged("a name outside of its directory");
      std::string_view name = as_text(block.subspan(start, end - start));
      name = name.substr(0, name.find('\0'));
      if (name == "." || name == "..") continue;
      if (name.empty() || name.size() > kMaxFileName || name.find('/') != name.npos)
        damaged("a name that is none");
      entry(name, at<uint64_t>(block, head));
    }
  };
  for (const Segment& segment : segments(directory))
    read(segment, [&](ByteView piece) {
      for (; !piece.empty(); piece = piece.subspan(std::min<size_t>(piece.size(), kBlock)))
        list_block(piece.first(std::min<size_t>(piece.size(), kBlock)));
    });
}

namespace {

class Walk {
 public:
  Walk(const ErofsImage& image,
       const std::function<void(const std::string&, const ErofsInode&)>& visit)
      : image_(image), visit_(visit) {}

  // The depth is bounded, the number of directories by each being there once.
  void below(const std::string& path, uint64_t nid, size_t depth) {
    const ErofsInode inode = image_.inode(nid);
    while_doing("\"" + printable(path) + "\"", [&] { visit_(path, inode); });
    if (inode.type != Type::Directory) return;
    if (depth > kMaxDepth || !directories_.insert(nid).second) damaged("a directory below itself");
    image_.list(inode, [&](std::string_view name, uint64_t child) {
      below(path.empty() ? std::string(name) : path + "/" + std::string(name), child, depth + 1);
    });
  }

 private:
  const ErofsImage& image_;
  const std::function<void(const std::string&, const ErofsInode&)>& visit_;
  std::set<uint64_t> directories_;
};

}

void walk_erofs(const ErofsImage& image,
                const std::function<void(const std::string&, const ErofsInode&)>& visit) {
  if (image.inode(image.root()).type != Type::Directory) damaged("its root is no directory");
  Walk(image, visit).below("", image.root(), 0);
}

}
