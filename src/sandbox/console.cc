#include "console.h"

#include <sys/socket.h>

#include "mvm/proto/console.h"

namespace mvm::sandbox {

static int option(int fd, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

// What the monitor may do with it: a file or a device would be another matter.
static bool is_unix_stream(int fd) {
  return option(fd, SO_DOMAIN) == AF_UNIX && option(fd, SO_TYPE) == SOCK_STREAM;
}

static Bytes carry_out(MonitorLink* monitor, proto::Profile profile, ByteView request,
                       const std::vector<sys::Fd>& passed) {
  const auto refuse = [](Kind kind, std::string why) {
    return proto::encode_error({kind, std::move(why)});
  };
  const auto decoded = proto::ConsoleRequest::decode(request);
  if (!decoded) return refuse(Kind::Invalid, "the request does not decode");
  if (profile != proto::Profile::Dev)
    return refuse(Kind::Denied, "the sandbox's profile is " +
                                    std::string(proto::profile_name(profile)) +
                                    ": nobody sits at its console");
  if (passed.size() > 1 || (passed.size() == 1 && !is_unix_stream(passed.front().get())))
    return refuse(Kind::Invalid, "a console takes one Unix stream socket");
  proto::MonitorRequest order;
  order.kind = proto::MonitorRequestKind::Console;
  order.terminal = decoded->size;
  if (monitor == nullptr ||
      !monitor->send(order, passed.empty() ? std::nullopt : std::optional(passed.front().get())))
    return refuse(Kind::Unavailable, "the monitor does not answer");
  return proto::encode_ok();
}

bool answer_console(Mux& mux, MonitorLink* monitor, proto::Profile profile, Asker asker,
                    ByteView request) {
  if (proto::request_verb(request) != proto::kSandboxConsoleVerb) return false;
  const auto passed = mux.take_descriptors(asker.client);
  mux.answer(asker, carry_out(monitor, profile, request, passed));
  return true;
}

}
