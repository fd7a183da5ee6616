#include "mvm/proto/files.h"

#include <algorithm>

#include "mvm/base/error.h"
#include "mvm/proto/cbor.h"

#include "messages.h"

namespace mvm::proto {

static constexpr uint32_t kModeBits = 07777;
static constexpr uint32_t kNanoseconds = 1'000'000'000;
static constexpr std::array<std::string_view, 7> kTypeNames{
    "file", "directory", "symlink", "pipe", "socket", "char_device", "block_device"};

std::string_view file_type_name(FileType type) { return kTypeNames.at(static_cast<size_t>(type)); }

// ---- places ---------------------------------------------------------------------------------

static std::string read_text(CborReader& in, size_t limit) {
  const std::string_view text = in.string(limit);
  if (text.find('\0') != text.npos) in.fail();
  return std::string(text);
}

static void write_place(MapWriter& map, const FilePlace& place) {
  if (!place.root.empty()) map.string("root", place.root);
  map.string("path", place.path);
}

static bool read_place(const Fields& field, CborReader& in, FilePlace& place) {
  if (field.is("root")) {
    place.root = read_text(in, kMaxPath);
  } else if (field.is("path")) {
    place.path = read_text(in, kMaxPath);
  } else {
    return false;
  }
  return true;
}

static bool is_path_for(const std::string& root, const std::string& path) {
  return !path.empty() && (path.front() == '/') == root.empty();
}

static bool is_place(const FilePlace& place) {
  return (place.root.empty() || place.root.front() == '/') && is_path_for(place.root, place.path);
}

// ---- status ---------------------------------------------------------------------------------

static void write_status(MapWriter& map, const FileStatus& status) {
  map.unsigned_integer("type", static_cast<uint8_t>(status.type));
  map.unsigned_integer("mode", status.mode);
  map.unsigned_integer("uid", status.uid);
  map.unsigned_integer("gid", status.gid);
  map.unsigned_integer("size", status.size);
  map.unsigned_integer("allocated", status.allocated);
  map.unsigned_integer("inode", status.inode);
  map.unsigned_integer("links", status.links);
  map.integer("mtime", status.mtime_seconds);
  map.unsigned_integer("mtime_ns", status.mtime_nanoseconds);
  if (!status.target.empty()) map.string("target", status.target);
}

static bool read_status(const Fields& field, CborReader& in, FileStatus& status) {
  const auto u32 = [&](uint32_t limit) {
    return static_cast<uint32_t>(in.unsigned_integer(limit));
  };
  if (field.is("type")) {
    status.type = static_cast<FileType>(u32(kTypeNames.size() - 1));
  } else if (field.is("mode")) {
    status.mode = u32(kModeBits);
  } else if (field.is("uid")) {
    status.uid = u32(UINT32_MAX);
  } else if (field.is("gid")) {
    status.gid = u32(UINT32_MAX);
  } else if (field.is("size")) {
    status.size = in.unsigned_integer();
  } else if (field.is("allocated")) {
    status.allocated = in.unsigned_integer();
  } else if (field.is("inode")) {
    status.inode = in.unsigned_integer();
  } else if (field.is("links")) {
    status.links = in.unsigned_integer();
  } else if (field.is("mtime")) {
    status.mtime_seconds = in.integer();
  } else if (field.is("mtime_ns")) {
    status.mtime_nanoseconds = u32(kNanoseconds - 1);
  } else if (field.is("target")) {
    status.target = read_text(in, kMaxPath);
  } else {
    return false;
  }
  return true;
}

Bytes FileStatus::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    write_status(map, *this);
  }
  return out;
}

std::optional<FileStatus> FileStatus::decode(ByteView item) noexcept {
  CborReader in(item);
  FileStatus status;
  for (Fields field(in); field.next();)
    if (!read_status(field, in, status)) field.skip();
  return finished(in, status);
}

// ---- requests -------------------------------------------------------------------------------

Bytes StatRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kStatVerb);
    write_place(map, place);
    if (follow) map.boolean("follow", true);
  }
  return out;
}

std::optional<StatRequest> StatRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  StatRequest request;
  for (Fields field(in); field.next();) {
    if (read_place(field, in, request.place)) continue;
    if (field.is("follow")) {
      request.follow = in.boolean();
    } else {
      field.skip();
    }
  }
  return finished(in, request, is_place(request.place));
}

Bytes ListRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kListVerb);
    write_place(map, place);
    if (limit > 0) map.unsigned_integer("limit", limit);
  }
  return out;
}

std::optional<ListRequest> ListRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  ListRequest request;
  for (Fields field(in); field.next();) {
    if (read_place(field, in, request.place)) continue;
    if (field.is("limit")) {
      request.limit = in.unsigned_integer(kMaxListEntries);
    } else {
      field.skip();
    }
  }
  return finished(in, request, is_place(request.place));
}

Bytes ReadRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kReadVerb);
    write_place(map, place);
    if (offset > 0) map.unsigned_integer("offset", offset);
    if (length) map.unsigned_integer("length", *length);
  }
  return out;
}

std::optional<ReadRequest> ReadRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  ReadRequest request;
  for (Fields field(in); field.next();) {
    if (read_place(field, in, request.place)) continue;
    if (field.is("offset")) {
      request.offset = in.unsigned_integer(kMaxFileSize);
    } else if (field.is("length")) {
      request.length = in.unsigned_integer(kMaxFileSize);
    } else {
      field.skip();
    }
  }
  return finished(in, request, is_place(request.place));
}

Bytes WriteRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kWriteVerb);
    write_place(map, place);
    if (offset) map.unsigned_integer("offset", *offset);
    if (append) map.boolean("append", true);
    if (exclusive) map.boolean("exclusive", true);
    if (mode) map.unsigned_integer("mode", *mode);
    if (!user.empty()) map.string("user", user);
    map.unsigned_integer("limit", limit);
    if (sync) map.boolean("sync", true);
  }
  return out;
}

std::optional<WriteRequest> WriteRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  WriteRequest request;
  for (Fields field(in); field.next();) {
    if (read_place(field, in, request.place)) continue;
    if (field.is("offset")) {
      request.offset = in.unsigned_integer(kMaxFileSize);
    } else if (field.is("append")) {
      request.append = in.boolean();
    } else if (field.is("exclusive")) {
      request.exclusive = in.boolean();
    } else if (field.is("mode")) {
      request.mode = static_cast<uint32_t>(in.unsigned_integer(kModeBits));
    } else if (field.is("user")) {
      request.user = read_text(in, kMaxUserName);
    } else if (field.is("limit")) {
      request.limit = in.unsigned_integer(kMaxFileSize);
    } else if (field.is("sync")) {
      request.sync = in.boolean();
    } else {
      field.skip();
    }
  }
  const bool sound = is_place(request.place) && !(request.append && request.offset);
  return finished(in, request, sound);
}

Bytes MakeDirectoryRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kMakeDirectoryVerb);
    write_place(map, place);
    map.unsigned_integer("mode", mode);
    if (parents) map.boolean("parents", true);
    if (!user.empty()) map.string("user", user);
  }
  return out;
}

std::optional<MakeDirectoryRequest> MakeDirectoryRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  MakeDirectoryRequest request;
  for (Fields field(in); field.next();) {
    if (read_place(field, in, request.place)) continue;
    if (field.is("mode")) {
      request.mode = static_cast<uint32_t>(in.unsigned_integer(kModeBits));
    } else if (field.is("parents")) {
      request.parents = in.boolean();
    } else if (field.is("user")) {
      request.user = read_text(in, kMaxUserName);
    } else {
      field.skip();
    }
  }
  return finished(in, request, is_place(request.place));
}

Bytes RenameRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kRenameVerb);
    write_place(map, from);
    map.string("to", to);
    if (keep_existing) map.boolean("keep_existing", true);
  }
  return out;
}

std::optional<RenameRequest> RenameRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  RenameRequest request;
  for (Fields field(in); field.next();) {
    if (read_place(field, in, request.from)) continue;
    if (field.is("to")) {
      request.to = read_text(in, kMaxPath);
    } else if (field.is("keep_existing")) {
      request.keep_existing = in.boolean();
    } else {
      field.skip();
    }
  }
  const bool sound = is_place(request.from) && is_path_for(request.from.root, request.to);
  return finished(in, request, sound);
}

Bytes RemoveRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kRemoveVerb);
    write_place(map, place);
    if (recursive) map.boolean("recursive", true);
  }
  return out;
}

std::optional<RemoveRequest> RemoveRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  RemoveRequest request;
  for (Fields field(in); field.next();) {
    if (read_place(field, in, request.place)) continue;
    if (field.is("recursive")) {
      request.recursive = in.boolean();
    } else {
      field.skip();
    }
  }
  return finished(in, request, is_place(request.place));
}

Bytes WatchRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kWatchVerb);
    write_place(map, place);
  }
  return out;
}

std::optional<WatchRequest> WatchRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  WatchRequest request;
  for (Fields field(in); field.next();)
    if (!read_place(field, in, request.place)) field.skip();
  return finished(in, request, is_place(request.place));
}

}
