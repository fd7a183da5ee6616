#include "mvm/agent/files.h"

#include <optional>
#include <string>
#include <utility>

#include "mvm/protect/redact.h"

namespace mvm::agent {

namespace {

[[noreturn]] void garbage(const char* what) {
  throw Error(Kind::Unavailable, std::string("the sandbox speaks garbage: ") + what);
}

template <typename Answer>
Answer decoded(ByteView item) {
  auto answer = Answer::decode(item);
  if (!answer) garbage("an answer that does not decode");
  return std::move(*answer);
}

// The far side stops when the connection closes; a half-done call must not be taken up again.
template <typename Body>
auto closing_on_error(Connection& connection, Body&& body) {
  try {
    return body();
  } catch (...) {
    connection.close();
    throw;
  }
}

// Data until the End, whose result is returned. `take` returns false to stop.
template <typename Take>
std::optional<Bytes> receive(Connection& connection, Limit limit, Take take) {
  while (true) {
    const Incoming incoming = connection.wait(limit);
    if (incoming.what == Incoming::What::End)
      return Bytes(incoming.payload.begin(), incoming.payload.end());
    if (incoming.what != Incoming::What::Data) continue;
    if (!take(incoming.payload)) return std::nullopt;
    connection.consumed(incoming.payload.size());
  }
}

// Takes Data apart into records of one kind.
template <typename Record>
class Records {
 public:
  template <typename Each>
  bool take(ByteView data, const Each& each) {
    while (const auto record = decoder_.next(data)) {
      const auto message = Record::decode(*record);
      if (!message) garbage("a record that does not decode");
      if (!each(*message)) return false;
    }
    if (decoder_.faulted()) garbage("a record of no possible size");
    return true;
  }
  void expect_end() const {
    if (decoder_.midway()) garbage("an end within a record");
  }

 private:
  proto::RecordDecoder decoder_;
};

}

proto::FileStatus stat_file(Connection& connection, const proto::StatRequest& request) {
  return decoded<proto::FileStatus>(connection.request(request.encode(), kFileLimit));
}

void make_directory(Connection& connection, const proto::MakeDirectoryRequest& request) {
  connection.request(request.encode(), kFileLimit);
}

void rename_file(Connection& connection, const proto::RenameRequest& request) {
  connection.request(request.encode(), kFileLimit);
}

proto::RemoveResult remove_file(Connection& connection, const proto::RemoveRequest& request) {
  return decoded<proto::RemoveResult>(connection.request(request.encode(), std::nullopt));
}

proto::ListResult list_files(Connection& connection, const proto::ListRequest& request,
                             const std::function<void(const proto::ListEntry&)>& entry) {
  const uint64_t limit = request.limit == 0 ? proto::kMaxListEntries : request.limit;
  connection.start(request.encode(), Call::Kind::Get);
  return closing_on_error(connection, [&] {
    Records<proto::ListEntry> records;
    uint64_t count = 0;
    const auto result = receive(connection, kFileLimit, [&](ByteView data) {
      return records.take(data, [&](const proto::ListEntry& one) {
        if (++count > limit) garbage("more entries than were asked for");
        entry(one);
        return true;
      });
    });
    records.expect_end();
    const auto listed = decoded<proto::ListResult>(*result);
    if (listed.entries != count) garbage("another number of entries than it sent");
    return listed;
  });
}

proto::ReadResult read_file(Connection& connection, const proto::ReadRequest& request,
                            const std::function<void(ByteView)>& content) {
  connection.start(request.encode(), Call::Kind::Get);
  return closing_on_error(connection, [&] {
    uint64_t left = request.length.value_or(UINT64_MAX);
    uint64_t count = 0;
    std::optional<protect::Redactor> redactor;
    if (request.redact) redactor.emplace();
    std::string text;
    const auto give = [&] {
      if (!text.empty()) content(as_bytes(text));
      text.clear();
    };
    const auto result = receive(connection, kFileLimit, [&](ByteView data) {
      if (data.size() > left) garbage("more content than was asked for");
      left -= data.size();
      count += data.size();
      if (!redactor) {
        content(data);
        return true;
      }
      redactor->feed(as_text(data), text);
      give();
      return true;
    });
    if (redactor) {
      redactor->finish(text);
      give();
    }
    const auto read = decoded<proto::ReadResult>(*result);
    if (read.bytes != count) garbage("another number of bytes than it sent");
    return read;
  });
}

proto::WriteResult write_file(Connection& connection, const proto::WriteRequest& request,
                              const std::function<ByteView(size_t)>& content) {
  connection.start(request.encode(), Call::Kind::Put);
  return closing_on_error(connection, [&] {
    uint64_t count = 0;
    bool complete = false;
    while (true) {
      while (!complete && connection.room() > 0) {
        connection.send_now();  // the content may be slow to come
        const ByteView piece = content(connection.room());
        complete = piece.empty();
        if (complete) {
          connection.send_end_of_data();
        } else {
          connection.send_data(piece);
        }
        count += piece.size();
      }
      const Incoming incoming = connection.wait(kFileLimit);
      if (incoming.what != Incoming::What::End) continue;
      const auto written = decoded<proto::WriteResult>(incoming.payload);
      if (!complete || written.bytes != count) garbage("an end before the content's own");
      return written;
    }
  });
}

void watch_files(Connection& connection, const proto::WatchRequest& request,
                 const std::function<bool(const proto::WatchEvent&)>& event) {
  connection.start(request.encode(), Call::Kind::Get);
  closing_on_error(connection, [&] {
    Records<proto::WatchEvent> records;
    const auto end =
        receive(connection, std::nullopt, [&](ByteView data) { return records.take(data, event); });
    if (!end) connection.close();
  });
}

}
