#include "mvm/agent/copy.h"

#include <algorithm>

#include "mvm/base/text.h"
#include "mvm/sys/file.h"

namespace mvm::agent {

static void check_remote(const std::string& path) {
  if (path.empty() || path.front() != '/')
    throw Error(Kind::Invalid, "a path in a sandbox starts with '/': " + printable(path));
  if (path.size() > proto::kMaxPath || path.find('\0') != std::string::npos)
    throw Error(Kind::Invalid, "not a path: " + printable(path));
}

static proto::CopyResult result_of(ByteView payload) {
  const auto result = proto::CopyResult::decode(payload);
  if (!result)
    throw Error(Kind::Unavailable, "the sandbox speaks garbage: a result that does not decode");
  return *result;
}

// The far side stops when the connection closes; a half-done call must not be taken up again.
template <typename Body>
static auto closing_on_error(Connection& connection, Body&& body) {
  try {
    return body();
  } catch (const Error&) {
    connection.close();
    throw;
  }
}

// ---- into the sandbox -----------------------------------------------------------------------

namespace {

// The entry stream in pieces of the size that credit allows.
class Staged {
 public:
  explicit Staged(TreeReader& reader) : reader_(&reader) {}

  // At most `room` bytes; empty when the stream is over. Valid until the next call.
  ByteView next(size_t room) {
    if (begin_ == bytes_.size()) {
      bytes_.clear();
      begin_ = 0;
      // Small files share a frame.
      while (bytes_.size() < proto::kMaxPayload / 2 && reader_->produce(bytes_)) {
      }
    }
    const auto piece = ByteView(bytes_).subspan(begin_);
    const ByteView out = piece.first(std::min(room, piece.size()));
    begin_ += out.size();
    return out;
  }

 private:
  TreeReader* reader_;
  Bytes bytes_;
  size_t begin_ = 0;
};

}

TreeCounts put(Connection& connection, const std::string& local, const std::string& remote,
               const PutOptions& options) {
  check_remote(remote);
  TreeReader reader(local, options.follow, options.watch.note, options.view);
  proto::PutRequest request;
  request.path = remote;
  request.name = copy_name(local);
  request.user = options.user;
  request.preserve_owner = options.archive;
  request.make_parents = options.make_parents;
  connection.start(request.encode(), Call::Kind::Put);
  return closing_on_error(connection, [&] {
    Staged staged(reader);
    bool sent_all = false;
    while (true) {
      while (!sent_all && connection.room() > 0) {
        const ByteView piece = staged.next(connection.room());
        sent_all = piece.empty();
        if (!sent_all) connection.send_data(piece);
      }
      if (options.watch.progress) options.watch.progress(reader.counts().bytes);
      const Incoming incoming = connection.wait(options.watch.stall);
      if (incoming.what != Incoming::What::End) continue;
      if (!sent_all)
        throw Error(Kind::Unavailable, "the sandbox speaks garbage: an end before the copy's own");
      const proto::CopyResult result = result_of(incoming.payload);
      if (result.entries != reader.counts().entries || result.bytes != reader.counts().bytes)
        throw Error(Kind::Internal, "the sandbox did not write all that was sent");
      return reader.counts();
    }
  });
}

// ---- out of the sandbox ---------------------------------------------------------------------

static void make_parents_of(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash = end == std::string::npos ? end : path.rfind('/', end);
  if (slash != std::string::npos && slash > 0)
    sys::make_directories(path.substr(0, slash), 0777);  // cut by the umask
}

TreeCounts get(Connection& connection, const std::string& remote, const std::string& local,
               const GetOptions& options) {
  check_remote(remote);
  if (options.make_parents) make_parents_of(local);
  TreeWriter writer(local, copy_name(remote), options.write);
  proto::GetRequest request;
  request.path = remote;
  request.follow = options.follow;
  connection.start(request.encode(), Call::Kind::Get);
  return closing_on_error(connection, [&] {
    while (true) {
      const Incoming incoming = connection.wait(options.watch.stall);
      if (incoming.what == Incoming::What::End) {
        if (!writer.complete())
          throw Error(Kind::Unavailable, "the sandbox speaks garbage: a copy without its end");
        TreeCounts counts = writer.counts();
        counts.skipped = result_of(incoming.payload).skipped;
        return counts;
      }
      writer.take(incoming.payload);
      connection.consumed(incoming.payload.size());
      if (options.watch.progress) options.watch.progress(writer.counts().bytes);
    }
  });
}

}
