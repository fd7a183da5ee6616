// What file verbs answer: entries, events and results; and how records are cut from Data.
#include <algorithm>

#include "mvm/base/error.h"
#include "mvm/proto/cbor.h"
#include "mvm/proto/files.h"

#include "messages.h"

namespace mvm::proto {

// The name of an entry as a hostile sandbox may give it: one component, and no way anywhere.
static std::string read_name(CborReader& in) {
  const std::string_view name = in.string(kMaxFileName);
  const bool bad =
      name == "." || name == ".." || name.find('/') != name.npos || name.find('\0') != name.npos;
  if (bad) in.fail();
  return std::string(name);
}

Bytes ListEntry::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("name", name);
    map.field("status").raw(status.encode());
  }
  return out;
}

std::optional<ListEntry> ListEntry::decode(ByteView record) noexcept {
  CborReader in(record);
  ListEntry entry;
  for (Fields field(in); field.next();) {
    if (field.is("name")) {
      entry.name = read_name(in);
    } else if (field.is("status")) {
      auto status = FileStatus::decode(in.skip());
      if (status) {
        entry.status = std::move(*status);
      } else {
        in.fail();
      }
    } else {
      field.skip();
    }
  }
  const bool named = !entry.name.empty();
  return finished(in, entry, named);
}

Bytes ListResult::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.unsigned_integer("entries", entries);
    if (truncated) map.boolean("truncated", true);
  }
  return out;
}

std::optional<ListResult> ListResult::decode(ByteView item) noexcept {
  CborReader in(item);
  ListResult result;
  for (Fields field(in); field.next();) {
    if (field.is("entries")) {
      result.entries = in.unsigned_integer();
    } else if (field.is("truncated")) {
      result.truncated = in.boolean();
    } else {
      field.skip();
    }
  }
  return finished(in, result);
}

Bytes ReadResult::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.unsigned_integer("bytes", bytes);
    map.unsigned_integer("size", size);
  }
  return out;
}

std::optional<ReadResult> ReadResult::decode(ByteView item) noexcept {
  CborReader in(item);
  ReadResult result;
  for (Fields field(in); field.next();) {
    if (field.is("bytes")) {
      result.bytes = in.unsigned_integer();
    } else if (field.is("size")) {
      result.size = in.unsigned_integer();
    } else {
      field.skip();
    }
  }
  return finished(in, result);
}

static Bytes encode_count(std::string_view name, uint64_t count) {
  Bytes out;
  MapWriter(out).unsigned_integer(name, count);
  return out;
}

static std::optional<uint64_t> decode_count(ByteView item, std::string_view name) noexcept {
  CborReader in(item);
  uint64_t count = 0;
  for (Fields field(in); field.next();) {
    if (field.is(name)) {
      count = in.unsigned_integer();
    } else {
      field.skip();
    }
  }
  return finished(in, count);
}

Bytes WriteResult::encode() const { return encode_count("bytes", bytes); }
std::optional<WriteResult> WriteResult::decode(ByteView item) noexcept {
  const auto count = decode_count(item, "bytes");
  if (!count) return std::nullopt;
  return WriteResult{*count};
}

Bytes RemoveResult::encode() const { return encode_count("entries", entries); }
std::optional<RemoveResult> RemoveResult::decode(ByteView item) noexcept {
  const auto count = decode_count(item, "entries");
  if (!count) return std::nullopt;
  return RemoveResult{*count};
}

Bytes WatchEvent::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.unsigned_integer("kind", static_cast<uint8_t>(kind));
    if (!name.empty()) map.string("name", name);
    if (cookie > 0) map.unsigned_integer("cookie", cookie);
  }
  return out;
}

std::optional<WatchEvent> WatchEvent::decode(ByteView record) noexcept {
  CborReader in(record);
  WatchEvent event;
  bool complete = false;
  for (Fields field(in); field.next();) {
    if (field.is("kind")) {
      event.kind = static_cast<WatchKind>(in.unsigned_integer(kWatchKinds.size() - 1));
      complete = true;
    } else if (field.is("name")) {
      event.name = read_name(in);
    } else if (field.is("cookie")) {
      event.cookie = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else {
      field.skip();
    }
  }
  return finished(in, event, complete);
}

// ---- records --------------------------------------------------------------------------------

static constexpr size_t kLengthSize = 4;

void append_record(Bytes& out, ByteView record) {
  MVM_ASSERT(!record.empty() && record.size() <= kMaxRecord);
  Writer writer(out);
  writer.u32(static_cast<uint32_t>(record.size()));
  writer.bytes(record);
}

std::optional<ByteView> RecordDecoder::next(ByteView& data) {
  if (taken_) {
    held_.clear();
    taken_ = false;
  }
  const auto gather = [&](size_t length) {
    const ByteView piece = data.first(std::min(length - held_.size(), data.size()));
    Writer(held_).bytes(piece);
    data = data.subspan(piece.size());
    return held_.size() == length;
  };
  if (faulted_) return std::nullopt;
  if (held_.size() < kLengthSize && !gather(kLengthSize)) return std::nullopt;
  const uint32_t length = Reader(held_).u32();
  if (length == 0 || length > kMaxRecord) {
    faulted_ = true;
    return std::nullopt;
  }
  if (!gather(kLengthSize + length)) return std::nullopt;
  taken_ = true;
  return ByteView(held_).subspan(kLengthSize);
}

}
