#pragma once
// The file verbs (proto/files.h) as functions over a Connection. The errors of Connection; what a
// sandbox sends that makes no sense is Error{Unavailable}, and closes the connection. So does
// whatever the caller's own functions throw.

#include <cstdint>
#include <functional>

#include "mvm/agent/connection.h"
#include "mvm/proto/files.h"

namespace mvm::agent {

// The sandbox says nothing at all for so long: a call has failed. A watch may be silent for ever.
inline constexpr Milliseconds kFileLimit{60'000};

proto::FileStatus stat_file(Connection& connection, const proto::StatRequest& request);
void make_directory(Connection& connection, const proto::MakeDirectoryRequest& request);
void rename_file(Connection& connection, const proto::RenameRequest& request);
// Waits as long as it takes; a large tree is not silent for lack of work.
proto::RemoveResult remove_file(Connection& connection, const proto::RemoveRequest& request);

// Calls `entry` for each, in the file system's order; never for more than the request's limit.
proto::ListResult list_files(Connection& connection, const proto::ListRequest& request,
                             const std::function<void(const proto::ListEntry&)>& entry);
// Calls `content` with what comes, in order; never with more than the request's length. Where the
// request says so, personal data and keys are replaced; the result's sizes are the file's.
proto::ReadResult read_file(Connection& connection, const proto::ReadRequest& request,
                            const std::function<void(ByteView)>& content);
// Asks `content` for at most so many bytes, until it gives none: the file is complete then.
proto::WriteResult write_file(Connection& connection, const proto::WriteRequest& request,
                              const std::function<ByteView(size_t)>& content);
// Calls `event` for each until the watched thing is gone, or `event` returns false; the connection
// is closed then.
void watch_files(Connection& connection, const proto::WatchRequest& request,
                 const std::function<bool(const proto::WatchEvent&)>& event);

}
