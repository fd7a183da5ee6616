#pragma once
// libnl's objects with owners, and its error codes as exceptions.

#include <memory>
#include <string_view>

#include <netlink/addr.h>
#include <netlink/msg.h>
#include <netlink/socket.h>

#include "mvm/base/ip.h"

namespace mvm::net {

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const noexcept {
    kFree(object);
  }
};
using NlSocket = std::unique_ptr<nl_sock, Freed<&nl_socket_free>>;
using NlMessage = std::unique_ptr<nl_msg, Freed<&nlmsg_free>>;
using NlAddress = std::unique_ptr<nl_addr, Freed<&nl_addr_put>>;

NlSocket open_netlink(int protocol);
// `result` of a function of libnl: throws Error when it is negative.
int nl_check(int result, std::string_view doing);
NlAddress nl_address(const IpAddress& address, unsigned length);

}
