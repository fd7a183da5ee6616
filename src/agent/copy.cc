#include "mvm/agent/copy.h"

#include <algorithm>

#include "mvm/base/text.h"
#include "mvm/sys/file.h"

#include "lane.h"

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
  // `to_lane`: it ends where a large file's content begins.
  Staged(TreeReader& reader, bool to_lane) : reader_(&reader), to_lane_(to_lane) {}
  // Nothing is left here that would have to go before a lane's.
  bool at_lane() const { return to_lane_ && begin_ == bytes_.size() && reader_->at_large_file(); }

  // At most `room` bytes; empty when the stream is over. Valid until the next call.
  ByteView next(size_t room) {
    if (begin_ == bytes_.size()) {
      bytes_.clear();
      begin_ = 0;
      // Small files share a frame.
      while (bytes_.size() < proto::kMaxPayload / 2 && !(to_lane_ && reader_->at_large_file()) &&
             reader_->produce(bytes_)) {
      }
    }
    const auto piece = ByteView(bytes_).subspan(begin_);
    const ByteView out = piece.first(std::min(room, piece.size()));
    begin_ += out.size();
    return out;
  }

 private:
  TreeReader* reader_;
  bool to_lane_;
  Bytes bytes_;
  size_t begin_ = 0;
};

// A put's entry stream on its way: in frames at first, and from the first large file on by a lane,
// where the connection can have one.
class Sending {
 public:
  Sending(Connection& connection, TreeReader& reader)
      : connection_(&connection),
        reader_(&reader),
        staged_(reader, static_cast<bool>(connection.dial())) {}

  bool sent_all() const { return sent_all_; }
  // As much as can be sent now.
  void send() {
    if (lane_) return send_by_lane();
    while (!sent_all_ && !asked_ && connection_->room() > 0) {
      if (staged_.at_lane()) {
        connection_->send_end_of_data();
        asked_ = true;
        return;
      }
      const ByteView piece = staged_.next(connection_->room());
      if (!piece.empty())
        connection_->send_data(piece);
      else if (!staged_.at_lane())
        sent_all_ = true;
    }
  }
  // The next that the sandbox says; nothing when there is more to send.
  std::optional<Incoming> wait(Limit stall) {
    return connection_->wait_or_writable(lane_ && !sent_all_ && !lost_ ? lane_->socket() : -1,
                                         stall);
  }
  void on_event(ByteView payload) {
    const auto opened = proto::LaneOpened::decode(payload);
    if (!asked_ || lane_ || !opened)
      throw Error(Kind::Unavailable, "the sandbox speaks garbage: a lane that nobody asked for");
    lane_.emplace(connection_->dial()(opened->port), *reader_);
  }

 private:
  void send_by_lane() {
    if (sent_all_ || lost_) return;
    const Lane::Sent sent = lane_->send();
    sent_all_ = sent == Lane::Sent::All;
    // Why, the sandbox says on the connection.
    lost_ = sent == Lane::Sent::Lost;
  }

  Connection* connection_;
  TreeReader* reader_;
  Staged staged_;
  std::optional<Lane> lane_;
  bool asked_ = false;  // for a lane
  bool sent_all_ = false;
  bool lost_ = false;
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
    Sending sending(connection, reader);
    while (true) {
      sending.send();
      if (options.watch.progress) options.watch.progress(reader.counts().bytes);
      const auto incoming = sending.wait(options.watch.stall);
      if (!incoming) continue;
      if (incoming->what == Incoming::What::Event) sending.on_event(incoming->payload);
      if (incoming->what != Incoming::What::End) continue;
      if (!sending.sent_all())
        throw Error(Kind::Unavailable, "the sandbox speaks garbage: an end before the copy's own");
      const proto::CopyResult result = result_of(incoming->payload);
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
