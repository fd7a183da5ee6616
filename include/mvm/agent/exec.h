#pragma once
// A command in a sandbox over a Connection: what it prints as it comes, and how it ended. Its input
// is known beforehand, or there is none. The errors of Connection; what `output` throws closes the
// connection, and so ends the command. Where the request says so, personal data and keys in the
// output are replaced, in each stream by itself; then a piece may come later than it was printed,
// by the word that it ends with.

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "mvm/agent/connection.h"
#include "mvm/protect/redact.h"
#include "mvm/proto/exec.h"

namespace mvm::agent {

enum class Stream { Out, Err };

// The pull side, for whoever wants to be the one who asks.
class Command {
 public:
  // Starts it; `request.tty` must be false, and `request.stdin_open` says whether there is an
  // `input`, which is borrowed until the command has ended.
  Command(Connection& connection, const proto::ExecRequest& request, ByteView input = {});
  // The next of its output, valid until the next call; nothing once it has ended.
  struct Piece {
    Stream stream = Stream::Out;
    ByteView data;
  };
  std::optional<Piece> next(Limit limit);
  // How it ended; after next() gave nothing.
  const proto::ExecResult& result() const;

 private:
  void send_input();
  std::optional<Piece> redacted(Stream stream, ByteView data);
  std::optional<Piece> rest();

  Connection& connection_;
  ByteView input_;  // what was not sent yet
  bool input_open_ = false;
  size_t taken_ = 0;  // of the piece that was given out
  bool redact_ = false;
  std::array<protect::Redactor, 2> redactors_;  // by stream
  size_t finished_ = 0;                         // of them
  std::string text_;                            // what was given out
  std::optional<proto::ExecResult> result_;
};

// To its end. `limit` is for each silence; nothing: it may be silent for ever.
proto::ExecResult run_command(Connection& connection, const proto::ExecRequest& request,
                              const std::function<void(Stream, ByteView)>& output,
                              Limit limit = std::nullopt);

}
