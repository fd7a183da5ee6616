#pragma once
// The client's end of a lane (proto/copy.h): the rest of a put's entry stream goes into a socket
// whose other end the monitor has. The content of large files is moved there page by page
// (splice(2)) and passes neither through this process nor through the sandbox's. That raises
// SIGPIPE when the other end has gone, and there is no flag against it: the process is to ignore
// the signal.

#include "mvm/agent/connection.h"
#include "mvm/agent/tree.h"

namespace mvm::agent {

class Lane {
 public:
  enum class Sent {
    Some,  // more when the socket takes it, or at once: one call does not go on for ever
    All,   // the stream is over
    Lost,  // nobody takes it any more; why is said elsewhere
  };
  // The reader is borrowed.
  Lane(sys::Fd socket, TreeReader& reader);
  Sent send();
  int socket() const { return socket_.get(); }

 private:
  // False when the socket takes no more for now.
  bool send_head();
  bool send_pipe();
  void fill();

  sys::Fd socket_;
  TreeReader* reader_;
  sys::Fd pipe_out_;
  sys::Fd pipe_in_;
  size_t pipe_room_;
  size_t in_pipe_ = 0;
  Bytes head_;  // goes before what is in the pipe
  size_t head_sent_ = 0;
};

}
