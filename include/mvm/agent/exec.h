#pragma once
// A command in a sandbox over a Connection, without an input: what it prints as it comes, and how
// it ended. The errors of Connection; what `output` throws closes the connection, and so ends the
// command.

#include <functional>

#include "mvm/agent/connection.h"
#include "mvm/proto/exec.h"

namespace mvm::agent {

enum class Stream { Out, Err };

// The pull side, for whoever wants to be the one who asks.
class Command {
 public:
  // Starts it; `request.stdin_open` and `request.tty` must be false.
  Command(Connection& connection, const proto::ExecRequest& request);
  // The next of its output, valid until the next call; nothing once it has ended.
  struct Piece {
    Stream stream = Stream::Out;
    ByteView data;
  };
  std::optional<Piece> next(Limit limit);
  // How it ended; after next() gave nothing.
  const proto::ExecResult& result() const;

 private:
  Connection& connection_;
  size_t taken_ = 0;  // of the piece that was given out
  std::optional<proto::ExecResult> result_;
};

// To its end. `limit` is for each silence; nothing: it may be silent for ever.
proto::ExecResult run_command(Connection& connection, const proto::ExecRequest& request,
                              const std::function<void(Stream, ByteView)>& output,
                              Limit limit = std::nullopt);

}
