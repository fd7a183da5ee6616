#include "mvm/agent/exec.h"

#include <algorithm>

namespace mvm::agent {

Command::Command(Connection& connection, const proto::ExecRequest& request, ByteView input)
    : connection_(connection),
      input_(input),
      input_open_(request.stdin_open),
      redact_(request.redact) {
  MVM_ASSERT(request.stdin_open == !input.empty() && !request.tty && !request.detach);
  connection_.start(request.encode(), Call::Kind::Exec);
}

void Command::send_input() {
  while (!input_.empty() && connection_.room() > 0) {
    const ByteView piece = input_.first(std::min(connection_.room(), input_.size()));
    connection_.send_data(piece);
    input_ = input_.subspan(piece.size());
  }
  if (!input_.empty() || !input_open_) return;
  connection_.send_end_of_data();
  input_open_ = false;
}

std::optional<Command::Piece> Command::redacted(Stream stream, ByteView data) {
  text_.clear();
  redactors_.at(static_cast<size_t>(stream)).feed(as_text(data), text_);
  connection_.consumed(data.size());
  if (text_.empty()) return std::nullopt;  // it is held back
  return Piece{stream, as_bytes(text_)};
}

// What was held back, once nothing follows.
std::optional<Command::Piece> Command::rest() {
  while (redact_ && finished_ < redactors_.size()) {
    text_.clear();
    const size_t stream = finished_++;
    redactors_.at(stream).finish(text_);
    if (!text_.empty()) return Piece{static_cast<Stream>(stream), as_bytes(text_)};
  }
  return std::nullopt;
}

std::optional<Command::Piece> Command::next(Limit limit) {
  if (result_) return rest();
  if (taken_ > 0) connection_.consumed(taken_);
  taken_ = 0;
  while (true) {
    send_input();
    const Incoming incoming = connection_.wait(limit);
    switch (incoming.what) {
      case Incoming::What::Stdout:
      case Incoming::What::Stderr: {
        const auto stream = incoming.what == Incoming::What::Stdout ? Stream::Out : Stream::Err;
        if (redact_) {
          if (auto piece = redacted(stream, incoming.payload)) return piece;
          break;
        }
        taken_ = incoming.payload.size();
        return Piece{stream, incoming.payload};
      }
      case Incoming::What::End: {
        const auto result = proto::ExecResult::decode(incoming.payload);
        if (!result) {
          connection_.close();
          throw Error(Kind::Unavailable,
                      "the sandbox speaks garbage: a command's end that does not decode");
        }
        result_ = *result;
        return rest();
      }
      default:
        break;  // credit for the input
    }
  }
}

const proto::ExecResult& Command::result() const {
  MVM_ASSERT(result_.has_value());
  return *result_;
}

proto::ExecResult run_command(Connection& connection, const proto::ExecRequest& request,
                              const std::function<void(Stream, ByteView)>& output, Limit limit) {
  Command command(connection, request);
  try {
    while (const auto piece = command.next(limit)) output(piece->stream, piece->data);
  } catch (...) {
    connection.close();
    throw;
  }
  return command.result();
}

}
