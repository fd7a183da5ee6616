#include "mvm/proto/copy.h"

#include <algorithm>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/proto/cbor.h"

#include "messages.h"

namespace mvm::proto {

// ---- the entry stream -----------------------------------------------------------------------

static constexpr uint8_t kTreeEnd = 0;
static constexpr size_t kEntryHead = 1 + 4 + 4 + 4 + 8 + 4 + 8 + 2 + 2;
static constexpr uint32_t kPermissions = 07777;
static constexpr uint32_t kMaxNanoseconds = 999999999;

bool is_tree_path(std::string_view path) noexcept {
  if (path.empty() || path.size() > kMaxPath || path.find('\0') != std::string_view::npos)
    return false;
  size_t depth = 0;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (name.empty() || name == "." || name == ".." || ++depth > kMaxCopyDepth) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

// What must hold for every entry; `first` is the thing copied itself.
static bool is_valid(const Entry& entry, bool first) noexcept {
  if (first ? !entry.path.empty() : !is_tree_path(entry.path)) return false;
  if (entry.type < EntryType::File || entry.type > EntryType::Symlink) return false;
  if (entry.mode > kPermissions || entry.mtime_nanoseconds > kMaxNanoseconds) return false;
  if (entry.type != EntryType::Symlink) return entry.target.empty();
  return !entry.target.empty() && entry.target.size() <= kMaxPath &&
         entry.target.find('\0') == std::string::npos;
}

void append_entry(Bytes& out, const Entry& entry) {
  if (!is_valid(entry, entry.path.empty()))
    throw Error(Kind::Invalid, "this file cannot be copied: " + printable(entry.path));
  Writer writer(out);
  writer.u8(static_cast<uint8_t>(entry.type));
  writer.u32(entry.mode);
  writer.u32(entry.uid);
  writer.u32(entry.gid);
  writer.put(entry.mtime_seconds);
  writer.u32(entry.mtime_nanoseconds);
  writer.u64(entry.size);
  writer.u16(static_cast<uint16_t>(entry.path.size()));
  writer.u16(static_cast<uint16_t>(entry.target.size()));
  writer.text(entry.path);
  writer.text(entry.target);
}

void append_chunk(Bytes& out, ByteView content) {
  append_chunk_head(out, content.size());
  Writer(out).bytes(content);
}

void append_chunk_head(Bytes& out, size_t length) {
  MVM_ASSERT(length > 0 && length <= kMaxChunk);
  Writer(out).u32(static_cast<uint32_t>(length));
}

void append_hole(Bytes& out, uint64_t length) {
  MVM_ASSERT(length > 0 && length <= kMaxHole);
  Writer writer(out);
  writer.u32(kHoleMark);
  writer.u64(length);
}

void append_content_end(Bytes& out) { Writer(out).u32(0); }
void append_tree_end(Bytes& out) { Writer(out).u8(kTreeEnd); }

std::optional<EntryEvent> EntryDecoder::fault() {
  state_ = State::Fault;
  return std::nullopt;
}

// Moves bytes from `data` until `length` are held.
bool EntryDecoder::gather(ByteView& data, size_t length) {
  if (held_.size() < length) {
    const size_t take = std::min(length - held_.size(), data.size());
    Writer(held_).bytes(data.first(take));
    data = data.subspan(take);
  }
  return held_.size() >= length;
}

std::optional<EntryEvent> EntryDecoder::header(ByteView& data) {
  if (!gather(data, 1)) return std::nullopt;
  EntryEvent event;
  if (static_cast<uint8_t>(held_[0]) == kTreeEnd) {
    if (first_) return fault();
    state_ = State::Done;
    return event;
  }
  if (!gather(data, kEntryHead)) return std::nullopt;
  Reader in(held_);
  Entry& entry = event.entry;
  entry.type = static_cast<EntryType>(in.u8());
  entry.mode = in.u32();
  entry.uid = in.u32();
  entry.gid = in.u32();
  entry.mtime_seconds = in.read<int64_t>();
  entry.mtime_nanoseconds = in.u32();
  entry.size = in.u64();
  const size_t path_length = in.u16();
  const size_t target_length = in.u16();
  if (path_length > kMaxPath || target_length > kMaxPath) return fault();
  if (!gather(data, kEntryHead + path_length + target_length)) return std::nullopt;
  in = Reader(ByteView(held_).subspan(kEntryHead));
  entry.path = as_text(in.bytes(path_length));
  entry.target = as_text(in.bytes(target_length));
  if (!is_valid(entry, first_)) return fault();
  event.what = EntryEvent::What::Entry;
  first_ = false;
  held_.clear();
  if (entry.type == EntryType::File) state_ = State::ChunkLength;
  return event;
}

// Nothing with state_ changed: what the chunk holds comes next.
std::optional<EntryEvent> EntryDecoder::chunk_length(ByteView& data) {
  if (!gather(data, 4)) return std::nullopt;
  chunk_left_ = Reader(held_).u32();
  held_.clear();
  if (chunk_left_ == 0) {
    state_ = State::Header;
    EntryEvent event;
    event.what = EntryEvent::What::ContentEnd;
    return event;
  }
  if (chunk_left_ != kHoleMark && chunk_left_ > kMaxChunk) return fault();
  state_ = chunk_left_ == kHoleMark ? State::Hole : State::Chunk;
  return std::nullopt;
}

std::optional<EntryEvent> EntryDecoder::hole(ByteView& data) {
  if (!gather(data, 8)) return std::nullopt;
  EntryEvent event;
  event.what = EntryEvent::What::Hole;
  event.hole = Reader(held_).u64();
  held_.clear();
  if (event.hole == 0 || event.hole > kMaxHole) return fault();
  state_ = State::ChunkLength;
  return event;
}

void EntryDecoder::skip(size_t length) {
  MVM_ASSERT(length <= content_left());
  chunk_left_ -= static_cast<uint32_t>(length);
  if (chunk_left_ == 0) state_ = State::ChunkLength;
}

std::optional<EntryEvent> EntryDecoder::next(ByteView& data) {
  if (state_ == State::Header) return header(data);
  if (state_ == State::ChunkLength) {
    auto event = chunk_length(data);
    if (event) return event;
  }
  if (state_ == State::Hole) return hole(data);
  if (state_ == State::Chunk) {
    if (data.empty()) return std::nullopt;
    EntryEvent event;
    event.what = EntryEvent::What::Content;
    event.content = data.first(std::min<size_t>(chunk_left_, data.size()));
    data = data.subspan(event.content.size());
    skip(event.content.size());
    return event;
  }
  // Nothing may follow the tree's end.
  if (state_ == State::Done && !data.empty()) return fault();
  return std::nullopt;
}

// ---- messages -------------------------------------------------------------------------------

static std::string read_path(CborReader& in) {
  const std::string_view path = in.string(kMaxPath);
  if (path.empty() || path.front() != '/' || path.find('\0') != std::string_view::npos) in.fail();
  return std::string(path);
}

Bytes PutRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kPutVerb);
    map.string("path", path);
    if (!name.empty()) map.string("name", name);
    if (!user.empty()) map.string("user", user);
    if (preserve_owner) map.boolean("preserve_owner", true);
    if (make_parents) map.boolean("make_parents", true);
  }
  return out;
}

std::optional<PutRequest> PutRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  PutRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("path")) {
      request.path = read_path(in);
    } else if (field.is("name")) {
      request.name = in.string(kMaxPath);
      if (!is_tree_path(request.name) || request.name.find('/') != std::string::npos) in.fail();
    } else if (field.is("user")) {
      request.user = in.string(kMaxUserName);
    } else if (field.is("preserve_owner")) {
      request.preserve_owner = in.boolean();
    } else if (field.is("make_parents")) {
      request.make_parents = in.boolean();
    } else {
      field.skip();
    }
  }
  const bool complete = !request.path.empty();
  return finished(in, request, complete);
}

Bytes LaneOpened::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("event", kLaneEvent);
    map.unsigned_integer("port", port);
  }
  return out;
}

std::optional<LaneOpened> LaneOpened::decode(ByteView payload) noexcept {
  CborReader in(payload);
  LaneOpened opened;
  for (Fields field(in); field.next();) {
    if (field.is("port")) {
      opened.port = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else {
      field.skip();
    }
  }
  const bool complete = opened.port != 0;
  return finished(in, opened, complete);
}

Bytes GetRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kGetVerb);
    map.string("path", path);
    if (follow) map.boolean("follow", true);
  }
  return out;
}

std::optional<GetRequest> GetRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  GetRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("path")) {
      request.path = read_path(in);
    } else if (field.is("follow")) {
      request.follow = in.boolean();
    } else {
      field.skip();
    }
  }
  const bool complete = !request.path.empty();
  return finished(in, request, complete);
}

Bytes CopyResult::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.unsigned_integer("entries", entries);
    map.unsigned_integer("bytes", bytes);
    map.unsigned_integer("skipped", skipped);
  }
  return out;
}

std::optional<CopyResult> CopyResult::decode(ByteView item) noexcept {
  CborReader in(item);
  CopyResult result;
  for (Fields field(in); field.next();) {
    if (field.is("entries")) {
      result.entries = in.unsigned_integer();
    } else if (field.is("bytes")) {
      result.bytes = in.unsigned_integer();
    } else if (field.is("skipped")) {
      result.skipped = in.unsigned_integer();
    } else {
      field.skip();
    }
  }
  return finished(in, result);
}

}
