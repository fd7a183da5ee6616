#include "mvm/agent/exec.h"

namespace mvm::agent {

Command::Command(Connection& connection, const proto::ExecRequest& request)
    : connection_(connection) {
  MVM_ASSERT(!request.stdin_open && !request.tty && !request.detach);
  connection_.start(request.encode(), Call::Kind::Exec);
}

std::optional<Command::Piece> Command::next(Limit limit) {
  if (result_) return std::nullopt;
  if (taken_ > 0) connection_.consumed(taken_);
  taken_ = 0;
  while (true) {
    const Incoming incoming = connection_.wait(limit);
    switch (incoming.what) {
      case Incoming::What::Stdout:
      case Incoming::What::Stderr:
        taken_ = incoming.payload.size();
        return Piece{incoming.what == Incoming::What::Stdout ? Stream::Out : Stream::Err,
                     incoming.payload};
      case Incoming::What::End: {
        const auto result = proto::ExecResult::decode(incoming.payload);
        if (!result) {
          connection_.close();
          throw Error(Kind::Unavailable,
                      "the sandbox speaks garbage: a command's end that does not decode");
        }
        result_ = *result;
        return std::nullopt;
      }
      default:
        break;  // credit for an input that there is none of
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
